/**
 * `palimpsest branch`, `checkpoint`, `rewind` and `undo`: other lines of a database, names for its states, and the way
 * back.
 *
 * Always true: what takes a state away is asked for first, or agreed to by `--yes`.
 */
import { Argument, Command, Option } from "commander";
import { toWire } from "../../../clients/typescript/src/codec.ts";
import type { Change } from "../../../clients/typescript/src/generated/types.ts";
import { visibleText } from "../terminal/visible-text.ts";
import { shownTime } from "./memory-lines.ts";
import { parseBranch, parseCount, type Bind, type Session } from "../client-session/session.ts";

interface CreateFlags {
  readonly from?: string;
  readonly at?: string;
  readonly ttl?: number;
}

export function branchCommands(bind: Bind): readonly Command[] {
  return [branchCommand(bind), checkpointCommand(bind), rewindCommand(bind), undoCommand(bind)];
}

function branchCommand(bind: Bind): Command {
  const create = new Command("create")
    .description("make a branch from the newest state, or an earlier one")
    .argument("<name>", "the new branch")
    .addOption(new Option("--from <branch>", "the branch to fork (default: main)").argParser(parseBranch))
    .option("--at <state>", "the state to fork: a checkpoint, a transaction id or a time")
    .addOption(new Option("--ttl <seconds>", "after which it is gone").argParser(parseCount));
  const remove = new Command("delete").description("delete a branch").argument("<name>").option("--yes", "do not ask");
  return new Command("branch")
    .description("branches of a database")
    .addCommand(bind(new Command("list").description("all branches"), "palimpsest branch list", listBranches), {
      isDefault: true,
    })
    .addCommand(
      bind<CreateFlags>(
        create,
        "palimpsest branch create draft --ttl 3600",
        async (session, { from = "main", at, ttl }, [name]) => {
          const { database, output } = session;
          const made = await database.branch(from).fork(name!, { at, ttl });
          if (output.isForPeople)
            output.lines([`made ${visibleText(name!)} from ${from}; --branch ${visibleText(name!)} goes there`]);
          else output.json({ branch: made.branchName, parent: from });
        },
      ),
    )
    .addCommand(
      bind(remove, "palimpsest branch delete draft --yes", async (session, _, [name]) => {
        await session.agree(`Delete the branch ${visibleText(name!)}?`);
        await session.database.branch(name!).deleteBranch();
        tellDone(session, "deleted", name!);
      }),
    );
}

async function listBranches({ database, output }: Session): Promise<void> {
  const branches = await database.branches();
  if (!output.isForPeople) return branches.forEach((branch) => output.json(toWire(branch, "Branch")));
  const { faint, named } = output.style;
  output.table(
    [
      { title: "BRANCH", paint: named },
      { title: "FROM" },
      { title: "AT", right: true },
      { title: "TXID", right: true },
      { title: "CREATED", paint: faint },
      { title: "GONE AT", paint: faint },
    ],
    branches.map(({ name, parent, forkTxid, txid, createdAt, ttlAt }) => [
      name,
      parent ?? "",
      forkTxid === null ? "" : String(forkTxid),
      String(txid),
      shownTime(createdAt),
      shownTime(ttlAt),
    ]),
  );
}

function checkpointCommand(bind: Bind): Command {
  const create = new Command("create").description("name the newest state").argument("<name>", "its name");
  const remove = new Command("delete").description("give up a name").argument("<name>").option("--yes", "do not ask");
  return new Command("checkpoint")
    .description("named states of a branch")
    .addCommand(
      bind(
        new Command("list").description("the named states, the oldest first"),
        "palimpsest checkpoint list",
        async ({ database, output }) => {
          const checkpoints = await database.checkpoints();
          if (!output.isForPeople) return checkpoints.forEach((one) => output.json(toWire(one, "Checkpoint")));
          if (checkpoints.length === 0) return output.remark("no state has a name");
          const rows = checkpoints.map(({ checkpoint, txid, createdAt }) => [
            checkpoint,
            String(txid),
            shownTime(createdAt),
          ]);
          output.table(
            [{ title: "CHECKPOINT", paint: output.style.named }, { title: "TXID", right: true }, { title: "NAMED" }],
            rows,
          );
        },
      ),
      { isDefault: true },
    )
    .addCommand(
      bind(create, "palimpsest checkpoint create before-import", async ({ database, output }, _, [name]) => {
        const made = await database.checkpoint(name!);
        if (!output.isForPeople) return output.json(toWire(made, "CreateCheckpointResponse"));
        output.lines([`${visibleText(made.checkpoint)} is the state of transaction ${made.txid}`]);
      }),
    )
    .addCommand(
      bind(remove, "palimpsest checkpoint delete before-import --yes", async (session, _, [name]) => {
        await session.agree(`Give up the checkpoint ${visibleText(name!)}? What only it keeps may go.`);
        await session.database.deleteCheckpoint(name!);
        tellDone(session, "deleted", name!);
      }),
    );
}

function rewindCommand(bind: Bind): Command {
  const command = new Command("rewind")
    .description("take a branch back to an earlier state, all of it at once")
    .argument("<state>", "a checkpoint, a transaction id or a time")
    .option("--yes", "do not ask");
  return bind(command, "palimpsest rewind before-import --yes", async (session, _, [state]) => {
    const { database, output } = session;
    await session.agree(`Take ${database.name}@${database.branchName} back to ${visibleText(state!)}?`);
    const done = await database.rewind(state!);
    if (!output.isForPeople) return output.json(toWire(done, "RewindBranchResponse"));
    output.lines([`back at transaction ${done.rewoundTo}`]);
    output.remark(`palimpsest rewind ${done.txid - 1} undoes it`);
  });
}

function undoCommand(bind: Bind): Command {
  const command = new Command("undo")
    .description("undo one transaction where nothing later touched what it changed")
    .addArgument(new Argument("<txid>", "the transaction").argParser(parseCount))
    .option("--dry-run", "only say what would be undone");
  return bind<{ readonly dryRun?: boolean }>(
    command,
    "palimpsest undo 17 --dry-run",
    async ({ database, output }, { dryRun = false }, [txid]) => {
      const done = await database.undo(Number(txid), { dryRun });
      if (!output.isForPeople) return output.json(toWire(done, "UndoResponse"));
      output.lines(done.changes.map(changeLine));
      if (dryRun) output.remark(`transaction ${done.undone} can be undone`);
      else output.remark(`undid transaction ${done.undone}; palimpsest undo ${done.txid} undoes this`);
    },
  );
}

function changeLine({ kind, op, ...names }: Change): string {
  const { id, namespace, key, collection, sessionId, seq, path, table } = names;
  const name = [collection, namespace, sessionId, seq, key, id, path, table].filter((part) => part !== undefined);
  return visibleText(`${kind} ${name.join("/")}, which was ${op}`);
}

function tellDone({ output }: Session, what: string, name: string): void {
  if (output.isForPeople) output.lines([`${what} ${visibleText(name)}`]);
  else output.json({ [what]: name });
}
