/**
 * How near two vectors are: the metrics, and which one a collection has declared.
 *
 * Owns the table of declared metrics, which is made when the first one is declared: earlier files stay as they are.
 * Always true: a collection's metric never changes; one that has declared none is searched by whichever metric a search
 * names, and by cosine where it names none, as it was before metrics could be declared. Must not know: how vectors are
 * searched.
 */
import { invalid } from "../../base/faults/errors.ts";
import type { Tx, View } from "../core/transaction.ts";
import type { LengthRange } from "./vector-details.ts";
import type { VectorSpace } from "./vectors.ts";

/** The metrics, less being nearer throughout. */
export const vectorMetrics = ["cosine", "dot", "euclid"] as const;
export type VectorMetric = (typeof vectorMetrics)[number];

const table = "__service_vector_metric";
const schema = `CREATE TABLE IF NOT EXISTS ${table} (space INTEGER PRIMARY KEY, metric TEXT NOT NULL) STRICT`;

/** What searches mean that name no metric, in a collection that has declared none. */
const usualMetric: VectorMetric = "cosine";

function checkMetric(name: string): VectorMetric {
  const known = vectorMetrics.find((metric) => metric === name);
  if (known === undefined) throw invalid(`metric must be ${vectorMetrics.join(", ")}`);
  return known;
}

/** The metric that the collection has declared, or undefined. */
export function declaredMetric(view: View, { space }: VectorSpace): VectorMetric | undefined {
  if (!view.connection.hasTable(table)) return undefined;
  return view.connection.get<{ metric: VectorMetric }>(`SELECT metric FROM ${table} WHERE space = ?`, space)?.metric;
}

function refuse(collection: string, declared: VectorMetric, given: VectorMetric): never {
  throw invalid(`metric is ${given}, but collection ${collection} has metric ${declared}, fixed by its first vector`);
}

/** Declares the metric of a collection that is being made, or compares it with that of one that is there. */
export function declareMetric(
  tx: Tx,
  collection: string,
  space: VectorSpace,
  { metric, isNew }: { readonly metric: string; readonly isNew: boolean },
): void {
  const given = checkMetric(metric);
  if (isNew) {
    tx.connection.exec(schema);
    tx.connection.run(`INSERT INTO ${table} (space, metric) VALUES (?, ?)`, space.space, given);
    return;
  }
  const declared = declaredMetric(tx, space);
  if (declared !== undefined && declared !== given) refuse(collection, declared, given);
  if (declared === undefined && given !== usualMetric)
    throw invalid(
      `metric is ${given}, but collection ${collection} was made without one: its searches may name theirs, and mean ` +
        `${usualMetric} otherwise`,
    );
}

/** The metric of a search that names this one or none; `space` is undefined while the collection is not there. */
export function searchedMetric(
  view: View,
  collection: string,
  space: VectorSpace | undefined,
  name: string | undefined,
): VectorMetric {
  const given = name === undefined ? undefined : checkMetric(name);
  const declared = space && declaredMetric(view, space);
  if (declared !== undefined && given !== undefined && declared !== given) refuse(collection, declared, given);
  return declared ?? given ?? usualMetric;
}

/** The distance of two vectors by their cosine and their lengths. */
export function distanceBy(metric: "dot" | "euclid", similarity: number, length: number, other: number): number {
  if (metric === "dot") return -(similarity * length * other);
  return Math.sqrt(Math.max(0, length * length + other * other - 2 * length * other * similarity));
}

/** The least distance of a vector of some length in the range whose similarity is at most this. */
export function leastDistance(
  metric: "dot" | "euclid",
  similarity: number,
  length: number,
  { least, most }: LengthRange,
): number {
  if (metric === "dot") return distanceBy(metric, similarity, length, similarity > 0 ? most : least);
  return distanceBy(metric, similarity, length, Math.min(most, Math.max(least, length * similarity)));
}
