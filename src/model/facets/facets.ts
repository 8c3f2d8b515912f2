/**
 * What is in a database, by kind: an overview of all kinds, or page by page what there is of one.
 *
 * Always true: all that an answer says is of one state. Must not know: how a kind is counted.
 */
import { invalid } from "../../base/faults/errors.ts";
import type { View } from "../core/transaction.ts";
import { decodeCursor, encodeCursor, Looks, type Facet, type Lister } from "./facet.ts";
import {
  listMemoryMetadata,
  listSessionFacets,
  listSources,
  listTopics,
  listTurnMetadata,
  listTypes,
} from "./memory-facets.ts";
import {
  listDocCollections,
  listFolders,
  listKeySpaces,
  listSubjects,
  listTables,
  listVectorCollections,
} from "./store-facets.ts";

export const facetsDefault = 20;
const facetsMax = 1_000;
/** Rows that one call looks at. */
const looksMax = 200_000;

export const facetKinds: Readonly<Record<string, Lister>> = {
  types: listTypes,
  topics: listTopics,
  sources: listSources,
  sessions: listSessionFacets,
  memory_metadata: listMemoryMetadata,
  turn_metadata: listTurnMetadata,
  keys: listKeySpaces,
  documents: listDocCollections,
  vectors: listVectorCollections,
  files: listFolders,
  tables: listTables,
  subjects: listSubjects,
};

/** The facets of one kind. */
export interface FacetGroup {
  readonly kind: string;
  readonly facets: readonly Facet[];
  readonly nextCursor?: string;
  /** Facets may be missing. */
  readonly isApproximate?: boolean;
}

/** The first facets of every kind that there is something of, or a page of one kind. */
export function listFacets(
  view: View,
  {
    kind,
    limit = facetsDefault,
    cursor,
  }: { readonly kind?: string; readonly limit?: number; readonly cursor?: string },
): { readonly groups: readonly FacetGroup[] } {
  if (!Number.isInteger(limit) || limit < 1)
    throw invalid(`limit must be a whole number from 1; at most ${facetsMax} facets of a kind are given`);
  if (kind !== undefined && !Object.hasOwn(facetKinds, kind))
    throw invalid(`kind must be ${Object.keys(facetKinds).join(", ")}`);
  if (cursor !== undefined && kind === undefined) throw invalid("cursor goes with kind only");
  const page = Math.min(limit, facetsMax);
  if (kind !== undefined) {
    const after = cursor === undefined ? undefined : decodeCursor(kind, cursor);
    return { groups: [groupOf(view, kind, { after, limit: page, looks: new Looks(looksMax) })] };
  }
  const each = looksMax / Object.keys(facetKinds).length;
  const groups = Object.keys(facetKinds).map((name) =>
    groupOf(view, name, { after: undefined, limit: page, looks: new Looks(each) }),
  );
  return { groups: groups.filter(({ facets }) => facets.length > 0) };
}

function groupOf(view: View, kind: string, query: Parameters<Lister>[1]): FacetGroup {
  const { facets, last, isApproximate = false } = facetKinds[kind]!(view, query);
  return {
    kind,
    facets,
    ...(last && { nextCursor: encodeCursor(kind, last) }),
    ...(isApproximate && { isApproximate }),
  };
}
