/** What the stores of a profile hold, as its clients see it: for comparing states of one database. */
import { ok } from "./service.ts";
import type { Wire } from "./wires.ts";

/** By kind and name, as JSON. */
export type Stores = Readonly<Record<string, unknown>>;

interface Place {
  readonly wire: Wire;
  readonly ns: string;
  readonly profile: string;
  readonly db: string;
}

/** Everything that listings and searches tell, but for transaction ids and the versions of files. */
export async function describeStores({ wire, ns, profile, db }: Place): Promise<Stores> {
  const ask = async (method: string, request: object, withDb: object = { db }): Promise<any> =>
    (await ok(wire.call(method, { ...withDb, ...request }))).body;
  const at = { ns, profile };
  const stores: Record<string, unknown> = {};
  for (const status of ["active", "superseded", "completed", "proposed"]) {
    const { memories } = await ask("MemoryService.ListMemories", { status, limit: 100 }, at);
    for (const { id } of memories) stores[`memory ${id}`] = await memoryOf(ask, at, id);
  }
  for (const query of ["tea", "coffee", "Tokyo", "milk", "Bern", "kansai", "x"]) {
    const { memories } = await ask("MemoryService.Recall", { query, search_turns: true }, at);
    stores[`recall ${query}`] = memories.map(({ id }: { id: string }) => id).sort();
  }
  const { sessions } = await ask("MemoryService.ListSessions", { include_turns: true }, at);
  for (const { id, ...session } of sessions) {
    stores[`session ${id}`] = session;
    stores[`turns ${id}`] = (await ask("DataService.ListTurns", { session: id })).turns;
  }
  stores["keys"] = (await ask("DataService.ListKeys", { ns: "n", include: "values" })).entries;
  stores["docs"] = (await ask("DataService.FindDocs", { coll: "c", filter: {} })).docs;
  stores["docs by index"] = (await ask("DataService.FindDocs", { coll: "c", filter: { list: 9 } })).docs;
  stores["vectors"] = (await ask("DataService.ListVectors", { coll: "v", include_vectors: true })).vectors;
  stores["near"] = (await ask("DataService.SearchVectors", { coll: "v", vector: [7, 7], k: 9 })).hits;
  const { entries } = await ask("FileService.ListFiles", { recursive: true });
  for (const { path } of entries) stores[`file ${path}`] = (await ask("FileService.GetFile", { path })).text;
  for (const query of ["text", "other"]) {
    const found = await ask("FileService.SearchFiles", { query });
    stores[`files of ${query}`] = found.hits.map(({ path }: { path: string }) => path).sort();
  }
  return stores;
}

async function memoryOf(ask: (method: string, request: object, at: object) => Promise<any>, at: object, id: string) {
  const { txid: _, ...memory } = await ask("MemoryService.GetMemory", { id }, at);
  return memory;
}
