/**
 * `palimpsest forget` and `erase`: memories are deleted, or erased for good with a proof.
 *
 * Always true: what takes more than one named thing is asked for first, or agreed to by `--yes`.
 */
import { Command, Option } from "commander";
import type { CreateErasureRequest, ErasureCoupon } from "../../../clients/typescript/src/index.ts";
import { toWire } from "../../../clients/typescript/src/codec.ts";
import { CommandFailure } from "../client-session/command-failure.ts";
import { visibleText } from "../terminal/visible-text.ts";
import { memoryTypes, type MemoryType } from "./memory-commands.ts";
import { shownTime } from "./memory-lines.ts";
import { parseCount, parseTime, type Bind, type Session } from "../client-session/session.ts";

interface ForgetFlags {
  readonly topic?: string;
  readonly session?: string;
  readonly source?: string;
  readonly subject?: string;
  readonly type?: readonly MemoryType[];
  readonly since?: number;
  readonly until?: number;
  readonly superseded?: boolean;
}

interface EraseFlags {
  readonly memory?: string;
  readonly topic?: string;
  readonly type?: MemoryType;
  readonly session?: string;
  readonly turns?: boolean;
  readonly subject?: string;
  readonly path?: string;
  readonly wait?: boolean;
  readonly within?: number;
}

/** How often a person's command looks whether an erasure is completed. */
const lookMs = 1_000;

export function forgetCommands(bind: Bind): readonly Command[] {
  return [forgetCommand(bind), eraseCommand(bind)];
}

function forgetCommand(bind: Bind): Command {
  const command = new Command("forget")
    .description("delete memories: by their ids, or all that meet conditions")
    .argument("[ids...]", "ids of memories")
    .option("--topic <topic>", "of exactly this topic")
    .option("--session <id>", "of this session")
    .option("--source <agent>", "of this agent")
    .option("--subject <whom>", "about this one")
    .addOption(new Option("--type <type...>", "of these types").choices(memoryTypes))
    .addOption(new Option("--since <time>", "stored at or after this time").argParser(parseTime))
    .addOption(new Option("--until <time>", "stored before this time").argParser(parseTime))
    .option("--superseded", "also those that were superseded")
    .option("--yes", "do not ask");
  return bind<ForgetFlags>(
    command,
    "palimpsest forget --topic theme --superseded --yes",
    async (session, flags, ids) => {
      const { topic: topicKey, session: sessionId, source, subject, type: types, since, until } = flags;
      const given = { topicKey, sessionId, source, subject, types, since, until };
      const conditions = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
      const hasConditions = Object.keys(conditions).length > 0;
      if (hasConditions === ids.length > 0)
        throw new CommandFailure(2, "give ids of memories, or conditions such as --topic, and not both");
      if (!hasConditions) return forgetEach(session, ids);
      await session.agree("Forget all memories that meet this?");
      const forgotten = await session.profile.forgetAll({
        ...conditions,
        ...(flags.superseded && { includeSuperseded: true }),
      });
      if (!session.output.isForPeople) session.output.json({ forgotten: forgotten.length, ids: forgotten });
      else session.output.lines([`${forgotten.length} forgotten`]);
    },
  );
}

async function forgetEach({ profile, output }: Session, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    await profile.forget(id);
    if (output.isForPeople) output.lines([`forgotten ${visibleText(id)}`]);
    else output.json({ forgotten: 1, ids: [id] });
  }
}

function eraseCommand(bind: Bind): Command {
  const command = new Command("erase")
    .description("erase one target for good, from all history, with a signed receipt; or look at an erasure")
    .argument("[coupon]", "the id of an erasure that was asked for before")
    .option("--memory <id>", "a memory")
    .option("--topic <topic>", "all memories of a topic, with its --type")
    .addOption(new Option("--type <type>", "the type of the topic").choices(memoryTypes))
    .option("--session <id>", "all memories of a session")
    .option("--turns", "with --session: its transcript too")
    .option("--subject <whom>", "everything about one subject")
    .option("--path <path>", "a file or a folder")
    .option("--wait", "wait for the receipt, which may take the grace of the policy")
    .addOption(new Option("--within <seconds>", "wait no longer than this").argParser(parseCount))
    .option("--yes", "do not ask");
  return bind<EraseFlags>(
    command,
    "palimpsest erase --topic theme --type fact --wait --yes",
    async (session, flags, [id]) => {
      const { memory: memoryId, topic: topicKey, type, session: sessionId, turns, subject, path } = flags;
      const target: CreateErasureRequest = { memoryId, topicKey, type, sessionId, turns, subject, path };
      const isNew = Object.values(target).some((value) => value !== undefined);
      if (isNew === (id !== undefined))
        throw new CommandFailure(
          2,
          "give one target, such as --memory or --topic, or the id of an erasure, and not both",
        );
      if (isNew) await session.agree("Erase this for good? Nothing brings it back.");
      const { profile, progress } = session;
      const erasure = isNew ? profile.erase(target) : profile.erasure(id!);
      let coupon = await erasure;
      if (flags.wait || flags.within !== undefined) {
        progress.tell(`erasure ${coupon.id}: waiting for its receipt`);
        const withinMs = flags.within === undefined ? undefined : flags.within * 1000;
        coupon = await erasure.completed({ withinMs, pollMs: lookMs });
        progress.clear();
      }
      printCoupon(session, coupon);
    },
  );
}

function printCoupon({ output }: Session, coupon: ErasureCoupon): void {
  if (!output.isForPeople) return output.json(toWire(coupon, "ErasureCoupon"));
  const { style } = output;
  const blockers = [
    ...(coupon.blockedBy?.checkpoints ?? []).map((name) => `checkpoint ${visibleText(name)}`),
    ...(coupon.blockedBy?.branches ?? []).map((name) => `branch ${visibleText(name)}`),
  ];
  output.record([
    ["erasure", coupon.id],
    ["state", coupon.completedAt === null ? style.warned(visibleText(coupon.status)) : style.good("completed")],
    ["completed", coupon.completedAt === null ? undefined : shownTime(coupon.completedAt)],
    ["held up by", blockers.length === 0 ? undefined : blockers.join(", ")],
    ["receipt", coupon.receipt ? `signed by the key ${visibleText(coupon.receipt.kid)}; --json prints it` : undefined],
  ]);
  if (coupon.completedAt === null) output.remark(`palimpsest erase ${coupon.id} --wait waits for the receipt`);
}
