/** A database and its branches over one wire, as the tests of branches, checkpoints and rewinds drive them. */
import { ok } from "./service.ts";
import type { Reply, Wire } from "./wires.ts";

/** A database over one wire, at `main` or at a branch. */
export class BranchedDatabase {
  readonly #wire: Wire;
  readonly name: string;
  readonly #spec: string;

  constructor(wire: Wire, name: string, branch?: string) {
    this.#wire = wire;
    this.name = name;
    this.#spec = branch === undefined ? name : `${name}@${branch}`;
  }

  at(branch: string): BranchedDatabase {
    return new BranchedDatabase(this.#wire, this.name, branch);
  }

  call(method: string, request: object = {}, headers: Record<string, string> = {}): Promise<Reply> {
    return this.#wire.call(method, { db: this.#spec, ...request }, headers);
  }

  sql(...statements: readonly string[]): Promise<Reply> {
    return this.call("DataService.ExecuteSql", { stmts: statements.map((q) => ({ q })) });
  }

  /** Adds a row, and gives the transaction id of that. */
  async add(n: number): Promise<number> {
    return (await ok(this.sql("CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY)", `INSERT INTO t VALUES (${n})`)))
      .txid!;
  }

  async rows(): Promise<number[]> {
    return (await ok(this.sql("SELECT n FROM t ORDER BY n"))).body.results[0].rows.flat();
  }

  async integrity(): Promise<string> {
    return (await ok(this.sql("PRAGMA integrity_check"))).body.results[0].rows[0][0];
  }

  fork(name: string, request: object = {}): Promise<Reply> {
    return this.call("BranchService.CreateBranch", { name, ...request });
  }

  async branches(): Promise<any[]> {
    return (await ok(this.call("BranchService.ListBranches"))).body.branches;
  }

  checkpoint(name: string, branch = "main"): Promise<Reply> {
    return this.call("BranchService.CreateCheckpoint", { branch, name });
  }

  rewind(to: string, branch = "main"): Promise<Reply> {
    return this.call("BranchService.RewindBranch", { branch, to });
  }
}

/** A little of every data model, all told apart by `mark`. */
export async function fill(db: BranchedDatabase, mark: string): Promise<void> {
  await ok(db.sql("CREATE TABLE IF NOT EXISTS marks (mark TEXT PRIMARY KEY)", `INSERT INTO marks VALUES ('${mark}')`));
  await ok(db.call("DataService.PutValue", { ns: "n", key: mark, value: Buffer.from(mark) }));
  await ok(db.call("DataService.InsertDocs", { coll: "c", docs: [{ _id: mark }] }));
  await ok(db.call("DataService.UpsertVector", { coll: "v", id: mark, embedding: [1, mark.length] }));
  await ok(
    db.call("DataService.AppendTurn", { session: "s", role: "user", content: mark, embedding: [1, mark.length] }),
  );
}

/** The marks that each data model holds. */
export async function marks(db: BranchedDatabase): Promise<Record<string, readonly string[]>> {
  const vectors = (await ok(db.call("DataService.SearchVectors", { coll: "v", vector: [1, 1], k: 100 }))).body.hits;
  const turns = (await ok(db.call("DataService.SearchTurns", { session: "s", vector: [1, 1], k: 100 }))).body.turns;
  return {
    sql: (await ok(db.sql("SELECT mark FROM marks ORDER BY mark"))).body.results[0].rows.flat(),
    keys: (await ok(db.call("DataService.ListKeys", { ns: "n" }))).body.keys,
    docs: (await ok(db.call("DataService.FindDocs", { coll: "c", sort: { _id: 1 } }))).body.docs.map(
      ({ _id }: { _id: string }) => _id,
    ),
    vectors: vectors.map(({ id }: { id: string }) => id).sort(),
    turns: (await ok(db.call("DataService.ListTurns", { session: "s" }))).body.turns.map(
      ({ content }: { content: string }) => content,
    ),
    foundTurns: turns.map(({ content }: { content: string }) => content).sort(),
  };
}

/** What `marks` gives when every data model holds these. */
export function everywhere(...expected: readonly string[]): Record<string, readonly string[]> {
  return { sql: expected, keys: expected, docs: expected, vectors: expected, turns: expected, foundTurns: expected };
}
