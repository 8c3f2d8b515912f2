/** Who may do what: every endpoint of the proto files, by every kind of credential, on every kind of target. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  asksStanding,
  decide,
  namespaceCovers,
  type AccessRule,
  type AccessTarget,
  type NameStanding,
} from "../../../../src/control/access/access-rules.ts";
import { anonymous, type Identity, scopeIncludes, type ScopeName } from "../../../../src/control/access/identity.ts";
import { buildAccessRule } from "../../../../src/service/pipeline/caller-check.ts";
import { endpoints, type Endpoint } from "../../../../src/service/call/methods.ts";

const deletedAtMs = 1_000_000;
const scopes: readonly ScopeName[] = ["read", "write", "admin"];

type Bearer = {
  readonly database?: { readonly name: string; readonly uuid: string };
  readonly namespace?: string;
  readonly issuedAtMs?: number;
};

function buildToken(scope: ScopeName, { database, namespace, issuedAtMs = 0 }: Bearer): Identity {
  return { kind: "token", hash: "0123456789abcdef", scope, database, namespace, issuedAtMs, expiresAtMs: 10 ** 12 };
}

const bearers: Readonly<Record<string, Bearer>> = {
  "token of acme--alice": { database: { name: "acme--alice", uuid: "u1" } },
  "token of plain": { database: { name: "plain", uuid: "u1" } },
  "token of acme": { namespace: "acme" },
  "token of other": { namespace: "other" },
};
const platform: Identity = { kind: "platform", hash: "fedcba9876543210" };

const databaseTargets = ["acme--alice", "acme--bob", "other--alice", "plain"];
const namespaceTargets = ["acme", "other"];
const everything = [...databaseTargets, ...namespaceTargets, "the node"];

/** What each credential with scope enough opens, written down by hand: by the rule's kind, then by the bearer. */
const opened: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  platform: { platform: everything },
  database: {
    "token of acme--alice": ["acme--alice"],
    "token of plain": ["plain"],
    "token of acme": ["acme--alice", "acme--bob"],
    "token of other": ["other--alice"],
  },
  namespace: { "token of acme": ["acme"], "token of other": ["other"] },
  platform_or_namespace_admin: {
    platform: everything,
    "token of acme": ["acme", "acme--alice", "acme--bob"],
    "token of other": ["other", "other--alice"],
  },
};

/** Which scopes are enough, written down by hand. */
const enough: Readonly<Record<ScopeName, readonly ScopeName[]>> = {
  read: ["read", "write", "admin"],
  write: ["write", "admin"],
  admin: ["admin"],
};

function listTargets({ segments }: Endpoint): readonly [string, AccessTarget][] {
  const fields = segments.flatMap((segment) => (segment.kind === "field" ? [segment.field.name] : []));
  if (fields.includes("db") || fields.includes("profile"))
    return databaseTargets.map((name) => [
      name,
      { kind: "database", name, standing: { uuid: "u1", deletedAtMs: undefined } },
    ]);
  if (fields.includes("ns")) return namespaceTargets.map((namespace) => [namespace, { kind: "namespace", namespace }]);
  return [["the node", { kind: "node" }]];
}

describe.each(endpoints.map((endpoint) => [endpoint.name, endpoint] as const))("%s", (_name, endpoint) => {
  const rule = buildAccessRule(endpoint);
  const cases: [string, Identity, ScopeName | undefined][] = [["platform", platform, undefined]];
  for (const [bearer, claims] of Object.entries(bearers))
    for (const scope of scopes) cases.push([bearer, buildToken(scope, claims), scope]);

  test("nobody in particular is unauthorized", () => {
    for (const [, target] of listTargets(endpoint))
      expect(decide({ rule, identity: anonymous, target })).toEqual({ kind: "unauthorized" });
  });

  test.each(cases)("%s", (bearer, identity, scope) => {
    for (const [name, target] of listTargets(endpoint)) {
      const isCovered = opened[rule.credential]![bearer]?.includes(name) === true;
      const hasScope = scope === undefined || rule.scope === undefined || enough[rule.scope].includes(scope);
      expect([name, decide({ rule, identity, target }).kind]).toEqual([
        name,
        isCovered && hasScope ? "allow" : "forbidden",
      ]);
    }
  });
});

test("every rule is of a kind that the table knows", () => {
  for (const endpoint of endpoints) expect(Object.keys(opened)).toContain(buildAccessRule(endpoint).credential);
  expect(
    decide({ rule: { credential: "none", scope: undefined }, identity: anonymous, target: { kind: "node" } }),
  ).toEqual({ kind: "allow" });
});

