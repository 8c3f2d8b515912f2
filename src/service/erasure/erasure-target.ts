/** What is to be erased, as a request names it and as a coupon tells it. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { CreateErasureRequest, ErasureTargetSchema } from "../../../gen/palimpsest/v1/memory_pb.ts";
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { ErasureTarget } from "../../format/erasure/erasure-receipt.ts";
import { checkCollectionName, checkKvKey, checkSessionId, checkText } from "../../format/core/names.ts";
import { checkSubject } from "../../model/core/subjects.ts";
import { docIdBytesMax } from "../../model/docs/docs.ts";
import { checkFilePath } from "../../model/files/file-path.ts";
import { memoryTypes, type MemoryType } from "../../model/memory/memory-record.ts";
import { checkSeq } from "../../model/transcript/turn-removal.ts";
import { vectorIdBytesMax } from "../../model/vectors/vector-collections.ts";

/** How the target of each kind is read from a request that has its field. */
const targets: readonly {
  readonly names: string;
  readonly isGiven: (request: CreateErasureRequest) => boolean;
  readonly parse: (request: CreateErasureRequest) => ErasureTarget;
}[] = [
  {
    names: "memory_id",
    isGiven: ({ memoryId }) => memoryId !== undefined,
    parse: ({ memoryId }) => ({ kind: "memory", memoryId: memoryId! }),
  },
  {
    names: "topic_key (with type)",
    isGiven: ({ topicKey, type }) => topicKey !== undefined || type !== undefined,
    parse: ({ topicKey, type }) => {
      if (topicKey === undefined) throw invalid("type goes with topic_key only");
      if (type === undefined) throw invalid(`topic_key needs type, one of ${memoryTypes.join(", ")}`);
      if (!memoryTypes.includes(type as MemoryType)) throw invalid(`type must be one of ${memoryTypes.join(", ")}`);
      return { kind: "topic", topicKey: checkText("topic_key", topicKey, limits.topicKeyBytesMax), type };
    },
  },
  {
    names: "session_id (with turns, or with seq)",
    isGiven: ({ sessionId, turns, seq }) => sessionId !== undefined || turns || seq !== undefined,
    parse: ({ sessionId, turns, seq }) => {
      if (sessionId === undefined) throw invalid(`${turns ? "turns" : "seq"} goes with session_id only`);
      checkSessionId(sessionId);
      if (seq === undefined) return { kind: "session", sessionId, turns };
      if (turns) throw invalid("turns and seq exclude each other: all turns, or one");
      checkSeq("seq", Number(seq));
      return { kind: "turn", sessionId, seq: Number(seq) };
    },
  },
  {
    names: "path",
    isGiven: ({ path }) => path !== undefined,
    parse: ({ path }) => ({ kind: "path", path: checkFilePath("path", path!) }),
  },
  {
    names: "kv_ns with key",
    isGiven: ({ kvNs, key }) => kvNs !== undefined || key !== undefined,
    parse: ({ kvNs, key }) => {
      if (kvNs === undefined || key === undefined) throw invalid("kv_ns and key go together");
      checkCollectionName("kv_ns", kvNs);
      checkKvKey(key);
      return { kind: "key", ns: kvNs, key };
    },
  },
  {
    names: "collection with doc_id",
    isGiven: ({ collection, docId }) => collection !== undefined || docId !== undefined,
    parse: ({ collection, docId }) => {
      if (collection === undefined || docId === undefined) throw invalid("collection and doc_id go together");
      checkCollectionName("collection", collection);
      return { kind: "document", collection, id: checkText("doc_id", docId, docIdBytesMax) };
    },
  },
  {
    names: "vector_collection with vector_id",
    isGiven: ({ vectorCollection, vectorId }) => vectorCollection !== undefined || vectorId !== undefined,
    parse: ({ vectorCollection: collection, vectorId }) => {
      if (collection === undefined || vectorId === undefined)
        throw invalid("vector_collection and vector_id go together");
      checkCollectionName("vector_collection", collection);
      return { kind: "vector", collection, id: checkText("vector_id", vectorId, vectorIdBytesMax) };
    },
  },
  {
    names: "subject",
    isGiven: ({ subject }) => subject !== undefined,
    parse: ({ subject }) => ({ kind: "subject", subject: checkSubject("subject", subject!) }),
  },
];

/** The one target of the request. Throws invalid_request for none, for several and for half of one. */
export function parseTarget(request: CreateErasureRequest): ErasureTarget {
  const [given, ...more] = targets.filter(({ isGiven }) => isGiven(request));
  if (!given || more.length > 0)
    throw invalid(`give exactly one target: ${targets.map(({ names }) => names).join(", ")}`);
  return given.parse(request);
}

export function targetMessage(target: ErasureTarget): MessageInitShape<typeof ErasureTargetSchema> {
  switch (target.kind) {
    case "memory":
      return { memoryId: target.memoryId };
    case "topic":
      return { topicKey: target.topicKey, type: target.type };
    case "session":
      return { sessionId: target.sessionId, turns: target.turns };
    case "turn":
      return { sessionId: target.sessionId, seq: BigInt(target.seq) };
    case "path":
      return { path: target.path };
    case "key":
      return { kvNs: target.ns, key: target.key };
    case "document":
      return { collection: target.collection, docId: target.id };
    case "vector":
      return { vectorCollection: target.collection, vectorId: target.id };
    case "subject":
      return { subject: target.subject };
  }
}
