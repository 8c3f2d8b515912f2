/**
 * `palimpsest verify-receipt`: checks the receipt of an erasure against a key set, without a node and without secrets.
 *
 * Always true: what it says of a receipt comes out of the signed payload and from nowhere else, and it says so only
 * when the signature holds; text of a receipt cannot steer a terminal. Exit codes: 0 the receipt is valid, 1 it is not,
 * or its key set is not available, 2 a wrong command line.
 */
import { createReadStream } from "node:fs";
import { Command, InvalidArgumentError, Option } from "commander";
import { encodeUtf8, decodeUtf8 } from "../../base/bytes.ts";
import { limits } from "../../base/limits.ts";
import { realWorld } from "../../base/world.ts";
import { verifyReceipt } from "../../control/access/receipts.ts";
import type { ErasureReceipt, ReceiptPayload, TargetFields } from "../../format/erasure/erasure-receipt.ts";
import { isObject } from "../../format/core/json-shape.ts";
import { safeText } from "../inspect/safe-text.ts";

/** A key set that a receipt is checked against. */
export const keySetBytesMax = 256 * 1024;
/** How long the address of a key set has for its answer. */
const keySetFetchMs = 10_000;

/** Where the command's words come from and go to. */
export interface VerifySurroundings {
  readonly stdin: AsyncIterable<string | Uint8Array>;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
}

/** What the command is told. */
interface VerifyFlags {
  /** A file, or an address. */
  readonly jwks: string | URL;
}

/** Why the command failed, for the person who gave it. */
class Unverified extends Error {
  readonly exitCode: 1 | 2;

  constructor(exitCode: 1 | 2, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** The command with its flags; it hands its exit code to `ended`. */
export function verifyCommand(around: VerifySurroundings, ended: (code: number) => void): Command {
  return new Command("verify-receipt")
    .description("check the receipt of an erasure, offline, against the public keys of those who sign")
    .argument("<file>", "JSON of a receipt, or of a coupon that holds one; - is standard input")
    .addOption(
      new Option(
        "--jwks <file|url>",
        "the public keys, as a node gives them at /.well-known/jwks.json; a file that was kept, or an address",
      )
        .argParser(parseKeySetPlace)
        .makeOptionMandatory(),
    )
    .action(async (file: string, flags: VerifyFlags) => ended(await verifyFile(around, file, flags)));
}

/** Checks the receipt and says what it found; answers the exit code. */
async function verifyFile(around: VerifySurroundings, file: string, { jwks }: VerifyFlags): Promise<number> {
  try {
    const source = file === "-" ? around.stdin : createReadStream(file);
    const given = parseJson(
      await readText(source, limits.erasureCouponBytesMax, file === "-" ? "standard input" : file),
      "the receipt",
    );
    const verdict = verifyReceipt(receiptIn(given), await keySetAt(jwks));
    if (!verdict.isValid) throw new Unverified(1, `the receipt is NOT valid: ${verdict.reason}`);
    // Only the receipt of a coupon is signed: one that was put into another coupon must not speak for it.
    if (isCoupon(given) && given["id"] !== verdict.receipt.payload.erasure_id)
      throw new Unverified(1, "the receipt is NOT valid here: it is of another erasure than the coupon around it");
    around.stdout.write(formatAccount(verdict.receipt, isCoupon(given)));
    return 0;
  } catch (error) {
    if (!(error instanceof Unverified)) throw error;
    around.stderr.write(`palimpsest: ${error.message}\n`);
    return error.exitCode;
  }
}

function parseKeySetPlace(text: string): string | URL {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) return text;
  const url = URL.parse(text);
  if (url !== null && /^https?:$/.test(url.protocol) && url.username === "") return url;
  throw new InvalidArgumentError(
    "It must be a file or the address of a key set, such as https://host/.well-known/jwks.json.",
  );
}

function isCoupon(given: unknown): given is Readonly<Record<string, unknown>> {
  return isObject(given) && "id" in given && "status" in given;
}

/** The receipt itself, or the one that a coupon holds. What is neither is not called forged: another file was given. */
function receiptIn(given: unknown): unknown {
  if (isCoupon(given)) {
    if (isObject(given["receipt"])) return given["receipt"];
    throw new Unverified(1, "this is a coupon without a receipt: the erasure is not completed");
  }
  if (isObject(given) && ("payload" in given || "sig" in given)) return given;
  if (isObject(given) && "erasures" in given) throw new Unverified(1, "this is a list of coupons: give one of them");
  throw new Unverified(1, "this is neither a receipt nor a coupon that holds one");
}

async function keySetAt(place: string | URL): Promise<unknown> {
  if (typeof place === "string")
    return parseJson(await readText(createReadStream(place), keySetBytesMax, place), "the key set");
  const giveUp = new AbortController();
  const cancel = realWorld().after(keySetFetchMs, () => giveUp.abort(new Error("no answer in time")));
  try {
    // A party that could send it elsewhere could choose the keys.
    const response = await fetch(place, {
      signal: giveUp.signal,
      redirect: "error",
      headers: { accept: "application/json" },
    });
    if (!response.ok || response.body === null)
      throw new Unverified(1, `${place.origin} gave no key set: it answered with status ${response.status}`);
    return parseJson(await readText(response.body, keySetBytesMax, place.origin), "the key set");
  } catch (error) {
    if (error instanceof Unverified) throw error;
    const { message, cause } = error as Error & { readonly cause?: NodeJS.ErrnoException };
    throw new Unverified(1, `${place.origin} gave no key set: ${cause?.code ?? cause?.message ?? message}`);
  } finally {
    cancel();
  }
}

/** All of the stream, as long as it is no longer than anything that is asked for. */
async function readText(stream: AsyncIterable<string | Uint8Array>, bytesMax: number, where: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of stream) {
      chunks.push(typeof chunk === "string" ? encodeUtf8(chunk) : chunk);
      bytes += chunks.at(-1)!.length;
      if (bytes > bytesMax)
        throw new Unverified(1, `${where} holds more than ${bytesMax} bytes, which is not what was asked for`);
    }
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (code !== undefined && syscall !== undefined) throw new Unverified(2, `${where} cannot be read: ${code}`);
    throw error;
  }
  const text = decodeUtf8(Buffer.concat(chunks));
  if (text === undefined) throw new Unverified(1, `${where} is not text in UTF-8`);
  return text;
}