describe("revocation", () => {
  const rules = scopes.map((scope): AccessRule => ({ credential: "database", scope }));
  const decisions = (identity: Identity, standing: NameStanding): string[] =>
    rules.map((rule) => decide({ rule, identity, target: { kind: "database", name: "acme--alice", standing } }).kind);
  const admin = (claims: Bearer): Identity => buildToken("admin", claims);

  test("a per-database token is for its own uuid alone; after the deletion it reads nothing and writes nothing", () => {
    const own = admin({ database: { name: "acme--alice", uuid: "u1" } });
    expect(decisions(own, { uuid: "u1", deletedAtMs: undefined })).toEqual(["allow", "allow", "allow"]);
    // A name that had an owner before this one.
    expect(decisions(own, { uuid: "u1", deletedAtMs })).toEqual(["allow", "allow", "allow"]);
    expect(decisions(own, { uuid: "u2", deletedAtMs })).toEqual(["forbidden", "forbidden", "forbidden"]);
    // A read is let through to be told that there is no such database.
    expect(decisions(own, { uuid: undefined, deletedAtMs })).toEqual(["allow", "forbidden", "forbidden"]);
  });

  test("auth-17: a namespace token always reads, and writes when younger than the deletion by the skew", () => {
    const at = (issuedAtMs: number): string[] =>
      decisions(admin({ namespace: "acme", issuedAtMs }), { uuid: "u2", deletedAtMs });
    expect(at(deletedAtMs - 60_000)).toEqual(["allow", "forbidden", "forbidden"]);
    expect(at(deletedAtMs)).toEqual(["allow", "forbidden", "forbidden"]);
    expect(at(deletedAtMs + 2_000)).toEqual(["allow", "forbidden", "forbidden"]);
    expect(at(deletedAtMs + 2_001)).toEqual(["allow", "allow", "allow"]);
    expect(decisions(admin({ namespace: "acme" }), { uuid: "u2", deletedAtMs: undefined })).toEqual([
      "allow",
      "allow",
      "allow",
    ]);
    expect(decisions(admin({ namespace: "acme" }), { uuid: undefined, deletedAtMs })).toEqual([
      "allow",
      "forbidden",
      "forbidden",
    ]);
  });

  test("auth-17: where the deletion and the token have numbers, no clock has a say", () => {
    const at = (deletions: number | undefined, issuedAtMs: number): string[] => {
      const identity = {
        ...admin({ namespace: "acme", issuedAtMs }),
        ...(deletions !== undefined && { deletions }),
      } as Identity;
      return decisions(identity, { uuid: "u2", deletedAtMs, deletion: 7 });
    };
    for (const issuedAtMs of [0, deletedAtMs, 10 ** 9]) {
      expect(at(6, issuedAtMs)).toEqual(["allow", "forbidden", "forbidden"]);
      expect(at(7, issuedAtMs)).toEqual(["allow", "allow", "allow"]);
    }
    // One from before tokens had numbers is judged by its time.
    expect(at(undefined, deletedAtMs)).toEqual(["allow", "forbidden", "forbidden"]);
    expect(at(undefined, deletedAtMs + 2_001)).toEqual(["allow", "allow", "allow"]);
  });

  test("the message says why and what to do", () => {
    const old = decide({
      rule: rules[1]!,
      identity: admin({ namespace: "acme" }),
      target: { kind: "database", name: "acme--alice", standing: { uuid: "u2", deletedAtMs } },
    });
    expect(old).toEqual({
      kind: "forbidden",
      message: expect.stringMatching(/predates the database's deletion.*fresh token/),
    });
  });

  test("the standing is asked for whenever a decision can depend on it", () => {
    const standings = [
      undefined,
      { uuid: "u1", deletedAtMs: undefined },
      { uuid: "u2", deletedAtMs },
      { uuid: undefined, deletedAtMs },
    ];
    for (const endpoint of endpoints) {
      const rule = buildAccessRule(endpoint);
      for (const [, target] of listTargets(endpoint)) {
        for (const identity of [
          platform,
          ...Object.values(bearers).flatMap((claims) => scopes.map((scope) => buildToken(scope, claims))),
        ]) {
          if (target.kind !== "database" || asksStanding(rule, identity, target)) continue;
          const kinds = standings.map(
            (standing) =>
              decide({
                rule,
                identity,
                target: standing ? { ...target, standing } : { kind: "database", name: target.name },
              }).kind,
          );
          expect(new Set(kinds).size).toBe(1);
        }
      }
    }
  });
});

describe("names", () => {
  test.each([
    ["acme", "acme--alice", true],
    ["acme", "acme--support_bot", true],
    ["acme", "acme--a--b", false],
    ["acme", "acme---bob", false],
    ["acme", "acmex--alice", false],
    ["acme", "acme", false],
    ["acme", "other--alice", false],
    ["team", "team---x", false],
    ["team-", "team---x", false],
    ["acme", "acme--", false],
    ["", "--x", false],
  ])("auth-18: %s covers %s: %s", (namespace, name, covers) => {
    expect(namespaceCovers(namespace, name)).toBe(covers);
  });

  test("auth-18: no database is covered by two namespaces", () => {
    const part = fc.stringMatching(/^[a-z0-9_-]{0,6}$/);
    fc.assert(
      fc.property(part, part, part, (one, other, rest) => {
        const name = `${one}--${rest}`;
        if (one !== other) expect(namespaceCovers(one, name) && namespaceCovers(other, name)).toBe(false);
      }),
    );
  });

  test("the order of scopes", () => {
    for (const needs of scopes) expect(scopes.filter((has) => scopeIncludes(has, needs))).toEqual(enough[needs]);
  });
});
