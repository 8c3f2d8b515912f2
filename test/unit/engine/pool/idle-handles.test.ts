/** What open databases give back while nobody uses them, and that they answer as before. */
import { expect, onTestFinished, test, vi } from "vitest";
import { restMs } from "../../../../src/engine/pool/idle-handles.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { startAudited } from "../../../support/audited-node.ts";

test("a database that nobody uses gives back once what only makes calls faster, and answers as before", async () => {
  const given = vi.spyOn(Connection.prototype, "giveBack");
  onTestFinished(() => given.mockRestore());
  const { time, node } = startAudited({ idleCloseMs: 60_000 });
  for (let step = 0; step < 10; step++) {
    await node.put(`k${step}`);
    await time.pass(restMs / 2);
  }
  expect(given).not.toHaveBeenCalled();
  await time.pass(3 * restMs);
  expect(given).toHaveBeenCalledTimes(1);
  const [connection] = given.mock.contexts as [Connection];
  // Nothing is cached: the next call prepares what it needs anew.
  const sql = "SELECT txid FROM __service_state";
  const before = connection.prepared(sql);
  expect(connection.prepared(sql)).toBe(before);
  connection.giveBack();
  expect(connection.prepared(sql)).not.toBe(before);
  await time.pass(10 * restMs);
  expect(given).toHaveBeenCalledTimes(2);
  expect(await node.keys()).toHaveLength(10);
  await node.put("again");
  await time.pass(3 * restMs);
  expect(given).toHaveBeenCalledTimes(3);
  expect(await node.keys()).toHaveLength(11);
  expect(node.engine.counters).toMatchObject({ opened: 1 });
});

test("is not at rest for what object storage does not cover", async () => {
  const given = vi.spyOn(Connection.prototype, "giveBack");
  onTestFinished(() => given.mockRestore());
  const { time, node } = startAudited({ idleCloseMs: 60_000 });
  await node.put("a");
  time.store.decideFate = (verb) => (verb === "put" ? "refused" : "fine");
  await node.put("b");
  await time.pass(10_000);
  expect(given).not.toHaveBeenCalled();
  time.store.decideFate = () => "fine";
  await time.pass(60_000);
  expect(await node.keys()).toEqual(["a", "b"]);
});
