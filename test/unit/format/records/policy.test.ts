/** Policies: what a document may say, which of two is the stricter, and the object that keeps one. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ServiceError, StoreError } from "../../../../src/base/faults/errors.ts";
import {
  decodePolicy,
  egressOrder,
  encodePolicy,
  looserFields,
  parsePolicy,
  readPolicy,
  strictest,
  type PolicyLevel,
  type PolicyPath,
  type PolicyValues,
  type StoredPolicy,
  policyBytesMax,
  policyDepthMax,
} from "../../../../src/format/records/policy.ts";

/** The document that says just this. */
function toDocument(values: PolicyValues): Record<string, Record<string, unknown>> {
  const document: Record<string, Record<string, unknown>> = {};
  for (const [path, value] of Object.entries(values)) {
    const [group, field] = path.split(".") as [string, string];
    (document[group] ??= {})[field] = value;
  }
  return document;
}

function catchRefusal(document: unknown, level: PolicyLevel = "namespace"): string {
  try {
    parsePolicy(JSON.stringify(document), level);
  } catch (error) {
    if (error instanceof ServiceError && error.code === "invalid_request") return error.message;
    throw error;
  }
  throw new Error("the policy was taken");
}

const everything = {
  "retention.pitr_secs": 60,
  "retention.pitr_snapshot_secs": 60,
  "memory.task_ttl_max_secs": 60,
  "memory.event_max_age_secs": 60,
  "memory.superseded_max_age_secs": 60,
  "memory.superseded_max_count": 1,
  "memory.trusted_sources": ["books", "mail"],
  "ai_egress.extract": "deny",
  "ai_egress.ask": "self_hosted_only",
  "ai_egress.embed": "allow",
  "egress.webhooks": "self_hosted_only",
  "audit.enabled": true,
  "audit.include_reads": false,
  "audit.include_data": true,
  "audit.retention_secs": 60,
  "erasure.grace_secs": 0,
  "erasure.purge_on_forget": true,
} as const satisfies PolicyValues;
const paths = Object.keys(everything) as PolicyPath[];