function parseJson(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Unverified(1, `${what} is not JSON`);
  }
}

/** What was verified, for a person. */
function formatAccount({ kid, payload }: ErasureReceipt, ofCoupon: boolean): string {
  const facts: readonly (readonly [what: string, said: string])[] = [
    ["signed with key", shown(kid)],
    ["database", `${shown(payload.db)}, uuid ${shown(payload.uuid)}`],
    ["erasure", payload.erasure_id],
    ["target", formatTarget(payload.target)],
    [
      "memories erased",
      payload.memory_ids.length === 0 ? "none" : `${payload.memory_ids.length}: ${payload.memory_ids.join(", ")}`,
    ],
    [
      "erased by transaction",
      Object.entries(payload.erased_txid)
        .map(([branch, txid]) => `${txid} on branch ${shown(branch)}`)
        .join(", ") || "none: the whole database is deleted",
    ],
    ["requested", formatTime(payload.requested_at)],
    ["completed", formatTime(payload.completed_at)],
    ["method", shown(payload.method)],
  ];
  return [
    "The receipt is valid: it was signed with a key of this key set, and nothing in it was changed since.",
    ...(ofCoupon ? ["Of the coupon around it nothing else is signed."] : []),
    "",
    ...facts.map(([what, said]) => `  ${`${what}:`.padEnd(23)}${said}`),
    "",
    "How it was established that the data is gone:",
    ...formatEvidence(payload).map((line) => `  - ${line}`),
    "",
    "What this receipt does not prove:",
    ...payload.limits.map((limit) => `  - ${safeText(limit)}`),
    "",
  ].join("\n");
}

function formatEvidence({ evidence }: ReceiptPayload): string[] {
  const { objects, traces, store } = evidence;
  return [
    `objects in storage: ${objects.listed} listed, ${objects.live} of them in ` +
      `use, ${objects.scanned} scanned (${objects.bytes} bytes)`,
    `pages in those objects, decompressed and scanned: ${evidence.pages_scanned}`,
    `manifests of branches checked: ${evidence.heads_checked}; catalogs checked: ${evidence.catalogs_checked}`,
    `traces of the erased rows and vectors: ${traces.looked_for} looked for, ${traces.hits} found`,
    ...(evidence.states_restored.length === 0 ? ["states restored and asked for the erased memories: none"] : []),
    ...evidence.states_restored.map(
      ({ branch, txid, pages }) =>
        `restored and asked for the erased memories: branch ${shown(branch)} at transaction ${txid}, ${pages} pages`,
    ),
    ...Object.entries(evidence.oldest_restorable_txid).map(
      ([branch, txid]) => `nothing before transaction ${txid} can be restored on branch ${shown(branch)}`,
    ),
    store.versioned
      ? `the object store keeps versions: ${store.versions_removed} older ones ` +
        `removed, ${store.uploads_aborted} unfinished uploads removed`
      : `the object store keeps no versions; ${store.uploads_aborted} unfinished uploads removed`,
    ...evidence.local.map(
      ({ node, files_scrubbed: scrubbed, files_removed: removed }) =>
        `copies on node ${shown(node)}: ${scrubbed} files cleaned, ${removed} removed`,
    ),
    ...(evidence.unattested ?? []).map(
      (node) =>
        `NOT established: copies on node ${shown(node)}, which never came back; its operator has declared it ` +
        "and its disk destroyed",
    ),
  ];
}

function formatTarget(target: TargetFields): string {
  if ("memory_id" in target) return `the memory ${shown(target.memory_id)}`;
  if ("topic_key" in target) return `every memory of topic ${shown(target.topic_key)}, type ${shown(target.type)}`;
  if ("path" in target) return `the file, or all files below, ${shown(target.path)}, with all versions`;
  if ("kv_ns" in target) return `the key ${shown(target.key)} in ${shown(target.kv_ns)}`;
  if ("doc_id" in target) return `the document ${shown(target.doc_id)} of ${shown(target.collection)}`;
  if ("vector_id" in target) return `the vector ${shown(target.vector_id)} of ${shown(target.vector_collection)}`;
  if ("subject" in target) return `every record of subject ${shown(target.subject)}`;
  if ("seq" in target) return `turn ${target.seq} of session ${shown(target.session_id)}`;
  return `session ${shown(target.session_id)}${target.turns ? ", its transcript too" : ", without its transcript"}`;
}

function formatTime(atMs: number): string {
  return `${new Date(atMs).toISOString()} (${atMs})`;
}

/** Text in quotes. */
function shown(text: string): string {
  return `"${safeText(text)}"`;
}
