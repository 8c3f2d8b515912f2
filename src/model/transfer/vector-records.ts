/**
 * Vectors as records: the spaces, which fix dimensions and who made the vectors, then the vectors of the collections.
 * Those of memories and turns are fields of these.
 *
 * Always true: a vector is written as it is stored, of length 1, with its own length beside it; so it comes back bit by
 * bit.
 */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkCollectionName } from "../../format/core/names.ts";
import { subjectColumn } from "../core/subjects.ts";
import type { Tx, View } from "../core/transaction.ts";
import { readMetadata } from "../docs/memory-metadata.ts";
import { findMaker, openEmbeddedSpace } from "../memory/memory-vectors.ts";
import { openCollection, restoreVector, vectorIdBytesMax } from "../vectors/vector-collections.ts";
import { details } from "../vectors/vector-details.ts";
import { declaredMetric, type VectorMetric, vectorMetrics } from "../vectors/vector-metrics.ts";
import { findSpace, type SpaceKind } from "../vectors/vectors.ts";
import { isErasedSubject, isTarget } from "./erased.ts";
import { formLine, isStored, plain, readSubject, type RecordKind, vectorJson } from "./record.ts";

interface SpaceRow {
  readonly space: number;
  readonly of: SpaceKind;
  readonly name: string;
  readonly dimension: number;
}

interface SpaceRecord {
  readonly of: SpaceKind;
  readonly name: string;
  readonly dimension: number;
  readonly embedder: string | undefined;
  readonly floor: number;
  readonly metric: VectorMetric | undefined;
}

/** The spaces in use; those that are being abandoned have another name than their kind. */
function spacesFrom({ connection }: View, from: number): readonly SpaceRow[] {
  return connection.all(
    `SELECT space, kind AS "of", name, dimension FROM __service_vector_space
     WHERE space >= ? AND (kind = 'collection' OR name = kind) ORDER BY space`,
    from,
  );
}

export const spaceRecords: RecordKind<SpaceRecord> = {
  kind: "vector_space",
  tables: {
    __service_vector_space: { exported: ["kind", "name", "dimension"], derived: { space: "given anew" } },
    __service_vector_metric: { exported: ["metric"], derived: { space: "the record's own" } },
    __service_vector_maker: { exported: ["name", "floor"], derived: { space: "the record's own" } },
  },

  *rows(view, after) {
    for (const row of spacesFrom(view, ((after?.[0] as number | undefined) ?? 0) + 1)) {
      const maker = row.of === "collection" ? undefined : findMaker(view, row);
      yield {
        position: [row.space],
        line: formLine("vector_space", {
          of: plain(row.of),
          name: row.of === "collection" ? plain(row.name) : undefined,
          dimension: plain(row.dimension),
          embedder: plain(maker?.name ?? null),
          floor: plain(maker?.floor ?? null),
          metric: row.of === "collection" ? plain(declaredMetric(view, row) ?? null) : undefined,
        }),
      };
    }
  },

  read(fields) {
    const of = fields.oneOf("of", ["memory", "turn", "collection"] as const);
    const name = of === "collection" ? checkCollectionName("name", fields.text("name", limits.nameCharsMax)) : of;
    const dimension = fields.count("dimension", limits.vectorDimensionMax);
    if (dimension < 1) throw invalid("dimension must be at least 1");
    const embedder = of === "collection" ? undefined : fields.maybeText("embedder", 256);
    const floor = embedder === undefined ? undefined : fields.maybeNumber("floor");
    const named = of === "collection" ? fields.maybeText("metric", 16) : undefined;
    const metric = vectorMetrics.find((one) => one === named);
    if (named !== undefined && metric === undefined) throw invalid(`metric must be one of ${vectorMetrics.join(", ")}`);
    return { of, name, dimension, embedder, floor: floor ?? 0, metric };
  },

  find(view, { of, name, dimension, embedder, metric }) {
    const there = findSpace(view, of, name);
    if (!there) return "absent";
    const isSame = there.dimension === dimension && findMaker(view, there)?.name === embedder;
    return isSame && (of !== "collection" || declaredMetric(view, there) === metric) ? "same" : "blocked";
  },

  write(tx, { of, name, dimension, embedder, floor, metric }) {
    if (of === "collection") openCollection(tx, name, dimension, metric);
    else openEmbeddedSpace(tx, of, dimension, embedder === undefined ? undefined : { name: embedder, floor });
  },
};

