/**
 * The frame of the commands that speak to a node: which node and database they are about, with which credential, how
 * they print, and how they end.
 *
 * Always true:
 * - a credential comes from a variable, a file, the file of connections or a prompt, never from the command line, and
 *   goes only to the address that it belongs to
 * - what a node says is made visible before a terminal gets it
 * - exit codes: 0 done; 1 refused or failed; 2 a wrong command line; 3 there is no such thing; 4 not allowed; 5 the
 *   node does not answer, or asks to come back later; 6 the state does not allow it
 */
import { InvalidArgumentError, Option, type Command } from "commander";
import { Palimpsest, type Profile } from "../../../clients/typescript/src/index.ts";
import { realWorld } from "../../base/world.ts";
import { isBranchName, isDatabaseName } from "../../format/core/names.ts";
import type { Environment } from "../config/config.ts";
import { Output } from "../terminal/output.ts";
import { Progress } from "../terminal/progress.ts";
import { canAsk, confirm, type Desk } from "../terminal/prompt.ts";
import type { Stream } from "../terminal/style.ts";
import { CommandFailure } from "./command-failure.ts";
import { readConnections, type Connection } from "./connections.ts";
import { keyVariable, readCredential, tokenVariable } from "./credential.ts";
import { failureOf } from "./failure.ts";

/** What a command knows of its process. */
export interface Surroundings extends Desk {
  readonly env: Environment;
  readonly stdout: Stream;
}

/** The flags that all these commands have. */
export interface SessionFlags {
  readonly address?: string;
  readonly connection?: string;
  readonly tokenFile?: string;
  readonly keyFile?: string;
  readonly database?: string;
  readonly branch?: string;
  readonly json?: boolean;
  readonly table?: boolean;
  readonly timeout?: number;
  readonly yes?: boolean;
}

/** What a command is besides what it does. */
export interface Manner {
  /** The credential that is taken where variables give both; a token by default. */
  readonly prefers?: "key" | "token";
  /** Whether a call of it waits for a node that is away. */
  readonly isPatient?: boolean;
}

/** The node on this machine. */
const addressDefault = "http://127.0.0.1:8080";
/** The profile of a person who has named none. */
const databaseDefault = "local--me";
/** Enough for a moment in which a node starts or is overloaded. */
const tries = 3;
/** Of work of many calls, which outlives a restart of its node: tries of a call, and how long it takes at most. */
const patientTries = 100;
const patientTimeoutMs = 120_000;
const addressVariable = "PALIMPSEST_ADDRESS";
const databaseVariable = "PALIMPSEST_DATABASE";
const connectionVariable = "PALIMPSEST_CONNECTION";

/** One run of a command. */
export class Session {
  readonly around: Surroundings;
  readonly output: Output;
  readonly progress: Progress;
  readonly client: Palimpsest;
  /** Where the calls go. */
  readonly address: string;
  readonly #database: string;
  readonly #branch: string | undefined;
  readonly #yes: boolean;
  readonly #timeoutMs: number | undefined;
  readonly #tries: number;

  constructor(around: Surroundings, flags: SessionFlags, { prefers = "token", isPatient = false }: Manner = {}) {
    this.around = around;
    this.output = new Output(around, flags.json ? "json" : flags.table ? "table" : undefined);
    this.progress = new Progress(around.stderr, realWorld());
    const connection = chooseConnection(around.env, flags, prefers);
    this.address = connection.address;
    this.#database = flags.database ?? around.env[databaseVariable] ?? connection.database ?? databaseDefault;
    this.#branch = flags.branch;
    this.#yes = flags.yes === true;
    this.#timeoutMs = flags.timeout !== undefined ? flags.timeout * 1000 : isPatient ? patientTimeoutMs : undefined;
    this.#tries = isPatient ? patientTries : tries;
    this.client = this.at(connection);
  }

