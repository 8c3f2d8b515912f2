/**
 * Searches in a collection of vectors: the nearest ones by one of three metrics, of all or of those that meet a filter.
 *
 * Always true: directions are what is searched, whatever the metric; lengths only re-rank what that search gave. Must
 * not know: how directions are searched.
 */
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkCollectionName, checkText } from "../../format/core/names.ts";
import { parseFilter } from "../docs/docs-filter.ts";
import type { View } from "../core/transaction.ts";
import {
  checkDimension,
  findCollection,
  findOwner,
  readItem,
  vectorIdBytesMax,
  type VectorItem,
} from "./vector-collections.ts";
import { buildCondition, details, computeLength, lengthRange, readLengths } from "./vector-details.ts";
import { declaredMetric, distanceBy, leastDistance, searchedMetric, type VectorMetric } from "./vector-metrics.ts";
import { checkEmbedding, nearest, type OwnerFilter, type VectorSpace } from "./vectors.ts";

const vectorSearchMax = 1000;
/** Numbers of the hits of one answer together. */
const vectorHitNumbersMax = 262_144;
/** Directions that a search by dot product or Euclidean distance asks for before it asks for all of them. */
const vectorMetricLooksMax = 50_000;

/** A vector found, and how far it is by the metric. */
export interface VectorHit extends VectorItem {
  readonly distance: number;
}

interface VectorSearch {
  readonly collection: string;
  /** Either a vector, or the id of one of the collection, which is then no hit itself. */
  readonly vector?: Float32Array;
  readonly id?: string;
  readonly k?: number;
  /** JSON text. */
  readonly filter?: string;
  readonly metric?: string;
  readonly includeVectors?: boolean;
  readonly includeMetadata?: boolean;
}

/** The vectors nearest to a vector, nearest first. An unknown collection has none. `k` above the limit is cut to it. */
export function searchVectors(
  view: View,
  { collection, vector, id, k = limits.vectorSearchDefault, filter, metric, ...shown }: VectorSearch,
): { readonly hits: readonly VectorHit[]; readonly metric?: VectorMetric } {
  checkCollectionName("collection", collection);
  if ((vector === undefined) === (id === undefined)) throw invalid("give either vector or id");
  if (vector !== undefined) checkEmbedding("vector", vector);
  if (id !== undefined) checkText("id", id, vectorIdBytesMax);
  if (!Number.isInteger(k) || k < 1)
    throw invalid(`k must be a whole number from 1; at most ${vectorSearchMax} hits are given`);
  if (filter !== undefined) parseFilter("filter", filter);
  const space = findCollection(view, collection);
  const used = searchedMetric(view, collection, space, metric);
  const self = space && id !== undefined ? findOwner(view, space, id) : undefined;
  if (id !== undefined && self === undefined) throw new ServiceError("not_found", "no vector has this id");
  if (!space) return { hits: [] };
  const declared = declaredMetric(view, space);
  if (vector !== undefined) checkDimension("vector", vector, collection, space);
  const want = Math.min(k, vectorSearchMax);
  if (shown.includeVectors && want * space.dimension > vectorHitNumbersMax)
    throw invalid(
      `k must be at most ${Math.floor(vectorHitNumbersMax / space.dimension)} with include_vectors: an answer holds ` +
        `${vectorHitNumbersMax} numbers, and collection ${collection} has dimension ${space.dimension}`,
    );
  const query = vector ?? readItem(view, space, self!, { includeVectors: true }).embedding!;
  const allowed = without(self, filter === undefined ? undefined : buildFilter(view, filter));
  const found = ranked(view, space, { vector: query, want, metric: used, allowed });
  return {
    hits: found.map(({ owner, distance }) => ({ ...readItem(view, space, owner, shown), distance })),
    ...(declared !== undefined && { metric: declared }),
  };
}

/** The filter, and one owner less. */
function without(self: number | undefined, allowed: OwnerFilter | undefined): OwnerFilter | undefined {
  if (self === undefined) return allowed;
  return (owners) => {
    const others = owners.filter((owner) => owner !== self);
    return allowed && others.length > 0 ? allowed(others) : new Set(others);
  };
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
    // A few lengths far from the others can make every direction count: then all are looked at, so that none is missed.
    const most = ask <= vectorMetricLooksMax ? ask : Number.MAX_SAFE_INTEGER;
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
    const isAll = hits.length < most;
    const last = found[want - 1];
    if (isAll || (last && last.distance <= leastDistance(metric, hits.at(-1)!.similarity, length, range)))
      return found.slice(0, want);
  }
}
