/**
 * The programs of `examples/` that verify receipts and audit chains, against what a real node makes: they take it as it
 * is, and refuse each kind of tampering. They share nothing with the sources; what they do is what docs/verifying.md
 * says.
 */
import { execFile, spawnSync } from "node:child_process";
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { inGate } from "../support/gate.ts";
import { useService } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const run = promisify(execFile);
const example = (name: string): string => fileURLToPath(new URL(`../../examples/${name}`, import.meta.url));
const python = process.env["PALIMPSEST_PYTHON"] ?? "python3";
const hasPython = spawnSync(python, ["--version"]).status === 0;

const service = useService({ SERVICE_GC_GRACE_SECS: "0", SERVICE_AUDIT_FLUSH_MS: "100" });

/** Runs a verifier over these JSON texts; whether it took them, and what it said. */
async function verdict(command: string, script: string, texts: readonly string[]): Promise<readonly [boolean, string]> {
  const directory = temporaryDirectory();
  const paths = texts.map((text, at) => {
    const path = join(directory, `${at}.json`);
    writeFileSync(path, text);
    return path;
  });
  try {
    return [true, (await run(command, [example(script), ...paths], { timeout: 30_000 })).stdout];
  } catch (error) {
    const { code, stdout, stderr } = error as { code?: unknown; stdout?: string; stderr?: string };
    // A program that falls over has verified nothing.
    expect([code, stderr], script).toEqual([1, ""]);
    return [false, stdout ?? ""];
  }
}

const call = async (method: string, path: string, body?: unknown): Promise<any> => {
  const { status, json, text } = await service().call(method, path, body);
  expect(status, text).toBeLessThan(300);
  return json;
};

let coupon: any;
let keySet: any;
let pages: string[];

beforeAll(async () => {
  await call("PUT", "/v1/namespaces/acme/policy", {
    policy: { audit: { enabled: true, include_reads: true, include_data: true }, erasure: { grace_secs: 0 } },
  });
  const memory = "/v1/memory/acme/alice";
  const topic = 'Überraschung \u2028 \ud83d\ude00 "quoted"';
  await call("POST", `${memory}/memories`, {
    memories: [
      { type: "fact", topic_key: topic, summary: "secret", content: null },
      { type: "task", summary: "later", content: {} },
    ],
  });
  const { id } = await call("POST", `${memory}/erasures`, { topic_key: topic, type: "fact" });
  await call("POST", `${memory}/recall`, { query: "later" });
  await call("POST", "/v1/databases/acme--alice/tokens", { scope: "read" });
  await call("PUT", "/v1/db/acme--alice/kv/n/k", { value: 1 });
  do {
    await new Promise((resolve) => setTimeout(resolve, 500));
    coupon = await call("GET", `${memory}/erasures/${id}`);
  } while (coupon.status !== "completed");
  keySet = await call("GET", "/.well-known/jwks.json");
  pages = [];
  for (let cursor: string | null | undefined; cursor !== null;) {
    const { text, json } = await service().call(
      "GET",
      `/v1/namespaces/acme/audit?limit=3${cursor === undefined ? "" : `&cursor=${encodeURIComponent(cursor)}`}`,
    );
    pages.push(text);
    cursor = json.next_cursor as string | null;
  }
}, 60_000);

/** Each with a way to make a receipt into one that nobody may take. */
const receiptTampering: readonly (readonly [
  how: string,
  tampered: (receipt: any) => [receipt: unknown, keySet?: unknown],
])[] = [
  [
    "a member of the payload is changed",
    (receipt) => [{ ...receipt, payload: { ...receipt.payload, db: "acme--bob" } }],
  ],
  [
    "something deep in the evidence is changed",
    (receipt) => [
      {
        ...receipt,
        payload: {
          ...receipt.payload,
          evidence: { ...receipt.payload.evidence, pages_scanned: receipt.payload.evidence.pages_scanned + 1 },
        },
      },
    ],
  ],
  [
    "a member is added to the payload",
    (receipt) => [{ ...receipt, payload: { ...receipt.payload, note: "also the rest" } }],
  ],
  [
    "a member is removed from the payload",
    ({ payload: { limits: _, ...payload }, ...receipt }) => [{ ...receipt, payload }],
  ],
  ["a member is added beside it", (receipt) => [{ ...receipt, note: "unsigned" }]],
  ["it is said to be of the other version", (receipt) => [{ ...receipt, payload: { ...receipt.payload, v: 2 } }]],
  ["it is said to be of no known version", (receipt) => [{ ...receipt, payload: { ...receipt.payload, v: 3 } }]],
  [
    "the signature is changed",
    (receipt) => [{ ...receipt, sig: receipt.sig.replace(/^./, receipt.sig.startsWith("A") ? "B" : "A") }],
  ],
  ["the signature has another spelling", (receipt) => [{ ...receipt, sig: `${receipt.sig}=` }]],
  ["the signature is cut", (receipt) => [{ ...receipt, sig: receipt.sig.slice(0, -4) }]],
  ["another algorithm is named", (receipt) => [{ ...receipt, alg: "none" }]],
  ["a key is named that is not listed", (receipt) => [{ ...receipt, kid: "A".repeat(43) }]],
  ["it is signed by a key that is not listed", (receipt) => [signedBy(forger, receipt.payload)]],
  [
    "the forger's key stands under the name of ours",
    (receipt) => [
      { ...signedBy(forger, receipt.payload), kid: receipt.kid },
      { keys: [{ ...forger.listed, kid: receipt.kid }] },
    ],
  ],
  [
    "what is signed has no domain before it",
    (receipt) => [signedBy(forger, receipt.payload, ""), { keys: [forger.listed] }],
  ],
];

