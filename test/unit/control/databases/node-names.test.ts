/** Names of nodes: written down at a start, found again by identity and by name. */
import { expect, test } from "vitest";
import { NodeNames } from "../../../../src/control/databases/node-names.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";
import { setWorld } from "../../../support/set-world.ts";
import { nodeNameCharsMax } from "../../../../src/format/keys/node-keys.ts";
import { settingWordCharsMax } from "../../../../src/server/config/setting-kinds.ts";

const [a, b] = ["01HF7YAT00000000000000000A", "01HF7YAT00000000000000000B"];

test("a node has the name that it started with last, whatever characters it has; two may have the same", async () => {
  const { world, now } = setWorld(1_700_000_000_000);
  const store = new ScriptedStore(() => now);
  const names = new NodeNames(store, world);
  await names.announce(a, "db/1%2F");
  await names.announce(b, "..");
  expect(await names.of([a, b, "nobody"])).toEqual({ [a]: "db/1%2F", [b]: ".." });
  await names.announce(a, "db-2");
  await names.announce(b, "db-2");
  await names.announce(b, "db-2");
  expect(await names.of([a])).toEqual({ [a]: "db-2" });
  expect(await names.named("db-2")).toEqual([a, b]);
  expect(await names.named("db/1%2F")).toEqual([]);
  const long = "n".repeat(settingWordCharsMax);
  await names.announce(a, long);
  expect((await names.of([a]))[a]).toBe(long.slice(0, nodeNameCharsMax));
});

test("a store that does not answer leaves what is known, and nodes without names", async () => {
  const { world, now } = setWorld(1_700_000_000_000);
  const store = new ScriptedStore(() => now);
  const names = new NodeNames(store, world);
  store.decideFate = () => "refused";
  expect(await names.of([a])).toEqual({});
});
