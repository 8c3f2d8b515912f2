/** An ingest by way of a node that does not know yet that its profile was deleted by way of another one. */
import { expect, test } from "vitest";
import { ServiceError } from "../../../../src/base/faults/errors.ts";
import { silentLog } from "../../../../src/base/log.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { Databases } from "../../../../src/control/databases/databases.ts";
import { Policies } from "../../../../src/control/databases/policies.ts";
import { EnginePort, type PortCall } from "../../../../src/engine/api/engine-port.ts";
import type { Answer, Target } from "../../../../src/engine/api/protocol.ts";
import type { Context } from "../../../../src/service/call/context.ts";
import { ingestInto } from "../../../../src/service/memory/ingest.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import type { NodeParts } from "../../../../src/service/handlers/node-parts.ts";

const world = realWorld();
const address = { ns: "acme", profile: "alice" };
const memories = [{ type: "fact", summary: "something", content: "{}" }];

/** An engine that knows which databases are deleted, and nothing else. */
class DeletionsOnly extends EnginePort {
  readonly deleted = new Set<string>();
  readonly written: string[] = [];

  async run({ uuid }: Target, call: PortCall): Promise<Answer> {
    if (this.deleted.has(uuid)) throw new ServiceError("database_not_found", "the database was deleted");
    if (call.kind === "write") this.written.push(uuid);
    return { value: { results: [{ id: "mem_1", status: "created", superseded: [] }] }, txid: 1, durableTxid: 0 };
  }
}

function serving(): {
  engine: DeletionsOnly;
  a: Databases;
  b: Databases;
  ingest(judgedUuid?: string): Promise<unknown>;
} {
  const store = new MemoryStore();
  const engine = new DeletionsOnly();
  const [a, b] = [new Databases(store, world), new Databases(store, world)];
  const policies = new Policies({ store, world, log: silentLog, cacheMs: 1_000, nodePitrSecs: 60 });
  const node = { world, databases: b, engine, policies, embedding: undefined } as unknown as NodeParts;
  const context = (judgedUuid: string | undefined): Context =>
    ({
      call: { headers: {} },
      identity: { kind: "anonymous" },
      judgedUuid,
      deadlineMs: Infinity,
      minTxid: 0,
      durable: false,
      consistency: undefined,
    }) as unknown as Context;
  return { engine, a, b, ingest: (judgedUuid) => ingestInto(node, context(judgedUuid), address, memories) };
}

test("distribution-08: goes to the profile's next life, which it begins if nobody has", async () => {
  const { engine, a, b, ingest } = serving();
  await ingest();
  const first = await b.require("acme--alice");
  await a.remove("acme--alice");
  engine.deleted.add(first.uuid);
  await ingest();
  const next = await a.require("acme--alice");
  expect(next.uuid).not.toBe(first.uuid);
  expect(engine.written).toEqual([first.uuid, next.uuid]);
});

test("is refused when its credential was judged for the life before", async () => {
  const { engine, a, b, ingest } = serving();
  await ingest();
  const first = await b.require("acme--alice");
  await a.remove("acme--alice");
  engine.deleted.add(first.uuid);
  await expect(ingest(first.uuid)).rejects.toMatchObject({ code: "forbidden" });
});

test("is refused, and not tried again, when the database is gone although it has its name", async () => {
  const { engine, b, ingest } = serving();
  const { uuid } = await b.ensure("acme--alice");
  engine.deleted.add(uuid);
  await expect(ingest()).rejects.toMatchObject({ code: "database_not_found" });
  expect(engine.written).toEqual([]);
});
