/** Notes of what is due, when they cannot be put. */
import { expect, test } from "vitest";
import { ExpiryIndexWriter, dueMarksMax } from "../../../../src/engine/maintenance/expiry-index-writer.ts";
import { uuidOf } from "../../../support/inline-engine.ts";
import { VirtualTime } from "../../../support/timed-engine.ts";

test("beyond their bound are left out and said once, and taken again when the store answers", async () => {
  const time = new VirtualTime();
  const notices: string[] = [];
  const marks = new ExpiryIndexWriter({
    store: time.store,
    world: time.world(),
    findName: () => "acme--alice",
    notice: (message) => notices.push(message),
  });
  const atMs = Date.UTC(2031, 0, 1);
  time.store.decideFate = (verb) => (verb === "put" ? "refused" : "fine");
  for (let n = 0; n < dueMarksMax + 5; n++) marks.note({ uuid: uuidOf(n), branchId: "main", atMs });
  await time.pass(1_000);
  expect(notices).toHaveLength(1);
  time.store.decideFate = () => "fine";
  marks.tick();
  await time.pass(60_000);
  expect(time.store.keys()).toHaveLength(dueMarksMax);
  marks.note({ uuid: uuidOf(dueMarksMax + 1), branchId: "main", atMs });
  await time.pass(1_000);
  expect(time.store.keys()).toHaveLength(dueMarksMax + 1);
});
