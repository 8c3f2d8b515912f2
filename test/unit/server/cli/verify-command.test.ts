/** `palimpsest verify-receipt`: in this process for what it says, and as a process for how it is called. */
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Command } from "commander";
import { describe, expect, onTestFinished, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { Receipts } from "../../../../src/control/access/receipts.ts";
import { buildSigningKey, type SigningKey } from "../../../../src/control/access/signing-key.ts";
import {
  receiptPayload,
  type ErasureReceipt,
  type ReceiptPayload,
} from "../../../../src/format/erasure/erasure-receipt.ts";
import { verifyCommand, keySetBytesMax } from "../../../../src/server/cli/verify-command.ts";
import { type Run, spawned } from "../../../support/command-runs.ts";
import { sampleCoupon, sampleEvidence, sampleReceiptPayload } from "../../../support/format-samples.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

/** The command in this process. A wrong command line is a code of 2, as the command line makes it. */
async function run(input: string | undefined, ...given: string[]): Promise<Run> {
  let [out, error, code] = ["", "", -1];
  const stdin = (async function* () {
    if (input !== undefined) yield Buffer.from(input);
  })();
  const command = verifyCommand(
    { stdin, stdout: { write: (text) => (out += text) }, stderr: { write: (text) => (error += text) } },
    (ended) => (code = ended),
  );
  const program = new Command().exitOverride().configureOutput({ writeErr: (text) => (error += text) });
  program.addCommand(command.copyInheritedSettings(program));
  await program.parseAsync(["verify-receipt", ...given], { from: "user" }).catch(() => (code = 2));
  return { code, out, error };
}

interface Signed {
  readonly key: SigningKey;
  readonly receipt: ErasureReceipt;
  /** Paths of the receipt and of a key set that has its key among others. */
  readonly file: string;
  readonly keys: string;
  /** Writes JSON into a file and gives its path. */
  write(name: string, value: unknown): string;
}

async function signed(payload: ReceiptPayload = sampleReceiptPayload): Promise<Signed> {
  const directory = temporaryDirectory();
  const write = (name: string, value: unknown): string => {
    const path = join(directory, name);
    writeFileSync(path, typeof value === "string" ? value : JSON.stringify(value));
    return path;
  };
  const [key, other] = await Promise.all([0, 1].map(() => buildSigningKey(generateKeyPairSync("ed25519").privateKey)));
  const receipt = new Receipts(key!).sign(payload);
  return {
    key: key!,
    receipt,
    file: write("receipt.json", receipt),
    keys: write("jwks.json", { keys: [other!.listed, key!.listed] }),
    write,
  };
}

/** The address of a key set that is served so. */
async function served(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/.well-known/jwks.json`;
}

describe("erasure-05: palimpsest verify-receipt", () => {
  test("says of a valid receipt who signed what about which erasure, and what it does not prove", async () => {
    const { file, keys, key } = await signed();
    const { code, out, error } = await run(undefined, file, "--jwks", keys);
    expect([code, error]).toEqual([0, ""]);
    for (const said of [
      "The receipt is valid",
      key.kid,
      "acme--alice",
      sampleCoupon.uuid,
      sampleCoupon.id,
      'topic "ui.übung',
      'type "fact"',
      ...sampleCoupon.memoryIds,
      '41 on branch "main"',
      "2023-11-14T22:13:20.000Z",
      "2023-11-15T22:13:20.001Z",
      "palimpsest-erasure-1",
      "12 listed, 12 of them in use, 12 scanned (123456 bytes)",
      "scanned: 345",
      "branches checked: 2; catalogs checked: 1",
      "3 looked for, 0 found",
      'branch "main" at transaction 41, 17 pages',
      'nothing before transaction 41 can be restored on branch "main"',
      "9 older ones removed, 1 unfinished uploads",
      'node "node-α": 2 files cleaned, 3 removed',
      "does not prove",
      ...sampleReceiptPayload.limits,
    ])
      expect(out).toContain(said);
  });

  test("lets no text of a receipt steer the terminal", async () => {
    const target = { topic_key: '\u001b[2J\u009b31m"\u202e\\\n', type: "fact" };
    const { file, keys } = await signed({ ...sampleReceiptPayload, target });
    const { code, out } = await run(undefined, file, "--jwks", keys);
    expect(code).toBe(0);
    expect(out).toContain(String.raw`topic "\u{1b}[2J\u{9b}31m\u{22}\u{202e}\u{5c}\u{a}"`);
    expect(out.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  });

  test("says of a deleted database's receipt, and of each kind of target, what they are", async () => {
    const said = async (change: Partial<ReceiptPayload>): Promise<string> => {
      const { file, keys } = await signed({ ...sampleReceiptPayload, ...change });
      return (await run(undefined, file, "--jwks", keys)).out;
    };
    const evidence = {
      ...sampleEvidence,
      states_restored: [],
      oldest_restorable_txid: {},
      local: [],
      store: { versioned: false, versions_removed: 0, uploads_aborted: 0 },
    };
    const gone = await said({ memory_ids: [], erased_txid: {}, evidence, target: { session_id: "s-1", turns: true } });
    for (const text of [
      "memories erased:       none",
      "the whole database is deleted",
      "restored and asked for the erased memories: none",
      "keeps no versions",
      'session "s-1", its transcript too',
    ])
      expect(gone).toContain(text);
    expect(await said({ target: { session_id: "s-1", turns: false } })).toContain("without its transcript");
    expect(await said({ target: { memory_id: "mem_1" } })).toContain('the memory "mem_1"');
  });

  test("takes a whole coupon, and says that only its receipt is signed", async () => {
    const { receipt, keys, write } = await signed(receiptPayload(sampleCoupon, 5, sampleEvidence));
    const coupon = { id: sampleCoupon.id, status: "completed", target: {}, completed_at: 5, receipt };
    const valid = await run(undefined, write("coupon.json", coupon), "--jwks", keys);
    expect(valid.code).toBe(0);
    expect(valid.out).toContain("Of the coupon around it nothing else is signed.");
    const foreign = await run(
      undefined,
      write("foreign.json", { ...coupon, id: "ers_01HF7YAT000000000000000099" }),
      "--jwks",
      keys,
    );
    expect([foreign.code, foreign.out]).toEqual([1, ""]);
    expect(foreign.error).toContain("another erasure");
    const unfinished = await run(
      undefined,
      write("pending.json", { ...coupon, status: "pending", receipt: undefined }),
      "--jwks",
      keys,
    );
    expect([unfinished.code, unfinished.out]).toEqual([1, ""]);
    expect(unfinished.error).toContain("not completed");
  });

  test("exits with 1 and without an account when the receipt is not valid", async () => {
    const { receipt, keys, write } = await signed();
    const stranger = await signed();
    for (const [name, value, reason] of [
      ["a changed payload", { ...receipt, payload: { ...receipt.payload, completed_at: 1 } }, "signature"],
      ["another key", stranger.receipt, "not in the key set"],
      ["a cut signature", { ...receipt, sig: receipt.sig.slice(2) }, "form of a receipt"],
      ["one member more", { ...receipt, checked: true }, "form of a receipt"],
      ["no JSON", "{", "not JSON"],
      ["nothing", "", "not JSON"],
      ["no payload but the rest", { alg: receipt.alg, kid: receipt.kid, sig: receipt.sig }, "form of a receipt"],
    ] as const) {
      const { code, out, error } = await run(undefined, write("other.json", value), "--jwks", keys);
      expect([code, out], name).toEqual([1, ""]);
      expect(error, name).toContain(reason);
    }
    const { code, error } = await run(
      undefined,
      write("receipt.json", receipt),
      "--jwks",
      write("keys.json", { keys: "none" }),
    );
    expect([code, error.includes("no list of keys")]).toEqual([1, true]);
  });

  test("calls no receipt forged that is none", async () => {
    const { receipt, keys, write } = await signed();
    for (const [value, words] of [
      [{ error: "no erasure has this id", code: "not_found" }, "neither a receipt nor a coupon"],
      [[receipt], "neither a receipt nor a coupon"],
      [null, "neither a receipt nor a coupon"],
      [{ erasures: [{ id: sampleCoupon.id, status: "completed", receipt }] }, "a list of coupons: give one of them"],
    ] as const) {
      const { code, out, error } = await run(undefined, write("other.json", JSON.stringify(value)), "--jwks", keys);
      expect([code, out], words).toEqual([1, ""]);
      expect(error).toContain(words);
      expect(error).not.toContain("NOT valid");
    }
  });

  test("reads no more than a receipt or a key set can be, and only text", async () => {
    const { file, keys, write } = await signed();
    expect(await run(" ".repeat(limits.erasureCouponBytesMax + 1), "-", "--jwks", keys)).toMatchObject({
      code: 1,
      out: "",
      error: expect.stringContaining("standard input holds more than") as string,
    });
    expect(await run(undefined, file, "--jwks", write("long.json", " ".repeat(keySetBytesMax + 1)))).toMatchObject({
      code: 1,
      out: "",
    });
    writeFileSync(join(file, "../bytes"), Uint8Array.of(0xff));
    expect((await run(undefined, join(file, "../bytes"), "--jwks", keys)).error).toContain("UTF-8");
  });

  test("exits with 2 for a wrong command line", async () => {
    const { file, keys } = await signed();
    for (const given of [
      [file],
      ["--jwks", keys],
      [file, file, "--jwks", keys],
      [`${file}x`, "--jwks", keys],
      [file, "--jwks", `${keys}x`],
      [temporaryDirectory(), "--jwks", keys],
      [file, "--jwks", "ftp://host/k"],
      [file, "--jwks", "https://a:b@host/k"],
      [file, "--jwks", keys, "--force"],
    ]) {
      const { code, out, error } = await run(undefined, ...given);
      expect([code, out], given.join(" ")).toEqual([2, ""]);
      expect(error).not.toBe("");
    }
  });

  test("takes the key set from an address, and nothing from where that sends it", async () => {
    const { file, key } = await signed();
    const text = JSON.stringify({ keys: [key.listed] });
    const good = await served((_, response) => response.setHeader("content-type", "application/json").end(text));
    expect(await run(undefined, file, "--jwks", good)).toMatchObject({ code: 0, error: "" });
    const answers: readonly (readonly [RequestListener, string])[] = [
      [(_, response) => response.writeHead(302, { location: good }).end(), "redirect"],
      [(_, response) => response.writeHead(404).end(text), "status 404"],
      [(_, response) => response.end("<html>"), "not JSON"],
      [(_, response) => response.end(" ".repeat(keySetBytesMax + 1)), "more than"],
      [(request) => request.socket.destroy(), "gave no key set"],
      [
        (request, response) =>
          void response.writeHead(200, { "content-length": "100" }).write("{", () => request.socket.destroy()),
        "gave no key set",
      ],
    ];
    for (const [answer, reason] of answers) {
      const { code, out, error } = await run(undefined, file, "--jwks", await served(answer));
      expect([code, out]).toEqual([1, ""]);
      expect(error).toContain(reason);
    }
  });

  test("is a command of the program: a receipt on standard input, a key set at an address", async () => {
    const { receipt, key, keys } = await signed();
    const address = await served((_, response) => response.end(JSON.stringify({ keys: [key.listed] })));
    const piped = (input: string, ...more: string[]): Promise<Run> =>
      spawned(["verify-receipt", "-", ...more], {}, input);
    const [valid, changed, wrong] = await Promise.all([
      piped(JSON.stringify(receipt), "--jwks", address),
      piped(JSON.stringify({ ...receipt, payload: { ...receipt.payload, db: "other" } }), "--jwks", keys),
      piped(""),
    ]);
    expect([valid.code, valid.error]).toEqual([0, ""]);
    expect(valid.out).toContain("The receipt is valid");
    expect([changed.code, changed.out]).toEqual([1, ""]);
    expect(changed.error).toContain("NOT valid");
    expect([wrong.code, wrong.out]).toEqual([2, ""]);
  });
});
