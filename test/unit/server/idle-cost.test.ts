/**
 * What a node costs that does nothing: the requests of a day, counted on virtual time. They are money, and 1,000 nodes
 * make them.
 */
import { expect, test } from "vitest";
import { startFleetNode } from "../../support/fleet.ts";
import type { Requests } from "../../support/fleet-store.ts";

const dayMs = 24 * 3_600_000;

/**
 * What a node of a cluster asked in a day before jobs were divided by shards: each minute, each 30 s twice, each five
 * minutes, each hour; and each 3 s.
 */
const before = { list: 1_440 + 2 * 2_880 + 288 + 24, get: 28_800 };

async function idleDay(nodes: number): Promise<Requests> {
  const node = await startFleetNode({ nodes });
  await node.pass(dayMs);
  const requests = { ...node.requests };
  await node.close();
  return requests;
}

test.each([3, 1_000])(
  "an idle node of %d asks object storage at most a tenth of what it did, and etcd next to nothing",
  { timeout: 120_000 },
  async (nodes) => {
    // etcd is asked for its lease and whether the nodes have changed.
    const { list, get, put, delete: removed, etcd } = await idleDay(nodes);
    expect(list).toBeLessThanOrEqual(before.list / 10);
    expect(get).toBeLessThanOrEqual(before.get / 10);
    expect([put, removed]).toEqual([0, 0]);
    // A renewal each 2 s, a look each 10 s.
    expect(etcd).toBeLessThanOrEqual(43_200 + 8_640 + 10);
  },
);

test(
  "an idle node that is alone looks for what is due a few times an hour, and for little else",
  { timeout: 60_000 },
  async () => {
    const requests = await idleDay(1);
    expect(requests.list).toBeLessThanOrEqual(4 * 24 + 10);
    expect(requests).toMatchObject({ get: 0, put: 0, delete: 0, etcd: 0 });
  },
);