  /** A client of another connection. */
  at({ address, token }: Connection): Palimpsest {
    return new Palimpsest({
      url: address,
      token,
      // A person waits for the answer, and can give the command again.
      tries: this.#tries,
      // A redirect would carry the credential to an address that was not named.
      fetch: (input, init) => fetch(input, { ...init, redirect: "error" }),
      ...(this.#timeoutMs !== undefined && { timeoutMs: this.#timeoutMs }),
    });
  }

  /** The database that was named, on its branch, with the methods of a profile. */
  get profile(): Profile {
    if (!isDatabaseName(this.#database) || !this.#database.includes("--"))
      throw new CommandFailure(2, `${this.#database} is no profile: its database is named namespace--profile`);
    return this.#on(this.#database);
  }

  /** Likewise, also one that is no profile's. */
  get database(): Profile {
    if (!isDatabaseName(this.#database)) throw new CommandFailure(2, `${this.#database} is no name of a database`);
    return this.#on(this.#database);
  }

  /** Goes on if the person agrees, or has agreed by `--yes`. */
  async agree(question: string): Promise<void> {
    if (this.#yes) return;
    if (!canAsk(this.around)) throw new CommandFailure(2, `${question} Say so by --yes where nobody can be asked`);
    if (!(await confirm(this.around, question))) throw new CommandFailure(1, "nothing was done");
  }

  #on(name: string): Profile {
    const [namespace, profile = ""] = name.split("--") as [string, string?];
    const main = this.client.profile(namespace, profile);
    // A database that is no profile's has the same methods but those of memories, which its callers leave alone.
    const found = name.includes("--") ? main : (this.client.database(name) as Profile);
    return this.#branch === undefined ? found : found.branch(this.#branch);
  }
}

/** What a command does, with its flags and its words. */
type Act<Flags> = (session: Session, flags: Flags & SessionFlags, words: readonly string[]) => Promise<void>;

/** Gives a command the flags that all have, an example, and what it does. */
export type Bind = <Flags>(command: Command, example: string, act: Act<Flags>, manner?: Manner) => Command;

/** The frame for a process; each command hands its exit code to `ended`. */
export function bindTo(around: Surroundings, ended: (code: number) => void): Bind {
  return <Flags>(command: Command, example: string, act: Act<Flags>, manner?: Manner) =>
    withSessionFlags(command)
      .addHelpText("after", `\nExample:\n  ${example.replaceAll("\n", "\n  ")}\n`)
      .action(async () => {
        const flags = command.opts<Flags & SessionFlags>();
        ended(await run(around, flags, manner, (session) => act(session, flags, words(command))));
      });
}

function words(command: Command): readonly string[] {
  return (command.processedArgs as (string | readonly string[] | undefined)[])
    .flat()
    .filter((word): word is string => word !== undefined);
}

async function run(
  around: Surroundings,
  flags: SessionFlags,
  manner: Manner | undefined,
  act: (session: Session) => Promise<void>,
): Promise<number> {
  let session: Session | undefined;
  try {
    session = new Session(around, flags, manner);
    await act(session);
    return 0;
  } catch (error) {
    session?.progress.clear();
    const failure = failureOf(error, session?.address);
    if (failure === undefined) throw error;
    new Output(around, "json").remark(failure.message);
    return failure.exitCode;
  } finally {
    session?.progress.clear();
  }
}

function withSessionFlags(command: Command): Command {
  return command
    .addOption(
      new Option("--address <url>", `the node (${addressVariable}, default: ${addressDefault})`).argParser(
        parseAddress,
      ),
    )
    .addOption(
      new Option("--connection <name>", `a connection that palimpsest connect has kept (${connectionVariable})`),
    )
    .addOption(new Option("--token-file <file>", `file that holds a token (default: the variable ${tokenVariable})`))
    .addOption(
      new Option(
        "--key-file <file>",
        `file that holds the platform key (default: the variable ${keyVariable})`,
      ).conflicts("tokenFile"),
    )
    .addOption(
      new Option(
        "--database <name>",
        `the database; a profile's is namespace--profile (${databaseVariable}, default: ${databaseDefault})`,
      ),
    )
    .addOption(new Option("--branch <name>", "the branch (default: main)").argParser(parseBranch))
    .addOption(new Option("--timeout <seconds>", "the longest that a call takes").argParser(parseCount))
    .addOption(new Option("--json", "print JSON, one value a line; so it is where the output is no terminal"))
    .addOption(new Option("--table", "print tables also where the output is no terminal").conflicts("json"));
}

/** The address, database and credential that the flags, the variables and the kept connections give, in this order. */
function chooseConnection(env: Environment, flags: SessionFlags, prefers: "key" | "token"): Connection {
  const { address: flagged, connection: named } = flags;
  if (flagged !== undefined && named !== undefined)
    throw new CommandFailure(2, "--address and --connection name a node each; give one of them");
  const given = readCredential(env, flags, prefers);
  const address = flagged ?? (named === undefined ? env[addressVariable] || undefined : undefined);
  // A kept token belongs to the kept address.
  if (address !== undefined) return { address: parseAddress(address), token: given };
  const { current, connections } = readConnections(env);
  const name = named ?? (env[connectionVariable] || current);
  if (name === undefined) return { address: addressDefault, token: given };
  const kept = Object.hasOwn(connections, name) ? connections[name] : undefined;
  if (kept === undefined)
    throw new CommandFailure(2, `there is no connection ${name}: palimpsest connect ${name} --address URL makes one`);
  return { address: parseAddress(kept.address), database: kept.database, token: given ?? kept.token };
}

/** An origin, as Node writes it. */
export function parseAddress(text: string): string {
  const url = URL.parse(text);
  if (url !== null && /^https?:$/.test(url.protocol) && url.username === "" && url.pathname === "/") return url.origin;
  throw new InvalidArgumentError("It must be http://host:port or https://host:port.");
}

/** The name of a branch, as an option's value. */
export function parseBranch(text: string): string {
  if (isBranchName(text)) return text;
  throw new InvalidArgumentError("It is not the name of a branch.");
}

export function parseCount(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It must be a whole number, at least 1.");
}

/** A time of a flag, in Unix milliseconds. */
export function parseTime(text: string): number {
  const timeMs = /^\d+$/.test(text) ? Number(text) : Date.parse(text);
  if (Number.isSafeInteger(timeMs) && timeMs >= 0) return timeMs;
  throw new InvalidArgumentError("It must be Unix milliseconds or a time such as 2026-01-31T12:00Z.");
}
