/**
 * Searches in a collection of vectors: the nearest ones by one of three metrics, of all or of those that meet a filter.
 *
 * Always true: directions are what is searched, whatever the metric; lengths only re-rank what that search gave. Must
 * not know: how directions are searched.
 */
import { assert } from "../../base/faults/assert.ts";
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkCollectionName } from "../../format/core/names.ts";
import { parseFilter } from "../docs/docs-filter.ts";
import type { View } from "../core/transaction.ts";
import { checkDimension, findCollection, type VectorItem } from "./vector-collections.ts";
import {
  buildCondition,
  details,
  computeLength,
  lengthRange,
  readLengths,
  type LengthRange,
} from "./vector-details.ts";
import { checkEmbedding, nearest, type OwnerFilter, type VectorSpace } from "./vectors.ts";

const vectorSearchMax = 1000;
/** Directions that a search by dot product or Euclidean distance looks at before it settles for the best of them. */
const vectorMetricLooksMax = 50_000;

/** How near two vectors are, less being nearer throughout. */
const vectorMetrics = ["cosine", "dot", "euclid"] as const;
type VectorMetric = (typeof vectorMetrics)[number];

/** A vector found, and how far it is by the metric. */
export interface VectorHit extends VectorItem {
  readonly distance: number;
}

interface VectorSearch {
  readonly collection: string;
  readonly vector: Float32Array;
  readonly k?: number;
  /** JSON text. */
  readonly filter?: string;
  readonly metric?: string;
}

/** The vectors nearest to a vector, nearest first. An unknown collection has none. `k` above the limit is cut to it. */
export function searchVectors(
  view: View,
  { collection, vector, k = limits.vectorSearchDefault, filter, metric = "cosine" }: VectorSearch,
): { readonly hits: readonly VectorHit[] } {
  checkCollectionName("collection", collection);
  checkEmbedding("vector", vector);
  if (!Number.isInteger(k) || k < 1)
    throw invalid(`k must be a whole number from 1; at most ${vectorSearchMax} hits are given`);
  const known = vectorMetrics.find((name) => name === metric);
  if (known === undefined) throw invalid(`metric must be ${vectorMetrics.join(", ")}`);
  if (filter !== undefined) parseFilter("filter", filter);
  const space = findCollection(view, collection);
  if (!space) return { hits: [] };
  checkDimension("vector", vector, collection, space);
  const allowed = filter === undefined ? undefined : buildFilter(view, filter);
  const found = ranked(view, space, { vector, want: Math.min(k, vectorSearchMax), metric: known, allowed });
  return { hits: found.map(({ owner, distance }) => ({ ...readItem(view, owner), distance })) };
}

function buildFilter(view: View, filter: string): OwnerFilter {
  const { sql, params } = buildCondition(view, filter);
  const { join } = details(view);
  const query =
    "SELECT i.owner FROM json_each(?) AS asked CROSS JOIN __service_vector_item AS i ON i.owner = " +
    `asked.value ${join} WHERE ${sql}`;
  return (owners) =>
    new Set(view.connection.all<{ owner: number }>(query, JSON.stringify(owners), ...params).map(({ owner }) => owner));
}

function readItem(view: View, owner: number): VectorItem {
  const { join, metadata } = details(view);
  const item = view.connection.get<{ id: string; metadata: string | null }>(
    `SELECT i.id, ${metadata} AS metadata FROM __service_vector_item AS i ${join} WHERE i.owner = ?`,
    owner,
  );
  assert(item, "every vector of a collection belongs to an item");
  return { id: item.id, ...(item.metadata !== null && { metadata: item.metadata }) };
}

interface Ranking {
  readonly vector: Float32Array;
  readonly want: number;
  readonly metric: VectorMetric;
  readonly allowed: OwnerFilter | undefined;
}

interface Ranked {
  readonly owner: number;
  readonly distance: number;
}

/**
 * The nearest by the metric. Directions are searched, as for cosine; more of them are asked for until no direction
 * beyond the last one could hold a vector that is nearer than the ones that are wanted, whatever its length.
 */
function ranked(view: View, space: VectorSpace, { vector, want, metric, allowed }: Ranking): readonly Ranked[] {
  if (metric === "cosine")
    return nearest(view, space, vector, want, allowed).hits.map(({ owner, similarity }) => ({
      owner,
      distance: 1 - similarity,
    }));
  const length = computeLength(vector);
  const range = lengthRange(view, space);
  for (let ask = 4 * want + 64; ; ask *= 8) {
    const most = Math.min(ask, vectorMetricLooksMax);
    const { hits } = nearest(view, space, vector, most, allowed);
    const lengths = readLengths(
      view,
      hits.map(({ owner }) => owner),
    );
    const found = hits.map(({ owner, similarity }) => ({
      owner,
      distance: distanceBy(metric, similarity, length, lengths.get(owner) ?? 1),
    }));
    found.sort((a, b) => a.distance - b.distance || a.owner - b.owner);
    const isAll = hits.length < most || most === vectorMetricLooksMax;
    const last = found[want - 1];
    if (isAll || (last && last.distance <= leastDistance(metric, hits.at(-1)!.similarity, length, range)))
      return found.slice(0, want);
  }
}

function distanceBy(metric: "dot" | "euclid", similarity: number, length: number, other: number): number {
  if (metric === "dot") return -(similarity * length * other);
  return Math.sqrt(Math.max(0, length * length + other * other - 2 * length * other * similarity));
}

/** The least distance of a vector of some length in the range whose similarity is at most this. */
function leastDistance(
  metric: "dot" | "euclid",
  similarity: number,
  length: number,
  { least, most }: LengthRange,
): number {
  if (metric === "dot") return distanceBy(metric, similarity, length, similarity > 0 ? most : least);
  return distanceBy(metric, similarity, length, Math.min(most, Math.max(least, length * similarity)));
}
