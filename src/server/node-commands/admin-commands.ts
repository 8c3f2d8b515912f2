/**
 * The commands that administer a running node: `policy get|put|clear`, `audit`, `reembed`, `calibrate`.
 *
 * Always true: what a program reads goes to standard output, words for a person to standard error. Exit codes as of the
 * command line: 0 done, 1 refused or not answered, 2 a wrong command line. Must not know: how a node is called
 * (server/node-commands/node-call).
 */
import { Command, InvalidArgumentError, Option } from "commander";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { decodeAuditEvent } from "../../format/audit/audit-event.ts";
import { brokenLinks } from "../../format/audit/audit-object.ts";
import { CommandFailure } from "../client-session/command-failure.ts";
import { fileText, keyVariable, tokenVariable } from "../client-session/credential.ts";
import type { Environment } from "../config/config.ts";
import { calibrate, calibrateCommand, type CalibrateFlags } from "./calibrate-command.ts";
import { callNode, type NodeFlags } from "./node-call.ts";
import type { ProfileFlags } from "./profile-options.ts";
import { reembed, reembedCommand } from "./reembed-command.ts";

/** Where the commands' words come from and go to. */
export interface AdminSurroundings {
  readonly env: Environment;
  readonly stdin: AsyncIterable<string | Uint8Array>;
  readonly stdout: { write(text: string | Uint8Array): unknown };
  readonly stderr: { write(text: string): unknown; readonly isTTY?: boolean };
}

interface PolicyFlags extends NodeFlags {
  readonly namespace: string;
  readonly profile?: string;
  readonly file?: string;
}

interface AuditFlags extends NodeFlags {
  readonly namespace: string;
  readonly from?: number;
  readonly to?: number;
  readonly action?: string;
  readonly profile?: string;
  readonly outcome?: string;
  readonly limit?: number;
  readonly verify?: true;
}

type Act<Flags extends NodeFlags> = (around: AdminSurroundings, flags: Flags) => Promise<void>;

const defaultAddress = "http://127.0.0.1:8080";

/** Gives a command the options that all have, and what it does. */
type Bind = <Flags extends NodeFlags>(command: Command, act: Act<Flags>) => Command;

/** The commands; each hands its exit code to `ended`. */
export function adminCommands(around: AdminSurroundings, ended: (code: number) => void): readonly Command[] {
  const on = <Flags extends NodeFlags>(command: Command, act: Act<Flags>): Command =>
    command
      .addOption(
        new Option("--address <url>", "the node")
          .argParser(parseAddress)
          .default(parseAddress(defaultAddress), defaultAddress),
      )
      .addOption(
        new Option(
          "--key-file <file>",
          `file that holds the platform key (default: the variable ${keyVariable})`,
        ).conflicts("tokenFile"),
      )
      .addOption(new Option("--token-file <file>", `file that holds a token (default: the variable ${tokenVariable})`))
      .action(async () => ended(await run(around, command.opts<Flags>(), act)));
  return [
    policyCommand(on),
    auditCommand(on),
    on<ProfileFlags & NodeFlags>(reembedCommand(), (_, flags) =>
      reembed(flags, (path, body) => callNode(around.env, flags, "POST", path, body, "token"), around.stderr),
    ),
    on<CalibrateFlags & NodeFlags>(calibrateCommand(), (_, flags) =>
      calibrate(flags, (path, body) => callNode(around.env, flags, "POST", path, body, "token"), around),
    ),
  ];
}

function ofNamespace(command: Command): Command {
  return command.requiredOption("--namespace <name>", "the namespace");
}

function policyCommand(on: Bind): Command {
  const policy = (name: string, about: string): Command =>
    ofNamespace(new Command(name).description(about)).option(
      "--profile <name>",
      "the profile's own policy instead; this needs a token",
    );
  return new Command("policy")
    .description("policies of a running node")
    .addCommand(on<PolicyFlags>(policy("get", "print a policy"), getPolicy))
    .addCommand(
      on<PolicyFlags>(
        policy("put", "replace a policy").option("--file <file>", "JSON of the whole policy; - is standard input", "-"),
        putPolicy,
      ),
    )
    .addCommand(on<PolicyFlags>(policy("clear", "remove a policy"), clearPolicy));
}

function auditCommand(on: Bind): Command {
  const audit = ofNamespace(
    new Command("audit").description("print the audit stream of a namespace, one event a line, oldest first"),
  )
    .addOption(
      new Option(
        "--from <time>",
        "events at or after this time, in Unix milliseconds or as 2026-01-31T12:00Z (default: a day before --to)",
      ).argParser(parseTime),
    )
    .addOption(new Option("--to <time>", "events before this time (default: now)").argParser(parseTime))
    .option("--action <name>", "events of this action; a name that ends in a dot means all that begin so")
    .option("--profile <name>", "events of this profile")
    .addOption(new Option("--outcome <outcome>", "events that ended so").choices(["ok", "denied", "error"]))
    .addOption(new Option("--limit <count>", "at most so many events (default: all)").argParser(parseCount))
    .addOption(
      new Option("--verify", "also check that no event was removed or changed; exit code 1 if one was").conflicts([
        "action",
        "profile",
        "outcome",
      ]),
    );
  return on<AuditFlags>(audit, printAudit);
}

