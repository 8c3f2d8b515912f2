/** What is known beside a memory, changed over both wires: the same memory, found by what it is given. */
import { expect, test } from "vitest";
import { useService, ok } from "../support/service.ts";
import { type Reply, wireNames } from "../support/wires.ts";

const service = useService();

test.each(wireNames)(
  "over %s: metadata, keywords and lifetime are changed alone or together, and capped by policy",
  async (name) => {
    const wire = service().wire(name);
    const at = service().profile();
    await ok(
      wire.call("ControlService.PutNamespacePolicy", { ns: at.ns, policy: { memory: { task_ttl_max_secs: 100 } } }),
    );
    const { body } = await ok(
      wire.call("MemoryService.Ingest", {
        ...at,
        memories: [
          {
            type: "fact",
            topic_key: "bird",
            summary: "a heron",
            content: { n: 1 },
            keywords: "grey",
            metadata: { seen: 1 },
          },
          { type: "task", summary: "count the herons", content: null, ttl: 10 },
        ],
      }),
    );
    const [fact, task]: string[] = body.results.map(({ id }: { id: string }) => id);
    const update = (id: string, change: object): Promise<Reply> =>
      wire.call("MemoryService.UpdateMemory", { ...at, id, ...change });
    const get = async (id: string): Promise<any> =>
      (await ok(wire.call("MemoryService.GetMemory", { ...at, id }))).body;
    const found = async (request: object): Promise<string[]> =>
      (await ok(wire.call("MemoryService.Recall", { ...at, ...request }))).body.memories.map(
        ({ id }: { id: string }) => id,
      );

    const before = await get(fact!);
    const answer = await ok(update(fact!, { metadata: { seen: 2, by: { whom: "ada" } }, keywords: "zugunruhe" }));
    expect(answer.body).toEqual({ ...before, metadata: { seen: 2, by: { whom: "ada" } }, keywords: "zugunruhe" });
    expect(await get(fact!)).toEqual(answer.body);
    expect(await found({ query: "zugunruhe" })).toEqual([fact]);
    expect(await found({ query: "heron", filter: { "by.whom": "ada" } })).toEqual([fact]);
    expect((await ok(update(fact!, { metadata: { seen: 2, by: { whom: "ada" } } }))).txid, "the same again").toBe(
      answer.txid,
    );
    const cleared = (await ok(update(fact!, { metadata: {}, keywords: "" }))).body;
    expect(cleared).not.toHaveProperty("metadata");
    expect(cleared.keywords).toBeNull();

    const nowMs = Date.now();
    const renewed = (await ok(update(task!, { ttl: 1_000 }))).body;
    expect(renewed.expires_at, "as long as the policy allows").toBeLessThanOrEqual(Date.now() + 100_000);
    expect(renewed.expires_at).toBeGreaterThanOrEqual(nowMs + 100_000);
    await ok(update(task!, { ttl: 0 }));
    expect((await wire.call("MemoryService.GetMemory", { ...at, id: task })).code).toBe("not_found");
    expect((await update(task!, { ttl: 10 })).code).toBe("not_found");

    for (const [change, words] of [
      [{}, "at least one field"],
      [{ ttl: 10 }, "on a task only"],
      [{ metadata: { $set: 1 } }, "starts with $"],
      [{ metadata: { text: "x".repeat(17_000) } }, "16384 bytes"],
      [{ keywords: "x".repeat(9_000) }, "8192"],
    ] as const) {
      const { code, message } = await update(fact!, change);
      expect({ code, message }).toMatchObject({ code: "invalid_request", message: expect.stringContaining(words) });
    }
    expect(await get(fact!)).toEqual(cleared);
  },
);