describe("a policy document", () => {
  test("may set every field, each down to its least value", () => {
    const document = toDocument(everything);
    expect(parsePolicy(JSON.stringify(document), "namespace")).toEqual(document);
    expect(readPolicy(document, "namespace")).toEqual(everything);
  });

  test("keeps what is unknown, and says nothing where it is null or empty", () => {
    const document = {
      retention: { pitr_secs: null, later: [1, { a: "b" }] },
      memory: {},
      audit: null,
      region: "eu",
      "retention.pitr_secs": 1,
    };
    expect(parsePolicy(JSON.stringify(document), "namespace")).toEqual(document);
    expect(readPolicy(document, "namespace")).toEqual({});
    expect(parsePolicy("null", "namespace")).toBeUndefined();
  });

  const seconds = (path: string, least: number): string =>
    `${path} must be a whole number of seconds, at least ${least}`;
  test.each<[PolicyPath, unknown[], string]>([
    ...(
      [
        "retention.pitr_secs",
        "retention.pitr_snapshot_secs",
        "memory.task_ttl_max_secs",
        "memory.event_max_age_secs",
        "memory.superseded_max_age_secs",
        "audit.retention_secs",
      ] as const
    ).map((path): [PolicyPath, unknown[], string] => [
      path,
      [59, 0, -60, 60.5, "60", true, [60], {}],
      seconds(path, 60),
    ]),
    ["erasure.grace_secs", [-1, 0.5, "0", false], seconds("erasure.grace_secs", 0)],
    [
      "memory.superseded_max_count",
      [0, -1, 1.5, "1"],
      "memory.superseded_max_count must be a whole number, at least 1",
    ],
    ...(["ai_egress.extract", "ai_egress.ask", "ai_egress.embed", "egress.webhooks"] as const).map(
      (path): [PolicyPath, unknown[], string] => [
        path,
        ["DENY", "none", "", 0, true, ["deny"]],
        `${path} must be one of allow, self_hosted_only, deny`,
      ],
    ),
    [
      "memory.trusted_sources",
      ["books", {}, [""], [1], ["a", "a"], ["x".repeat(257)], Array.from({ length: 101 }, (_, n) => `s${n}`)],
      "memory.trusted_sources must be a list of at most 100 different texts of 1 to 256 bytes",
    ],
    ...(["audit.enabled", "audit.include_reads", "audit.include_data", "erasure.purge_on_forget"] as const).map(
      (path): [PolicyPath, unknown[], string] => [path, [0, 1, "true", {}], `${path} must be true or false`],
    ),
  ])("governance-03: %s refuses what it cannot be, by its path and with what is allowed", (path, values, message) => {
    const [group, field] = path.split(".") as [string, string];
    for (const value of values)
      expect(catchRefusal({ [group]: { [field]: value } }), JSON.stringify(value)).toBe(
        `the policy is not valid: ${message}`,
      );
  });

  test("governance-03: every wrong field is named at once", () => {
    const message = catchRefusal({
      retention: { pitr_secs: 1 },
      ai_egress: "deny",
      memory: { superseded_max_count: 0 },
    });
    for (const path of ["retention.pitr_secs", "ai_egress must be an object", "memory.superseded_max_count"])
      expect(message).toContain(path);
  });

  test("is an object within its bounds", () => {
    for (const other of [[], "x", 1, true]) expect(catchRefusal(other)).toMatch(/must be an object, or null/);
    expect(catchRefusal({ note: "x".repeat(policyBytesMax) })).toMatch(/at most \d+ bytes/);
    const nested = (levels: number): unknown => (levels === 0 ? 1 : { deeper: nested(levels - 1) });
    expect(parsePolicy(JSON.stringify(nested(policyDepthMax)), "namespace")).toBeDefined();
    expect(catchRefusal(nested(policyDepthMax + 1))).toMatch(/nested deeper/);
    expect(() => parsePolicy('{"tenant":9007199254740993}', "namespace")).toThrow(/beyond 2\^53/);
    expect(() => parsePolicy('{"tenant":[1e400]}', "namespace")).toThrow(/beyond 2\^53/);
  });

  test("of a profile cannot set what concerns the whole namespace", () => {
    for (const path of paths) {
      const document = toDocument({ [path]: everything[path] });
      if (path.startsWith("audit."))
        expect(catchRefusal(document, "profile")).toBe(
          `the policy is not valid: ${path} can be set for a whole namespace only`,
        );
      else expect(parsePolicy(JSON.stringify(document), "profile")).toEqual(document);
    }
  });

  test("a key named __proto__ is a field like any other", () => {
    const text = '{"__proto__":{"retention":{"pitr_secs":1}},"retention":{"__proto__":{"pitr_secs":1}}}';
    const document = parsePolicy(text, "namespace")!;
    expect(readPolicy(document, "namespace")).toEqual({});
    expect(JSON.stringify(document)).toBe(text);
  });
});

