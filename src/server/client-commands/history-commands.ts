/** `palimpsest history` and `diff`: how a memory came to be what it is, and what differs between two states. */
import { Command, Option } from "commander";
import type { MemoryState, StateDifference } from "../../../clients/typescript/src/index.ts";
import { toWire } from "../../../clients/typescript/src/codec.ts";
import { CommandFailure } from "../client-session/command-failure.ts";
import { visibleText } from "../terminal/visible-text.ts";
import { shownTime } from "./memory-lines.ts";
import { parseBranch, type Bind } from "../client-session/session.ts";

interface HistoryFlags {
  readonly type?: "fact" | "instruction";
}

interface DiffFlags {
  readonly fromBranch?: string;
}

export function historyCommands(bind: Bind): readonly Command[] {
  return [historyCommand(bind), diffCommand(bind)];
}

function historyCommand(bind: Bind): Command {
  const command = new Command("history")
    .description("what was held on a topic, or on that of a memory, the oldest first")
    .argument("<topic>", "a topic, or the id of a memory")
    .addOption(new Option("--type <type>", "the type of the topic").choices(["fact", "instruction"]));
  return bind<HistoryFlags>(
    command,
    "palimpsest history theme",
    async ({ profile, output }, { type = "fact" }, [of]) => {
      const rows: string[][] = [];
      let count = 0;
      for await (const state of profile.history(of!.startsWith("mem_") ? { id: of } : { topicKey: of, type })) {
        count++;
        if (output.isForPeople) rows.push(stateRow(state));
        else output.json(toWire(state, "MemoryState"));
      }
      if (count === 0) output.remark("nothing was ever held on that topic");
      else if (output.isForPeople) {
        const { faint, good, warned } = output.style;
        output.table(
          [
            { title: "FROM", paint: faint },
            { title: "UNTIL", paint: (text) => (text === "now" ? good(text) : warned(text)) },
            { title: "SUMMARY", loose: true },
            { title: "SOURCE", loose: true },
            { title: "ID", paint: faint },
          ],
          rows,
        );
      }
    },
  );
}

function stateRow({ id, summary, source, activeFrom, supersededAt }: MemoryState): string[] {
  const until = supersededAt === undefined ? "now" : shownTime(supersededAt);
  return [shownTime(activeFrom), until, summary, source ?? "", id];
}

function diffCommand(bind: Bind): Command {
  const command = new Command("diff")
    .description("what differs between two states: checkpoints, transaction ids, times, or branches")
    .argument("[from]", "the earlier state; with --from-branch its newest by default")
    .argument("[to]", "the later state (default: the newest)")
    .addOption(new Option("--from-branch <name>", "the branch of the earlier state").argParser(parseBranch));
  return bind<DiffFlags>(
    command,
    "palimpsest diff before-import\npalimpsest diff --from-branch main --branch draft",
    async (session, { fromBranch }, [from, to]) => {
      if (from === undefined && fromBranch === undefined)
        throw new CommandFailure(2, "name the earlier state, or a --from-branch");
      const { output } = session;
      let count = 0;
      for await (const difference of session.database.diff({ from, to, fromBranch })) {
        count++;
        if (output.isForPeople) output.lines([differenceLine(difference, output.style)]);
        else output.json(toWire(difference, "StateDifference"));
      }
      if (count === 0) output.remark("they do not differ");
    },
  );
}

type Styled = Parameters<typeof differenceLine>[1];

function differenceLine(
  { kind, change, within, name, movedTo, before, after }: StateDifference,
  style: Readonly<Record<"good" | "bad" | "warned", (text: string) => string>>,
): string {
  const place = visibleText(within === undefined ? name : `${within}/${name}`);
  const moved = movedTo === undefined ? "" : ` -> ${visibleText(movedTo)}`;
  const counts = before === undefined && after === undefined ? "" : ` (${before ?? 0} -> ${after ?? 0})`;
  const [sign, paint] = signs(style)[change] ?? ["~", style.warned];
  return `${paint(`${sign} ${visibleText(change)}`)} ${visibleText(kind)} ${place}${moved}${counts}`;
}

function signs({ good, bad }: Styled): Readonly<Record<string, readonly [string, (text: string) => string]>> {
  return { added: ["+", good], put: ["+", good], forgotten: ["-", bad], deleted: ["-", bad], removed: ["-", bad] };
}
