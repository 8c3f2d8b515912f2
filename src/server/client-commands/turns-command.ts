/** `palimpsest turns`: sessions, and what was said in one. */
import { Command, Option } from "commander";
import type { DeleteTurnsRequest, Turn } from "../../../clients/typescript/src/index.ts";
import { toWire } from "../../../clients/typescript/src/codec.ts";
import { CommandFailure } from "../client-session/command-failure.ts";
import { visibleText } from "../terminal/visible-text.ts";
import { readInput } from "../client-session/input.ts";
import { first } from "./memory-commands.ts";
import { shownTime, shownValue } from "./memory-lines.ts";
import { parseCount, type Bind, type Session } from "../client-session/session.ts";

const listDefault = 50;

interface ListFlags {
  readonly limit: number;
  readonly all?: boolean;
}

interface DeleteFlags {
  readonly last?: number;
  readonly from?: number;
}

export function turnsCommand(bind: Bind): Command {
  const list = new Command("list")
    .description("the sessions, or the newest turns of one, in the order of the talk")
    .argument("[session]", "a session")
    .addOption(new Option("--limit <count>", "so many at most").argParser(parseCount).default(listDefault))
    .option("--all", "all of them");
  const add = new Command("add")
    .description("append a turn to a session")
    .argument("<session>", "a session; the first turn begins it")
    .argument("<text>", "what was said; - reads it from standard input")
    .addOption(new Option("--role <role>", "who spoke").default("user"));
  const remove = new Command("delete")
    .description("delete the last turns of a session, or those from one on")
    .argument("<session>", "the session")
    .addOption(new Option("--last <count>", "so many").argParser(parseCount))
    .addOption(new Option("--from <seq>", "from this number on").argParser(parseCount).conflicts("last"))
    .option("--yes", "do not ask");
  return new Command("turns")
    .description("transcripts of sessions")
    .addCommand(
      bind<ListFlags>(list, "palimpsest turns list chat-1 --limit 10", (session, { limit, all }, [id]) =>
        id === undefined
          ? listSessions(session, all ? Infinity : limit)
          : listTurns(session, id, all ? undefined : limit),
      ),
      { isDefault: true },
    )
    .addCommand(
      bind<{ readonly role: string }>(
        add,
        'palimpsest turns add chat-1 "Which theme do I like?" --role user',
        async (session, { role }, [id, text]) => {
          const content = text === "-" ? await readInput(session.around, "-") : text!;
          const { output } = session;
          const added = await session.database.turns(id!).add({ role, content });
          if (output.isForPeople) output.lines([`turn ${added.seq} of ${visibleText(id!)}`]);
          else output.json(toWire(added, "AppendTurnResponse"));
        },
      ),
    )
    .addCommand(
      bind<DeleteFlags>(
        remove,
        "palimpsest turns delete chat-1 --last 2 --yes",
        async (session, { last, from }, [id]) => {
          if (last === undefined && from === undefined) throw new CommandFailure(2, "say how many: --last or --from");
          await session.agree(`Delete turns of ${visibleText(id!)}?`);
          await deleteTurns(session, id!, last === undefined ? { fromSeq: from } : { last });
        },
      ),
    );
}

async function deleteTurns(
  { database, output, progress }: Session,
  id: string,
  which: DeleteTurnsRequest,
): Promise<void> {
  const turns = database.turns(id);
  let deleted = 0;
  for (let more = true; more; progress.tell(`${deleted} deleted`)) {
    const done = await turns.delete(which);
    deleted += done.deleted;
    more = done.more;
  }
  progress.clear();
  if (output.isForPeople) output.lines([`${deleted} deleted`]);
  else output.json({ deleted });
}

async function listSessions({ profile, output }: Session, limit: number): Promise<void> {
  const rows: string[][] = [];
  let count = 0;
  for await (const one of first(profile.sessions({ includeTurns: true }), limit)) {
    count++;
    if (output.isForPeople)
      rows.push([one.id, String(one.turns ?? 0), shownTime(one.createdAt), shownTime(one.lastActiveAt)]);
    else output.json(toWire(one, "Session"));
  }
  if (count === 0) return output.remark("there is no session");
  if (!output.isForPeople) return;
  output.table(
    [
      { title: "SESSION", paint: output.style.named, loose: true },
      { title: "TURNS", right: true },
      { title: "BEGAN" },
      { title: "ACTIVE" },
    ],
    rows,
  );
}

async function listTurns({ database, output }: Session, id: string, limit: number | undefined): Promise<void> {
  const turns = database.turns(id);
  const shown: AsyncIterable<Turn> | Iterable<Turn> = limit === undefined ? turns.list() : await turns.last(limit);
  let count = 0;
  for await (const turn of shown) {
    count++;
    if (!output.isForPeople) output.json(toWire(turn, "Turn"));
    else {
      const { faint, named } = output.style;
      const time = faint(`${turn.seq}  ${shownTime(turn.createdAt)}`);
      output.lines([`${time}  ${named(visibleText(turn.role))}: ${shownValue(turn.content)}`]);
    }
  }
  if (count === 0) output.remark("nothing was said in that session");
}
