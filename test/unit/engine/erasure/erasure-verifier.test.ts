/** The proof of an erasure must fail when there is something to find: negative controls, and what is there by right. */
import { describe, expect, test } from "vitest";
import { databasePrefix } from "../../../../src/format/keys/object-keys.ts";
import { inlinePress } from "../../../../src/format/core/compression.ts";
import { decodeSegments, encodeSegment } from "../../../../src/format/history/segment.ts";
import { collectGraceMs, ErasingNode } from "../../../support/erasing-node.ts";

const vector = (seed: number): Float32Array =>
  Float32Array.from({ length: 256 }, (_, at) => Math.sin(seed * 1_000 + at));

/** A node whose secret is erased and gone, and an object from before that has it. */
async function completed(): Promise<{
  node: ErasingNode;
  coupon: Awaited<ReturnType<ErasingNode["erase"]>>;
  object: { readonly key: string; readonly bytes: Uint8Array };
}> {
  const node = new ErasingNode();
  const secret = await node.remember("the zyxwvutsecret of it", "main", { embedding: vector(1) });
  await node.fill(2);
  const object = await node.objectWith("zyxwvutsecret");
  const coupon = await node.erase(secret);
  await node.fill(2);
  expect((await node.complete(coupon)).clean).toEqual([coupon.id]);
  return { node, coupon, object };
}

describe("the proof of an erasure", () => {
  test(
    "fails while an object that is not ours holds what was erased, and names it to reader and " + "operator",
    async () => {
      const { node, coupon, object } = await completed();
      const key = `${databasePrefix(node.uuid)}seg/a-copy`;
      await node.time.store.calm.put(key, object.bytes, { kind: "absent" });
      expect(await node.expunge(coupon)).toEqual({
        blocked: {},
        clean: [],
        waitingFor: "an object that still holds traces: seg/a-copy",
        mayChangeSoon: true,
        evidence: undefined,
      });
      expect(node.node.notices).toContain("an erasure is not complete: an object that still holds traces: seg/a-copy");
      expect(JSON.stringify(node.node.notices)).not.toContain("zyxwvutsecret");
      await node.time.store.calm.delete(key);
      expect((await node.expunge(coupon)).clean).toEqual([coupon.id]);
    },
  );

  test("fails while the bytes stand raw in an object of any other name", async () => {
    const { node, coupon, object } = await completed();
    const [segment] = await decodeSegments(object.bytes, inlinePress);
    const pages = Buffer.concat(segment!.groups.flatMap(({ images }) => images.map(({ bytes }) => bytes)));
    await node.time.store.calm.put(`${databasePrefix(node.uuid)}notes/dump`, pages, { kind: "absent" });
    expect((await node.expunge(coupon)).waitingFor).toBe("an object that still holds traces: notes/dump");
  });

  test("F90: waits for an old object that comes back under its own name until it is collected again", async () => {
    const { node, coupon, object } = await completed();
    // The catalog forgets what was deleted when it is looked at next; until then what comes back goes at once.
    await node.expunge(coupon);
    await node.time.store.calm.put(object.key, object.bytes, { kind: "absent" });
    expect(await node.expunge(coupon)).toMatchObject({ clean: [], waitingFor: "the collection of old objects" });
    expect((await node.complete(coupon)).clean).toEqual([coupon.id]);
    expect(node.time.store.read(object.key)).toBeUndefined();
  });

  test("F90: objects that come late are collected an hour later without being asked for", async () => {
    const { node, object } = await completed();
    await node.time.store.calm.put(object.key, object.bytes, { kind: "absent" });
    await node.time.pass(3_700_000 + 2 * collectGraceMs);
    expect(node.time.store.read(object.key)).toBeUndefined();
  });

  test("fails on a page with something in its unused space, though no trace of anything is in it", async () => {
    const { node, coupon } = await completed();
    const key = node.time.store.keys(`${databasePrefix(node.uuid)}seg/`)[0]!;
    const segments = await decodeSegments(node.time.store.read(key)!.bytes, inlinePress);
    const page = segments
      .flatMap(({ groups }) => groups.flatMap(({ images }) => images))
      .find(({ bytes }) => bytes[0] === 13)!;
    const cells = (page.bytes[5]! << 8) | page.bytes[6]!;
    page.bytes[cells - 1] = 0x55;
    const bytes = Buffer.concat(await Promise.all(segments.map((segment) => encodeSegment(segment, inlinePress))));
    await node.time.store.calm.put(`${databasePrefix(node.uuid)}seg/slack`, bytes, { kind: "absent" });
    expect((await node.expunge(coupon)).waitingFor).toBe("an object with something left in unused space: seg/slack");
  });

  test("counts no vector that somebody has said again since, and looks for all others", async () => {
    const node = new ErasingNode();
    const secret = await node.remember("the zyxwvutsecret of it", "main", { embedding: vector(1) });
    await node.remember("another", "main", { embedding: vector(2) });
    const coupon = await node.erase(secret);
    await node.remember("something else that means the same", "main", { embedding: vector(1) });
    await node.fill(1);
    const { clean, evidence } = await node.complete(coupon);
    expect(clean).toEqual([coupon.id]);
    expect(evidence!.traces.looked_for).toBeLessThan(coupon.traces.windowsTotal);
    expect(evidence!.traces.looked_for).toBeGreaterThan(0);
  });

  test("does not begin while the store's object lock keeps old versions", async () => {
    const { node, coupon } = await completed();
    node.time.store.purgeVersions = async () => ({ versioned: true, removed: 3, uploadsAborted: 1, locked: 2 });
    expect(await node.expunge(coupon)).toMatchObject({
      clean: [],
      waitingFor: "versions of objects that the store's object lock keeps",
    });
    node.time.store.purgeVersions = async () => ({ versioned: true, removed: 3, uploadsAborted: 1, locked: 0 });
    expect((await node.expunge(coupon)).evidence!.store).toEqual({
      versioned: true,
      versions_removed: 3,
      uploads_aborted: 1,
    });
  });

  test("is not given of objects that cannot be read", async () => {
    const { node, coupon } = await completed();
    const key = node.time.store.keys(`${databasePrefix(node.uuid)}seg/`)[0]!;
    node.time.store.spoil(key, (bytes) => {
      bytes[bytes.length - 20]! ^= 1;
      return bytes;
    });
    await expect(node.expunge(coupon)).rejects.toMatchObject({ code: "unavailable" });
  });
});