interface VectorRow {
  readonly owner: number;
  readonly id: string;
  readonly embedding: Uint8Array;
  readonly length: number;
  readonly metadata: string | null;
  readonly subject: string | null;
}

interface VectorRecord {
  readonly collection: string;
  readonly id: string;
  readonly vector: Float32Array;
  readonly length: number;
  readonly metadata: string | undefined;
  readonly subject: string | undefined;
}

function selectVectors(view: View, condition: string): string {
  const { join, length, metadata } = details(view);
  return `SELECT i.owner, i.id, v.embedding, ${length} AS length, ${metadata} AS metadata,
      ${subjectColumn(view, "vector", "i.owner")} AS subject
    FROM __service_vector_item AS i CROSS JOIN __service_vector AS v ON v.space = i.space AND v.owner = i.owner ${join}
    WHERE i.space = ? AND ${condition}`;
}

export const vectorRecords: RecordKind<VectorRecord> = {
  kind: "vector",
  tables: {
    __service_vector: {
      exported: ["embedding"],
      derived: { row: "given anew", space: "the record's", owner: "likewise" },
    },
    __service_vector_item: { exported: ["id"], derived: { owner: "given anew", space: "the record's collection" } },
    __service_vector_detail: {
      exported: ["length", "metadata"],
      derived: { owner: "the record's own", space: "the record's collection" },
    },
  },

  *rows(view, after) {
    const [from = 0, behind = 0] = (after ?? []) as readonly number[];
    for (const { space, of, name } of spacesFrom(view, from)) {
      if (of !== "collection") continue;
      const rows = view.connection
        .prepared(selectVectors(view, "i.owner > ? ORDER BY i.owner"))
        .iterate(space, space === from ? behind : 0) as Iterable<VectorRow>;
      for (const { owner, id, embedding, length, metadata, subject } of rows)
        yield {
          position: [space, owner],
          line: formLine("vector", {
            collection: plain(name),
            id: plain(id),
            subject: plain(subject),
            vector: vectorJson(embedding),
            length: length === 1 ? undefined : plain(length),
            metadata: metadata ?? undefined,
          }),
        };
    }
  },

  read(fields) {
    const collection = checkCollectionName("collection", fields.text("collection", limits.nameCharsMax));
    const id = fields.text("id", vectorIdBytesMax);
    const vector = fields.maybeVector("vector");
    if (!vector) throw invalid("vector is missing");
    const length = fields.maybeNumber("length") ?? 1;
    if (!(length > 0)) throw invalid("length must be above 0");
    const metadata = fields.maybeJson("metadata");
    return {
      ...{ collection, id, vector, length },
      subject: readSubject(fields),
      metadata: metadata === undefined ? undefined : readMetadata("metadata", metadata),
    };
  },

  find(view, { collection, id, vector, length, metadata, subject }) {
    const space = findSpace(view, "collection", collection);
    if (!space) return "absent";
    if (space.dimension !== vector.length) return "blocked";
    const there = view.connection.get<VectorRow>(selectVectors(view, "i.id = ?"), space.space, id);
    if (!there) return "absent";
    const isSame =
      isStored(there.embedding, vector) &&
      there.length === length &&
      there.metadata === (metadata ?? null) &&
      there.subject === (subject ?? null);
    return isSame ? "same" : "different";
  },

  write(tx: Tx, { collection, vector, ...rest }) {
    restoreVector(tx, collection, { unit: vector, ...rest });
  },

  isErased: (_view, { collection, id, subject }, erased) =>
    isErasedSubject(erased, subject) ||
    isTarget(
      erased,
      undefined,
      (target) => target.kind === "vector" && target.collection === collection && target.id === id,
    ),
};
