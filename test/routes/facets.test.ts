/** What is in a database, by kind; the profiles of a namespace and what they take: over each wire. */
import { describe, expect, test } from "vitest";
import { ok, useService } from "../support/service.ts";
import { wireNames, type Reply } from "../support/wires.ts";

const service = useService();

interface Told {
  readonly name: string;
  readonly count?: number;
}

describe.each(wireNames)("over %s", (name) => {
  const call = (method: string, request: object): Promise<Reply> => service().wire(name).call(method, request);
  const must = (method: string, request: object): Promise<Reply> => ok(call(method, request));

  test("an overview has every kind that there is something of, and each kind its pages", async () => {
    const at = { ns: `facets-${name}`, profile: "ada" };
    const db = `${at.ns}--${at.profile}`;
    await must("MemoryService.Ingest", {
      ...at,
      memories: [
        {
          type: "fact",
          summary: "likes tea",
          content: 1,
          topic_key: "drink",
          source: "chat",
          metadata: { a: { b: 1 } },
        },
        {
          type: "fact",
          summary: "likes mate",
          content: 2,
          topic_key: "drink",
          metadata: { a: { b: "x" }, c: [{ d: null }] },
        },
        { type: "event", summary: "met Bo", content: 3, source: "mail", session_id: "s1" },
      ],
    });
    await must("DataService.AppendTurns", {
      db,
      session: "s1",
      turns: [
        { role: "user", content: "x", metadata: { tag: true } },
        { role: "user", content: "y" },
      ],
    });
    for (const ns of ["one", "two"])
      await must("DataService.PutValues", {
        db,
        ns,
        items: [
          { key: "a", text: "" },
          { key: "gone", text: "", ttl: 0 },
        ],
      });
    await must("DataService.InsertDocs", { db, coll: "people", docs: [{ n: 1 }, { n: 2 }] });
    await must("DataService.CreateDocIndex", { db, coll: "people", path: "n" });
    await must("DataService.UpsertVector", { db, coll: "faces", id: "a", embedding: [1, 2, 3], metric: "dot" });
    await must("DataService.UpsertVector", { db, coll: "old", id: "a", embedding: [1, 2] });
    for (const path of ["top.md", "notes/a.md", "notes/b/c.md", "work.md", "work/d.md"])
      await must("FileService.PutFile", { db, path, text: "x" });
    await must("DataService.ExecuteSql", {
      db,
      stmts: [{ q: 'CREATE TABLE "my ""own" (a)' }, { q: 'INSERT INTO "my ""own" VALUES (1), (2)' }],
    });

    const { groups } = (await must("DataService.ListFacets", { db })).body;
    const told = Object.fromEntries(
      groups.map(({ kind, facets }: { kind: string; facets: object[] }) => [
        kind,
        facets.map(({ approximate, ...facet }: any) => {
          expect(approximate).toBe(false);
          const full = Object.entries(facet).filter(([, value]) => !(Array.isArray(value) && value.length === 0));
          return Object.fromEntries(full);
        }),
      ]),
    );
    expect(told).toEqual({
      types: [
        { name: "event", count: 1 },
        { name: "fact", count: 1 },
      ],
      topics: [{ name: "drink", type: "fact", count: 2 }],
      sources: [{ name: "mail", count: 1 }],
      sessions: [{ name: "s1", count: 2 }],
      memory_metadata: [
        { name: "a", count: 1, types: ["object"] },
        { name: "a.b", count: 1, types: ["string"] },
        { name: "c", count: 1, types: ["array", "object"] },
        { name: "c.d", count: 1, types: ["null"] },
      ],
      turn_metadata: [{ name: "tag", count: 1, types: ["boolean"] }],
      keys: [
        { name: "one", count: 1 },
        { name: "two", count: 1 },
      ],
      documents: [{ name: "people", count: 2, indexes: ["n"] }],
      vectors: [
        { name: "faces", count: 1, dimension: 3, metric: "dot" },
        { name: "old", count: 1, dimension: 2 },
      ],
      files: [
        { name: "", count: 2 },
        { name: "notes/", count: 2 },
        { name: "work/", count: 1 },
      ],
      tables: [{ name: 'my "own', count: 2 }],
    });
    const names = async (kind: string): Promise<string[]> => {
      const found: Told[] = [];
      for (let cursor: string | null | undefined; cursor !== null;) {
        const [group] = (await must("DataService.ListFacets", { db, kind, limit: 1, ...(cursor && { cursor }) })).body
          .groups;
        found.push(...group.facets);
        cursor = group.next_cursor;
      }
      return found.map((facet) => facet.name);
    };
    for (const [kind, facets] of Object.entries(told))
      if (kind !== "files") expect(await names(kind), kind).toEqual((facets as Told[]).map((facet) => facet.name));
    expect((await names("files")).filter((folder) => folder !== "")).toEqual(["notes/", "work/"]);
    for (const [bad, words] of [
      [{ kind: "secrets" }, "kind must be types"],
      [{ cursor: "x" }, "cursor goes with kind"],
      [{ kind: "keys", cursor: "x" }, "cursor must be"],
      [{ kind: "keys", limit: 0 }, "limit must be"],
    ] as const)
      expect(await call("DataService.ListFacets", { db, ...bad })).toMatchObject({
        code: "invalid_request",
        message: expect.stringContaining(words) as unknown,
      });
  });

  test("an empty database has none, and what is much is counted up to a bound", async () => {
    const db = await service().database();
    expect((await must("DataService.ListFacets", { db })).body.groups).toEqual([]);
    await must("DataService.ExecuteSql", {
      db,
      stmts: [
        { q: "CREATE TABLE t (a)" },
        {
          q: `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10050)
              INSERT INTO t SELECT i FROM n`,
        },
      ],
    });
    const [group] = (await must("DataService.ListFacets", { db, kind: "tables" })).body.groups;
    expect(group.facets).toMatchObject([{ name: "t", count: 10_000, approximate: true }]);
  });

  test("profiles are listed by prefix, in both directions, with their activity; usage counts bytes", async () => {
    const ns = `many-${name}`;
    const before = Date.now();
    for (const profile of ["bo", "ada", "ada-2", "cy"])
      await must("MemoryService.Ingest", {
        ns,
        profile,
        memories: [{ type: "event", summary: `of ${profile}`, content: profile }],
      });
    await must("ControlService.DeleteDatabase", { db: `${ns}--cy` });
    await must("DataService.Sync", { db: `${ns}--ada` });
    const all = (await must("MemoryService.ListProfiles", { ns })).body.profiles.map((one: any) => one.profile);
    expect(all).toEqual(["ada", "ada-2", "bo"]);
    const profiles = async (request: object): Promise<any[]> => {
      const found: any[] = [];
      let cursor: string | undefined;
      do {
        const { body } = await must("MemoryService.ListProfiles", {
          ns,
          limit: 2,
          ...request,
          ...(cursor && { cursor }),
        });
        expect(body.profiles.length).toBeLessThanOrEqual(2);
        found.push(...body.profiles);
        cursor = body.next_cursor;
      } while (cursor !== undefined);
      return found;
    };
    const of = (found: any[]): string[] => found.map(({ profile }) => profile);
    expect(of(await profiles({}))).toEqual(["ada", "ada-2", "bo"]);
    expect(of(await profiles({ order: "desc" }))).toEqual(["bo", "ada-2", "ada"]);
    expect(of(await profiles({ prefix: "ada" }))).toEqual(["ada", "ada-2"]);
    expect(of((await must("MemoryService.ListProfiles", { ns, prefix: "b" })).body.profiles)).toEqual(["bo"]);
    const [ada] = await profiles({ include: "activity" });
    expect(ada).toMatchObject({ profile: "ada", bytes: expect.any(Number) });
    expect(ada.bytes).toBeGreaterThan(4_096);
    expect(ada.last_active_at).toBeGreaterThanOrEqual(before - 1);
    expect(ada.last_active_at).toBeLessThanOrEqual(Date.now() + 1);
    for (const bad of [{ order: "up" }, { include: "all" }, { prefix: "A" }, { cursor: "!" }, { limit: 0 }])
      expect((await call("MemoryService.ListProfiles", { ns, ...bad })).code, JSON.stringify(bad)).toBe(
        "invalid_request",
      );

    const usage = (await must("ControlService.GetNamespaceUsage", { ns })).body;
    expect(usage).toMatchObject({ namespace: ns, databases: 3, approximate: false, next_cursor: null });
    expect(of(usage.profiles)).toEqual(["ada", "ada-2", "bo"]);
    expect(usage.object_bytes).toBe(usage.profiles.reduce((sum: number, one: any) => sum + one.object_bytes, 0));
    expect(usage.profiles[0]).toMatchObject({ objects: expect.any(Number), last_active_at: ada.last_active_at });
    expect(usage.profiles[0].object_bytes).toBeGreaterThan(0);
    const first = (await must("ControlService.GetNamespaceUsage", { ns, limit: 2 })).body;
    const second = (await must("ControlService.GetNamespaceUsage", { ns, limit: 2, cursor: first.next_cursor })).body;
    expect([of(first.profiles), of(second.profiles), second.next_cursor]).toEqual([["ada", "ada-2"], ["bo"], null]);
    expect((await must("ControlService.GetNamespaceUsage", { ns: "nobody" })).body).toMatchObject({ databases: 0 });
  });
});
