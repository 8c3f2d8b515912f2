/** The whole endpoint table through both wires: every method by every credential, as the access rules say. */
import { beforeAll, describe, expect, test } from "vitest";
import { platformKey } from "../support/credentials.ts";
import { useGuarded } from "../support/guarded-service.ts";
import { sampleRequests } from "../support/requests.ts";
import { endpointNamed, wireNames, type WireName } from "../support/wires.ts";
import { Credential, endpoints, scopeNames } from "../../src/service/call/methods.ts";

const node = useGuarded();
/** By what it is called below. */
const credentials = new Map<string, string | undefined>([
  ["nothing", undefined],
  ["garbage", "garbage"],
  ["the platform key", platformKey],
]);
const subjects = {
  "the profile": { db: "acme--bot" },
  "its namespace": { ns: "acme" },
  "another database": { db: "other" },
  "another namespace": { ns: "elsewhere" },
} as const;
const scopes = ["read", "write", "admin"];

beforeAll(async () => {
  await node().create("other");
  for (const [what, subject] of Object.entries(subjects))
    for (const scope of scopes) credentials.set(`${scope} token of ${what}`, await node().mint(subject, scope));
});

/** Who gets in, told by the rule of the proto file in words of this test's own. */
function getsIn(method: string, who: string): boolean {
  const { rule } = endpointNamed(method);
  const scope = scopes.find((name) => who.startsWith(name));
  const least = scopeNames.get(rule.scope);
  const hasScope = scope !== undefined && (least === undefined || scopes.indexOf(scope) >= scopes.indexOf(least));
  const ofNamespace = who.endsWith("its namespace");
  switch (rule.credential) {
    case Credential.PLATFORM:
      return who === "the platform key";
    case Credential.NAMESPACE:
      return ofNamespace && hasScope;
    case Credential.DATABASE:
      return (ofNamespace || who.endsWith("the profile")) && hasScope;
    case Credential.PLATFORM_OR_NAMESPACE_ADMIN:
      return who === "the platform key" || (ofNamespace && scope === "admin");
    default:
      throw new Error(`${method} has no credential that this test knows`);
  }
}

/** Every call is about the profile or its namespace, also as a plain database. */
const samples = sampleRequests("acme--bot", { ns: "acme", profile: "bot" });
const cases = endpoints.flatMap(({ name }) => wireNames.map((wire): [string, WireName] => [name, wire]));

describe.each(cases)("%s over %s", (method, wire) => {
  test("opens for exactly those whom its rule names", async () => {
    const request = {
      ...samples.get(method)!,
      ...(method === "ControlService.DeleteDatabase" ? { db: "no-such" } : {}),
    };
    for (const [who, credential] of credentials) {
      const { code } = await node().over(wire, credential)(method, request);
      const isKnown = who !== "nothing" && who !== "garbage";
      const refusal = !isKnown ? "unauthorized" : getsIn(method, who) ? undefined : "forbidden";
      if (refusal) expect([who, code]).toEqual([who, refusal]);
      else expect([who, code === "unauthorized" || code === "forbidden"]).toEqual([who, false]);
    }
  });
});
