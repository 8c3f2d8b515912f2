/** The transcript over the wires: turns are appended, listed and searched. */
import type { DataService, ListTurnsRequest } from "../../../gen/palimpsest/v1/data_pb.ts";
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { parseDatabaseSpec, parseProfileDatabaseName } from "../../format/core/names.ts";
import { checkTurnList, type TurnListInput } from "../../model/transcript/turn-list.ts";
import { engineOptions, seen, type ServiceHandlers } from "../call/context.ts";
import { present, requiredVector, turnMessage } from "../call/data-messages.ts";
import { jsonText } from "../call/exact-json.ts";
import type { NodeParts } from "./node-parts.ts";
import { databaseTarget } from "./targets.ts";

type TranscriptHandlers = Pick<ServiceHandlers<typeof DataService>, "appendTurn" | "listTurns" | "searchTurns">;

/** Appends a turn. Its text becomes a vector here, when the caller gave none and a policy lets text out. */
function appendTurn(node: NodeParts): TranscriptHandlers["appendTurn"] {
  return async (request, context) => {
    const content = jsonText(request, "content") ?? "null";
    const embedding = request.embedding && requiredVector("embedding", request.embedding);
    const input = {
      sessionId: request.session,
      role: request.role,
      content,
      ...present({ embedding, subject: request.subject }),
    };
    const target = await databaseTarget(node, context, request.db);
    // Only a namespace has a policy that lets text out.
    const owner = parseProfileDatabaseName(parseDatabaseSpec(request.db).name);
    const prepared = owner && !embedding ? await node.embedding?.turn(context, { ...owner, target }, input) : undefined;
    const { value, txid } = seen(
      context,
      await node.engine.write(target, "turn.append", prepared?.input ?? input, engineOptions(context, content.length)),
    );
    prepared?.written();
    return {
      seq: BigInt(value.seq),
      txid,
      ...present({ embedding: value.embedding === "stored" ? undefined : value.embedding }),
    };
  };
}

/** The page that is asked for; undefined when the last turns are. */
function parsePage(request: ListTurnsRequest, sessionId: string): TurnListInput | undefined {
  const { last, order, limit, cursor, fromSeq, toSeq, role, subject, filter } = request;
  const asked = present({
    order,
    limit,
    cursor,
    fromSeq: fromSeq === undefined ? undefined : Number(fromSeq),
    toSeq: toSeq === undefined ? undefined : Number(toSeq),
    role,
    subject,
    filter,
  });
  if (Object.keys(asked).length === 0) return undefined;
  if (last !== undefined)
    throw invalid("give last alone, or order, limit, cursor, from_seq, to_seq, role, subject and filter without it");
  const page = { sessionId, ...asked };
  checkTurnList(page);
  return page;
}

/** The handlers of the transcript. */
export function transcriptHandlers(node: NodeParts): TranscriptHandlers {
  return {
    appendTurn: appendTurn(node),
    async listTurns(request, context) {
      const sessionId = request.session;
      const page = parsePage(request, sessionId);
      const target = await databaseTarget(node, context, request.db);
      if (page) {
        const { value, txid } = seen(
          context,
          await node.engine.read(target, "turn.list", page, engineOptions(context)),
        );
        return { turns: value.turns.map(turnMessage), txid, ...present({ nextCursor: value.nextCursor }) };
      }
      const last = request.last ?? limits.turnsDefault;
      const { value, txid } = seen(
        context,
        await node.engine.read(target, "turn.last", { sessionId, last }, engineOptions(context)),
      );
      return { turns: value.turns.map(turnMessage), txid };
    },
    async searchTurns(request, context) {
      const sessionId = request.session;
      const vector = requiredVector("vector", request.vector);
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(
        context,
        await node.engine.read(
          target,
          "turn.search",
          { sessionId, vector, k: request.k ?? limits.turnSearchDefault },
          engineOptions(context),
        ),
      );
      return { turns: value.turns.map(turnMessage), txid };
    },
  };
}