async function run<Flags extends NodeFlags>(around: AdminSurroundings, flags: Flags, act: Act<Flags>): Promise<number> {
  try {
    await act(around, flags);
    return 0;
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    around.stderr.write(`palimpsest: ${error.message}\n`);
    return error.exitCode;
  }
}

function parseAddress(text: string): URL {
  const url = URL.parse(text);
  if (url !== null && /^https?:$/.test(url.protocol) && url.username === "" && url.pathname === "/") return url;
  throw new InvalidArgumentError("It must be http://host:port or https://host:port.");
}

function parseCount(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It must be a whole number, at least 1.");
}

function parseTime(text: string): number {
  const timeMs = /^\d+$/.test(text) ? Number(text) : Date.parse(text);
  if (Number.isSafeInteger(timeMs) && timeMs >= 0) return timeMs;
  throw new InvalidArgumentError("It must be Unix milliseconds or a time such as 2026-01-31T12:00Z.");
}

function policyPath({ namespace, profile }: PolicyFlags): string {
  const ns = encodeURIComponent(namespace);
  return profile === undefined
    ? `/v1/namespaces/${ns}/policy`
    : `/v1/memory/${ns}/${encodeURIComponent(profile)}/policy`;
}

async function tellPolicy(
  around: AdminSurroundings,
  flags: PolicyFlags,
  method: "GET" | "PUT",
  policyText?: string,
): Promise<void> {
  const body = policyText === undefined ? undefined : `{"policy":${policyText}}`;
  const answer = await callNode(
    around.env,
    flags,
    method,
    policyPath(flags),
    body,
    flags.profile === undefined ? "key" : "token",
  );
  around.stdout.write(`${JSON.stringify(answer, undefined, 2)}\n`);
}

function getPolicy(around: AdminSurroundings, flags: PolicyFlags): Promise<void> {
  return tellPolicy(around, flags, "GET");
}

function clearPolicy(around: AdminSurroundings, flags: PolicyFlags): Promise<void> {
  return tellPolicy(around, flags, "PUT", "null");
}

async function putPolicy(around: AdminSurroundings, flags: PolicyFlags): Promise<void> {
  const { file = "-" } = flags;
  const text = file === "-" ? await readText(around.stdin) : fileText(file);
  if (!isObjectText(text))
    throw new CommandFailure(
      2,
      `${file === "-" ? "standard input" : file} must hold a JSON object; a policy is removed with policy clear`,
    );
  await tellPolicy(around, flags, "PUT", text);
}

function isObjectText(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    // Not JSON, so no object either.
    return false;
  }
}

interface AuditAnswer {
  readonly events: readonly object[];
  readonly next_cursor: string | null;
  readonly complete: boolean;
}

async function printAudit(around: AdminSurroundings, flags: AuditFlags): Promise<void> {
  const path = `/v1/namespaces/${encodeURIComponent(flags.namespace)}/audit`;
  const { from, to, action, profile, outcome, limit = Infinity } = flags;
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ from, to, action, profile, outcome }))
    if (value !== undefined) query.set(name, String(value));
  const lines: string[] = [];
  let printed = 0;
  for (let cursor: string | null = ""; cursor !== null && printed < limit;) {
    query.set("limit", String(Math.min(limits.auditPageMax, limit - printed)));
    if (cursor !== "") query.set("cursor", cursor);
    const page = (await callNode(around.env, flags, "GET", `${path}?${query.toString()}`)) as AuditAnswer;
    const onPage = page.events.map((event) => JSON.stringify(event));
    for (const line of onPage) around.stdout.write(`${line}\n`);
    if (flags.verify) lines.push(...onPage);
    printed += onPage.length;
    cursor = page.next_cursor;
    if (cursor === null && !page.complete)
      throw new CommandFailure(1, "the stream is not complete: some of its objects cannot be read");
  }
  if (flags.verify) verify(around, lines);
}

function verify(around: AdminSurroundings, lines: readonly string[]): void {
  const broken = brokenLinks(lines.map(parseEvent));
  if (broken.length > 0) {
    throw new CommandFailure(
      1,
      `events were removed or changed before ${broken.map(({ id, node }) => `${id} of node ${node}`).join(", ")}`,
    );
  }
  around.stderr.write(`palimpsest: ${lines.length} events follow from each other\n`);
}

function parseEvent(line: string): ReturnType<typeof decodeAuditEvent> {
  try {
    return decodeAuditEvent(line);
  } catch (error) {
    if (error instanceof StoreError) throw new CommandFailure(1, `an event cannot be checked: ${error.message}`);
    throw error;
  }
}

async function readText(stream: AsyncIterable<string | Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString("utf8");
}
