/** Changes of transactions as messages. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ChangeSchema } from "../../../gen/palimpsest/v1/change_pb.ts";
import { changeNames, type ChangeNote } from "../../model/core/change-notes.ts";

/** A change as its message: the names that go with its kind. */
export function changeMessage([kind, op, ...names]: ChangeNote): MessageInitShape<typeof ChangeSchema> {
  const named = changeNames[kind].map((name, at) => [name, name === "seq" ? BigInt(names[at]!) : names[at]]);
  return { kind, op, ...Object.fromEntries(named) };
}
