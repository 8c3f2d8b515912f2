/** Many turns at once over the wires: appended, deleted, put in the place of others. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  AppendedTurnSchema,
  DataService,
  DeleteTurnsRequest,
  TurnInput,
} from "../../../gen/palimpsest/v1/data_pb.ts";
import { parseDatabaseSpec, parseProfileDatabaseName } from "../../format/core/names.ts";
import type { WriteInput, WriteOutput } from "../../model/commands.ts";
import type { NewTurn } from "../../model/transcript/transcript.ts";
import { readAppend, readReplacement, type Appended } from "../../model/transcript/turn-batches.ts";
import { checkDeleteTurns, type DeleteTurnsInput } from "../../model/transcript/turn-removal.ts";
import { engineOptions, seen, type Context, type ServiceHandlers } from "../call/context.ts";
import { present, requiredVector } from "../call/data-messages.ts";
import { jsonText } from "../call/exact-json.ts";
import type { NodeParts } from "./node-parts.ts";
import { databaseTarget } from "./targets.ts";

type TurnBatchHandlers = Pick<ServiceHandlers<typeof DataService>, "appendTurns" | "deleteTurns" | "replaceTurns">;

function parseTurn(turn: TurnInput, at: number): NewTurn {
  return {
    role: turn.role,
    content: jsonText(turn, "content") ?? "null",
    ...present({
      turnId: turn.turnId,
      metadata: jsonText(turn, "metadata"),
      subject: turn.subject,
      embedding: turn.embedding && requiredVector(`turns[${at}].embedding`, turn.embedding),
    }),
  };
}

function sumBytes(turns: readonly NewTurn[]): number {
  return turns.reduce((sum, { content, metadata }) => sum + content.length + (metadata?.length ?? 0), 0);
}

/**
 * Runs the write with the vectors of the node's embedder, where a policy lets the turns' texts out: only a namespace
 * has one.
 */
async function writeTurns<Kind extends "turn.append_many" | "turn.replace">(
  node: NodeParts,
  context: Context,
  db: string,
  command: Kind,
  input: WriteInput<Kind>,
): Promise<{ readonly value: WriteOutput<Kind>; readonly txid: bigint }> {
  const target = await databaseTarget(node, context, db);
  const owner = parseProfileDatabaseName(parseDatabaseSpec(db).name);
  const prepared = owner && (await node.embedding?.turns(context, { ...owner, target }, input.turns));
  const answer = await node.engine.write(
    target,
    command,
    { ...input, turns: prepared?.input ?? input.turns },
    engineOptions(context, sumBytes(input.turns)),
  );
  prepared?.written();
  return seen(context, answer);
}

function appendedMessage({ seq, status, embedding }: Appended): MessageInitShape<typeof AppendedTurnSchema> {
  return { seq: BigInt(seq), status, ...present({ embedding: embedding === "stored" ? undefined : embedding }) };
}

function parseDeletion(request: DeleteTurnsRequest): DeleteTurnsInput {
  const { last, fromSeq, seq, turnId, all, operationId } = request;
  return {
    sessionId: request.session,
    ...present({
      last,
      fromSeq: fromSeq === undefined ? undefined : Number(fromSeq),
      seq: seq === undefined ? undefined : Number(seq),
      turnId,
      all: all || undefined,
      operationId,
    }),
  };
}

/** The handlers of many turns. */
export function turnBatchHandlers(node: NodeParts): TurnBatchHandlers {
  return {
    async appendTurns(request, context) {
      const input = readAppend({
        sessionId: request.session,
        turns: request.turns.map(parseTurn),
        ...present({ operationId: request.operationId }),
      });
      const { value, txid } = await writeTurns(node, context, request.db, "turn.append_many", input);
      return { turns: value.turns.map(appendedMessage), txid };
    },
    async deleteTurns(request, context) {
      const input = parseDeletion(request);
      checkDeleteTurns(input);
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(
        context,
        await node.engine.write(target, "turn.delete", input, engineOptions(context)),
      );
      return { ...value, txid };
    },
    async replaceTurns(request, context) {
      const input = readReplacement({
        sessionId: request.session,
        expected: request.expected.map(({ seq, turnId, contentSha256 }) =>
          present({ seq: seq === undefined ? undefined : Number(seq), turnId, contentSha256 }),
        ),
        turns: request.turns.map(parseTurn),
        ...present({ operationId: request.operationId }),
      });
      const { value, txid } = await writeTurns(node, context, request.db, "turn.replace", input);
      return { removed: value.removed, turns: value.turns.map(appendedMessage), txid };
    },
  };
}
