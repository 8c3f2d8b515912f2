/** Revoked tokens: whose they are, how other nodes learn of them, and when they are forgotten. */
import { expect, test } from "vitest";
import { silentLog } from "../../../../src/base/log.ts";
import { limits } from "../../../../src/base/limits.ts";
import type { TokenIdentity } from "../../../../src/control/access/identity.ts";
import { Revocations } from "../../../../src/control/access/revocations.ts";
import { revocationPrefix } from "../../../../src/format/keys/revocation-keys.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";
import { setWorld } from "../../../support/set-world.ts";

const jti = "01HF7YAT00000000000000000J";
const identity = (of: Partial<TokenIdentity>): TokenIdentity => ({
  kind: "token",
  hash: "0".repeat(16),
  scope: "write",
  jti,
  database: undefined,
  namespace: undefined,
  issuedAtMs: 0,
  expiresAtMs: 1,
  ...of,
});
const ofProfile = identity({ database: { name: "acme--alice", uuid: "u" } });
const ofNamespace = identity({ namespace: "acme" });

function setup() {
  const clock = setWorld(1_700_000_000_000);
  const store = new ScriptedStore(() => clock.now);
  const node = (): Revocations => new Revocations({ store, world: clock.world, log: silentLog });
  return { clock, store, node };
}

test("a revocation is for the tokens of its subject alone, whoever has the same id", async () => {
  const { node } = setup();
  const [byDatabase, byNamespace] = [node(), node()];
  await byDatabase.revoke({ kind: "db", name: "acme--alice" }, jti);
  expect(
    [
      ofProfile,
      ofNamespace,
      identity({ database: { name: "acme--bob", uuid: "u" } }),
      { ...ofProfile, jti: "01HF7YAT00000000000000000K" },
    ].map((token) => byDatabase.has(token)),
  ).toEqual([true, false, false, false]);
  await byNamespace.revoke({ kind: "ns", name: "acme" }, jti);
  expect(
    [
      ofProfile,
      ofNamespace,
      identity({ namespace: "other" }),
      identity({ database: { name: "acmes--alice", uuid: "u" } }),
    ].map((token) => byNamespace.has(token)),
  ).toEqual([true, true, false, false]);
});

test("another node learns of it when what it knows is old, and in an outage keeps what it knows", async () => {
  const { store, node } = setup();
  const [here, elsewhere] = [node(), node()];
  await elsewhere.refresh();
  await here.revoke({ kind: "db", name: "acme--alice" }, jti);
  expect(elsewhere.has(ofProfile)).toBe(false);
  await elsewhere.refresh();
  expect(elsewhere.has(ofProfile)).toBe(true);
  store.decideFate = () => "refused";
  await elsewhere.refresh();
  expect(elsewhere.has(ofProfile)).toBe(true);
  await expect(here.revoke({ kind: "db", name: "acme--alice" }, "01HF7YAT00000000000000000K")).rejects.toMatchObject({
    kind: "unavailable",
  });
});

test("it goes once no token that it can be of is good, and not before; to say it again changes nothing", async () => {
  const { clock, store, node } = setup();
  const revocations = node();
  await revocations.revoke({ kind: "db", name: "acme--alice" }, jti);
  await revocations.revoke({ kind: "db", name: "acme--alice" }, jti);
  expect(store.keys(revocationPrefix)).toHaveLength(1);
  clock.now += limits.tokenSecsMax * 1_000;
  const still = node();
  await still.refresh();
  expect([still.has(ofProfile), store.keys(revocationPrefix)]).toEqual([true, expect.objectContaining({ length: 1 })]);
  clock.now += 3 * 3_600_000;
  const after = node();
  await after.refresh();
  expect([after.has(ofProfile), store.keys(revocationPrefix)]).toEqual([false, []]);
});