describe("tightening", () => {
  const caps = paths.filter((path) => typeof everything[path] === "number");
  const flags = paths.filter((path) => typeof everything[path] === "boolean");
  const egress = paths.filter((path) => typeof everything[path] === "string");
  const sources = ["books", "mail", "web"];

  test.each([
    ...caps.map((path) => [path, [100, 99, 61]] as const),
    ...flags.map((path) => [path, [false, true]] as const),
    ...egress.map((path) => [path, egressOrder] as const),
    ["memory.trusted_sources", [sources, ["books", "web"], ["web"], []]] as const,
  ])("governance-04: %s may go from the looser to the stricter, never back", (path, loosestFirst) => {
    for (const [at, own] of loosestFirst.entries()) {
      for (const [baseAt, base] of loosestFirst.entries()) {
        expect(
          looserFields({ [path]: own }, { [path]: base }),
          `${String(own)} where the namespace has ${String(base)}`,
        ).toEqual(at < baseAt ? [path] : []);
        expect(strictest({ [path]: own }, { [path]: base })).toEqual({ [path]: loosestFirst[Math.max(at, baseAt)] });
      }
      expect(looserFields({ [path]: own }, {})).toEqual([]);
      expect(looserFields({}, { [path]: own })).toEqual([]);
    }
  });

  test("governance-04: every looser field is named", () => {
    const base: PolicyValues = {
      "retention.pitr_secs": 100,
      "ai_egress.ask": "deny",
      "erasure.purge_on_forget": true,
      "memory.superseded_max_count": 3,
    };
    const own: PolicyValues = {
      "retention.pitr_secs": 101,
      "ai_egress.ask": "allow",
      "erasure.purge_on_forget": false,
      "memory.superseded_max_count": 2,
    };
    expect(looserFields(own, base)).toEqual(["retention.pitr_secs", "ai_egress.ask", "erasure.purge_on_forget"]);
  });

  test("the strictest of several is never looser than any of them, and says nothing of its own", () => {
    const some = fc.record(
      Object.fromEntries(
        paths.map((path) => [
          path,
          egress.includes(path)
            ? fc.constantFrom(...egressOrder)
            : typeof everything[path] === "boolean"
              ? fc.boolean()
              : path === "memory.trusted_sources"
                ? fc.subarray(sources)
                : fc.integer({ min: 0, max: 5 }),
        ]),
      ),
      { requiredKeys: [] },
    ) as fc.Arbitrary<PolicyValues>;
    fc.assert(
      fc.property(fc.array(some, { maxLength: 4 }), (policies) => {
        const folded = strictest(...policies);
        for (const policy of policies) expect(looserFields(folded, policy)).toEqual([]);
        for (const path of paths) {
          if (path === "memory.trusted_sources") continue;
          const said = policies.flatMap((policy) => policy[path] ?? []);
          if (said.length > 0) expect(said, path).toContain(folded[path]);
          else expect(folded, path).not.toHaveProperty([path]);
        }
        const trusted = policies.flatMap((policy) => policy["memory.trusted_sources"] ?? []);
        const lists = policies.filter((policy) => policy["memory.trusted_sources"] !== undefined);
        expect(folded["memory.trusted_sources"]).toEqual(
          lists.length === 0
            ? undefined
            : sources.filter((source) => trusted.filter((one) => one === source).length === lists.length),
        );
        expect(strictest(...policies.toReversed())).toEqual(folded);
        expect(strictest(folded, ...policies)).toEqual(folded);
      }),
    );
  });
});

describe("a policy at rest", () => {
  // What came later is no other format: an older build keeps a field that it does not know.
  const {
    "audit.include_data": _later,
    "memory.trusted_sources": _last,
    "egress.webhooks": _newest,
    ...first
  } = everything;
  const sample: StoredPolicy = {
    revision: 3,
    updatedAtMs: 1_700_000_000_000,
    nonce: Uint8Array.from({ length: 16 }, (_, index) => index * 16),
    document: { ...toDocument(first), region: { name: "eu", weights: [0.5, null] } },
  };
  const golden = new Uint8Array(readFileSync(join(import.meta.dirname, "../../../golden/policy-v1.json")));

  test("of format 1 is read as it was meant, and written byte for byte as it was", () => {
    expect(decodePolicy(golden, "namespace")).toEqual({ ...sample, values: first });
    expect(
      Buffer.from(encodePolicy(sample)).toString(),
      "the format has changed: raise its version, keep reading the old one, add a golden file",
    ).toBe(Buffer.from(golden).toString());
  });

  test("comes back cleared as it was", () => {
    const cleared = { ...sample, document: undefined };
    expect(decodePolicy(encodePolicy(cleared), "profile")).toEqual({ ...cleared, values: {} });
  });

  test("governance-13: that is anything else is corrupt, never no policy", () => {
    const object = JSON.parse(Buffer.from(golden).toString()) as Record<string, unknown>;
    const spoilt: unknown[] = [
      null,
      [],
      "x",
      {},
      { ...object, v: 2 },
      { ...object, revision: "3" },
      { ...object, updated_at: undefined },
      { ...object, nonce: "00" },
      { ...object, policy: undefined },
      { ...object, policy: [] },
      { ...object, policy: { retention: { pitr_secs: 1 } } },
      { ...object, policy: { ai_egress: { ask: "eu_only" } } },
    ];
    const texts = [
      ...spoilt.map((value) => JSON.stringify(value)),
      "",
      "{",
      Buffer.from(golden).toString().slice(0, -1),
    ];
    for (const text of texts) expect(() => decodePolicy(Buffer.from(text), "namespace"), text).toThrow(StoreError);
    expect(() => decodePolicy(Uint8Array.of(0xff, 0xfe), "namespace")).toThrow(StoreError);
    // What only a namespace may say.
    expect(() => decodePolicy(golden, "profile")).toThrow(StoreError);
  });
});
