/**
 * Exports and imports in a cluster: any node gives the same export of a database and takes the same import into one,
 * also when the node that holds the database dies between the parts.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Cluster, type ClusterNode, clusterNeed, eventually, hasCluster } from "../support/cluster.ts";

const durable = { "service-durability": "durable" };
const lineBytes = 100_000;
const values = 45;

interface Exported {
  /** The lines without marks. */
  readonly lines: readonly string[];
  /** How many parts it took. */
  readonly parts: number;
}

/** Exports by the nodes in turn, with a look in between; a part that is not given is asked for again. */
async function exportBy(
  nodes: readonly ClusterNode[],
  db: string,
  between: (part: number) => Promise<void> = async () => {},
): Promise<Exported> {
  const lines: string[] = [];
  for (let part = 0, cursor = ""; ;) {
    const node = nodes[part % nodes.length]!;
    const { text } = await eventually(60_000, async () => {
      const answer = await node.call("GET", `/v1/db/${db}/export${cursor && `?cursor=${encodeURIComponent(cursor)}`}`);
      expect(answer.status, answer.text.slice(0, 300)).toBe(200);
      return answer;
    });
    const given = text.trimEnd().split("\n");
    const last = JSON.parse(given.at(-1)!) as { kind: string; cursor?: string };
    part++;
    if (last.kind === "trailer") return { lines: [...lines, ...given], parts: part };
    lines.push(...given.slice(0, -1));
    cursor = last.cursor!;
    await between(part);
  }
}

/** Imports by the nodes in turn, some lines at a time. */
async function importBy(
  nodes: readonly ClusterNode[],
  db: string,
  lines: readonly string[],
  between: (call: number) => Promise<void> = async () => {},
): Promise<void> {
  const atOnce = 12;
  let cursor = "";
  for (let call = 0, at = 0; ; call++) {
    const body = lines
      .slice(at, at + atOnce)
      .map((line) => `${line}\n`)
      .join("");
    const { json } = await eventually(60_000, async () => {
      const answer = await nodes[call % nodes.length]!.call(
        "POST",
        `/v1/db/${db}/import${cursor && `?cursor=${encodeURIComponent(cursor)}`}`,
        body,
        { "content-type": "application/x-ndjson", ...durable },
      );
      expect(answer.status, answer.text.slice(0, 300)).toBe(200);
      return answer;
    });
    if (json.complete === true) return;
    at = (json.next_line as number) - 1;
    cursor = json.cursor as string;
    await between(call);
  }
}

/** What is the same of two exports of the same records: all but the header, and what the trailer tells of it. */
const records = ({ lines }: Exported): readonly string[] => lines.slice(1, -1);

describe.skipIf(!hasCluster)(`exports and imports in a cluster${clusterNeed}`, { timeout: 300_000 }, () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await Cluster.start();
  }, 120_000);
  afterAll(() => cluster?.end());

  /** A database with more than one part has room for. */
  async function fill(name: string): Promise<string> {
    const [first] = cluster.nodes;
    const { json } = await first!.call("POST", "/v1/databases", { name });
    for (let at = 0; at < values; at++) {
      await eventually(20_000, async () => {
        const value = `${at} `.repeat(lineBytes / 3);
        const put = await first!.call("PUT", `/v1/db/${name}/kv/n/k${at}`, value, {
          "content-type": "text/plain",
          ...durable,
        });
        expect(put.status, put.text).toBe(200);
      });
    }
    const docs = Array.from({ length: 20 }, (_, at) => ({ _id: `d${at}`, at, text: "z".repeat(500) }));
    expect((await first!.call("POST", `/v1/db/${name}/docs/c/insert`, { docs }, durable)).status).toBe(200);
    const file = await first!.call("PUT", `/v1/db/${name}/files/notes%2Fa.md`, { text: "one" }, durable);
    expect(file.status, file.text).toBe(200);
    return json.uuid as string;
  }

  test("a node that does not hold the database gives and takes what its holder does", async () => {
    const uuid = await fill("even");
    const owner = await cluster.findOwner(uuid);
    const others = await cluster.findOthers(uuid);
    const own = await exportBy([owner], "even");
    expect(own.parts).toBeGreaterThan(1);
    for (const given of [await exportBy(others, "even"), await exportBy(cluster.nodes, "even")])
      expect(records(given)).toEqual(records(own));

    const created = await owner.call("POST", "/v1/databases", { name: "even-copy" });
    await eventually(20_000, async () => {
      const put = await owner.call("PUT", "/v1/db/even-copy/kv/n/k0", "other", { "content-type": "text/plain" });
      expect(put.status).toBe(200);
    });
    await importBy(await cluster.findOthers(created.json.uuid as string), "even-copy", own.lines);
    const copy = await exportBy([owner], "even-copy");
    // What was there stays, and is told.
    const differing = records(copy).filter((line, at) => line !== records(own)[at]);
    expect(differing.map((line) => (JSON.parse(line) as { key?: string }).key)).toEqual(["k0"]);
  });

  test("an export whose holder is killed between its parts is the same", async () => {
    const uuid = await fill("cut");
    const owner = await cluster.findOwner(uuid);
    const own = await exportBy([owner], "cut");
    const others = await cluster.findOthers(uuid);
    const given = await exportBy(others, "cut", async (part) => {
      if (part !== 1) return;
      await owner.kill();
      // What is written meanwhile is none of it.
      await eventually(60_000, async () => {
        const put = await others[0]!.call("PUT", "/v1/db/cut/kv/n/later", "x", { "content-type": "text/plain" });
        expect(put.status, put.text).toBe(200);
      });
    });
    expect(records(given)).toEqual(records(own));
    await cluster.heal();
    expect(records(await exportBy([owner], "cut"))).toHaveLength(records(own).length + 1);
  });

  test("an import whose holder is killed between its calls comes to the same", async () => {
    const uuid = await fill("whole");
    const owner = await cluster.findOwner(uuid);
    const own = await exportBy([owner], "whole");
    const { json } = await owner.call("POST", "/v1/databases", { name: "resumed" });
    await eventually(20_000, async () => {
      const put = await owner.call("PUT", "/v1/db/resumed/kv/n/k3", "3 ".repeat(lineBytes / 3), {
        "content-type": "text/plain",
        ...durable,
      });
      expect(put.status, put.text).toBe(200);
    });
    const holder = await cluster.findOwner(json.uuid as string);
    const others = cluster.nodes.filter((node) => node !== holder);
    await importBy(others, "resumed", own.lines, async (call) => {
      if (call === 1) await holder.kill();
    });
    expect(records(await exportBy(others, "resumed")).toSorted()).toEqual(records(own).toSorted());
    // Given again from its beginning it changes nothing.
    const before = await exportBy(others, "resumed");
    await importBy(others, "resumed", own.lines);
    expect(records(await exportBy(others, "resumed"))).toEqual(records(before));
    await cluster.heal();
  });
});
