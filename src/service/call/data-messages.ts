/** Small translations that several services share. */
import { create } from "@bufbuild/protobuf";
import { TurnSchema, type Turn, type Vector } from "../../../gen/palimpsest/v1/data_pb.ts";
import type { ProfileActivity } from "../../control/databases/profile-directory.ts";
import { checkEmbedding } from "../../model/vectors/vectors.ts";
import type { TurnRecord } from "../../model/transcript/transcript.ts";
import { setJson } from "./exact-json.ts";

/** The object without its undefined fields, which exact optional types demand. */
export function present<Fields extends object>(
  fields: Fields,
): { [Key in keyof Fields]?: Exclude<Fields[Key], undefined> } {
  const kept: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(fields)) if (value !== undefined) kept[key] = value;
  return kept as { [Key in keyof Fields]?: Exclude<Fields[Key], undefined> };
}

/** The embedding of a message field; what it may hold is checked by the model. */
export function toEmbedding(vector: Vector | undefined): Float32Array | undefined {
  return vector && Float32Array.from(vector.values);
}

/** The embedding of a message field that must be there; refuses one that no space could hold. */
export function requiredVector(field: string, vector: Vector | undefined): Float32Array {
  const embedding = toEmbedding(vector) ?? new Float32Array(0);
  checkEmbedding(field, embedding);
  return embedding;
}

export function turnMessage(turn: TurnRecord): Turn {
  const message = create(TurnSchema, {
    sessionId: turn.sessionId,
    seq: BigInt(turn.seq),
    role: turn.role,
    createdAt: BigInt(turn.createdAt),
    ...present({ distance: turn.distance, turnId: turn.turnId, subject: turn.subject }),
  });
  setJson(message, "content", turn.content);
  if (turn.metadata !== undefined) setJson(message, "metadata", turn.metadata);
  return message;
}

/** When the branch was last written, and how large it is, as fields of a message. */
export function activityFields(activity: ProfileActivity | undefined): { lastActiveAt?: bigint; bytes?: bigint } {
  return activity ? { lastActiveAt: BigInt(activity.lastActiveAtMs), bytes: BigInt(activity.bytes) } : {};
}