describe("a session's turns", () => {
  /** A fork that still has the transcript. */
  async function forked(): Promise<{ node: ErasingNode; coupon: Awaited<ReturnType<ErasingNode["erase"]>> }> {
    const node = new ErasingNode();
    for (let n = 0; n < 3; n++) {
      await node.time.of(
        node.node.client.write(
          node.node.at("main"),
          "turn.append",
          { sessionId: "s1", role: "user", content: JSON.stringify(`zyxwvutsecret ${n}`) },
          node.node.soon(),
        ),
      );
    }
    await node.node.branch({ act: "fork", name: "side" });
    await node.fill(1, "side");
    const coupon = await node.erase({ kind: "session", sessionId: "s1", turns: true });
    await node.fill(1);
    return { node, coupon };
  }

  test("block their erasure by the branch that still has them, though no memory says so", async () => {
    const { node, coupon } = await forked();
    expect(coupon.memoryIds).toEqual([]);
    expect(await node.expunge(coupon)).toMatchObject({
      blocked: { [coupon.id]: { checkpoints: [], branches: ["side"] } },
      clean: [],
    });
    const second = await node.erase({ kind: "session", sessionId: "s1", turns: true }, "side");
    expect((await node.complete(coupon, second)).clean).toEqual([coupon.id, second.id]);
    expect(await node.residue("zyxwvutsecret")).toEqual([]);
  });
});