/** A key of somebody else's. */
const forger = (() => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const { x } = publicKey.export({ format: "jwk" }) as { x: string };
  const kid = createHash("sha256").update(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`).digest("base64url");
  return { privateKey, kid, listed: { kty: "OKP", crv: "Ed25519", x, kid, alg: "EdDSA", use: "sig" } };
})();

function sorted(value: any): any {
  if (Array.isArray(value)) return value.map(sorted);
  return typeof value === "object" && value !== null
    ? Object.fromEntries(
        Object.keys(value)
          .sort()
          .map((name) => [name, sorted(value[name])]),
      )
    : value;
}

function signedBy(
  { privateKey, kid }: typeof forger,
  payload: any,
  domain = "palimpsest-erasure-receipt-v1\0",
): object {
  return {
    payload,
    alg: "EdDSA",
    kid,
    sig: sign(null, Buffer.from(`${domain}${JSON.stringify(sorted(payload))}`), privateKey).toString("base64url"),
  };
}

type Events = any[];

const withEvents = (change: (events: Events) => Events): string =>
  JSON.stringify({ events: change(pages.flatMap((page) => JSON.parse(page).events as Events)) });

const auditTampering: readonly (readonly [how: string, change: (events: Events) => Events])[] = [
  ["an event is removed", (events) => events.toSpliced(2, 1)],
  ["an event is changed", (events) => events.map((event, at) => (at === 1 ? { ...event, outcome: "error" } : event))],
  [
    "an event has another member",
    (events) => events.map((event, at) => (at === 1 ? { ...event, resource: "acme--bob" } : event)),
  ],
  [
    "a member is taken away",
    (events) =>
      events.map(({ count, ...event }, at) => (at === 1 ? event : { ...event, ...(count !== undefined && { count }) })),
  ],
  ["an event is put in", (events) => events.toSpliced(2, 0, { ...events[1], id: "01HF7YAT000000000000000001" })],
  ["two events are exchanged", (events) => [events[0], events[2], events[1], ...events.slice(3)]],
];

describe.each([
  ["TypeScript", process.execPath, "verify-receipt.ts", "verify-audit.ts", true],
  ["Python", python, "verify_receipt.py", "verify_audit.py", hasPython || inGate],
] as const)("in %s", (_, command, receiptScript, auditScript, isThere) => {
  describe.skipIf(!isThere)("where its language is there", () => {
    test("a receipt is valid, as it is and in its coupon, whatever order its members come in", async () => {
      const keys = JSON.stringify(keySet);
      for (const given of [coupon, coupon.receipt, sorted(coupon.receipt)]) {
        const [isValid, said] = await verdict(command, receiptScript, [JSON.stringify(given), keys]);
        expect([isValid, said.trim()]).toEqual([
          true,
          `valid: ${coupon.id} of acme--alice, signed by ${coupon.receipt.kid}`,
        ]);
      }
      const own = signedBy(forger, coupon.receipt.payload);
      expect(
        (await verdict(command, receiptScript, [JSON.stringify(own), JSON.stringify({ keys: [forger.listed] })]))[0],
      ).toBe(true);
    });

    test.each(receiptTampering)("a receipt is not valid when %s", async (_, tampered) => {
      const [receipt, keys = keySet] = tampered(coupon.receipt);
      const [isValid, said] = await verdict(command, receiptScript, [JSON.stringify(receipt), JSON.stringify(keys)]);
      expect([isValid, said]).toEqual([false, expect.stringMatching(/^NOT valid: /)]);
    });

    test("a stream is sound over all its pages, and its beginning has no event before it", async () => {
      expect(pages.length).toBeGreaterThan(2);
      expect(JSON.parse(pages[0]!).events[0].prev).toBe("0".repeat(64));
      const [isValid, said] = await verdict(command, auditScript, pages);
      expect([isValid, said]).toEqual([
        true,
        expect.stringMatching(/ events of 1 nodes, 0 broken links\nnewest of \w{26}: [0-9a-f]{64}\n$/),
      ]);
    });

    test.each(auditTampering)("a stream is broken when %s", async (_, change) => {
      const [isValid, said] = await verdict(command, auditScript, [withEvents(change)]);
      expect([isValid, said]).toEqual([false, expect.stringContaining("BROKEN before")]);
    });
  });
});

test("the stream holds events of both versions", () => {
  const events = pages.flatMap((page) => JSON.parse(page).events as Events);
  expect(new Set(events.map(({ v }) => v))).toEqual(new Set([1, 2]));
  expect(events.find(({ action }) => action === "token.mint").grant).toEqual({
    jti: expect.stringMatching(/^\w{26}$/),
    scope: "read",
    expires_in: 3_600,
    db: "acme--alice",
  });
});
