/**
 * What remains of erased memories after a life of random writes on several branches, with packs, new base images and
 * collections going on: nothing, wherever one looks. `PALIMPSEST_RESIDUE_OPS` sets how long a life.
 *
 * Every memory carries a word that stands nowhere else, and a vector of its own; so do the other records, turns, files,
 * keys, documents and vectors, which are erased by their names. Some of either kind are about a subject, whose name is
 * such a word too, and all of one are erased by it.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { silentLog } from "../../src/base/log.ts";
import { realWorld } from "../../src/base/world.ts";
import { ErasureCoupons } from "../../src/control/databases/erasure-coupons.ts";
import { decodeManifest } from "../../src/format/history/manifest.ts";
import { inlinePress } from "../../src/format/core/compression.ts";
import { decodeSegments } from "../../src/format/history/segment.ts";
import { FileStore } from "../../src/store/file/file-store.ts";
import type { BranchedDatabase } from "../support/branched-database.ts";
import { ErasingProfile } from "../support/erasing-profile.ts";
import { Receiver } from "../support/receiver.ts";
import { seeded } from "../support/random.ts";
import { ok, startService } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const operations = Number(process.env["PALIMPSEST_RESIDUE_OPS"] ?? 1_500);
const dimension = 24;
const clients = 16;
const branchNames = ["main", "one", "two", "three"];
/** Vectors that are looked for byte by byte. */
const vectorsMax = 300;
const wordPattern = /zq[0-9a-f]{16}x/g;

/** A memory on its way through its life. */
interface Canary {
  readonly id: string;
  readonly word: string;
  readonly vector: Uint8Array;
  readonly topic: string | undefined;
  readonly said: string;
}

/** A record of another kind, by the names that erase it. */
interface NamedCanary {
  readonly id: string;
  readonly word: string;
  readonly target: object;
}

/** Whom records are about, and those that are, on whichever branch. */
interface SubjectCanary extends NamedCanary {
  readonly memories: Set<string>;
  readonly records: Set<NamedCanary>;
}

/** What a record has beside its name and its words. */
interface Given {
  readonly embedding: readonly number[];
  readonly subject: string | undefined;
}

/** Writes a record of a kind under a name that no other has, and gives the names that erase it. */
type WriteRecord = (db: BranchedDatabase, name: string, said: string, given: Given) => Promise<object>;

const recordKinds: readonly WriteRecord[] = [
  async (db, name, said, given) => {
    await ok(db.call("DataService.AppendTurn", { session: name, role: "user", content: said, ...given }));
    return { session_id: name, seq: 1 };
  },
  async (db, name, said, { subject }) => {
    const path = `folder/${name}.md`;
    for (const text of [said, `${said} again`]) await ok(db.call("FileService.PutFile", { path, text, subject }));
    return { path };
  },
  async (db, name, said, { subject }) => {
    await ok(db.call("DataService.PutValue", { ns: "n", key: name, value: Buffer.from(said), subject }));
    return { kv_ns: "n", key: name };
  },
  async (db, name, said, { subject }) => {
    await ok(db.call("DataService.InsertDocs", { coll: "c", docs: [{ _id: name, said }], subject }));
    return { collection: "c", doc_id: name };
  },
  async (db, name, said, given) => {
    await ok(db.call("DataService.UpsertVector", { coll: "v", id: name, metadata: { said }, ...given }));
    return { vector_collection: "v", vector_id: name };
  },
];

/** The bytes that a vector has at rest. */
function encodeVector(values: readonly number[]): Uint8Array {
  const length = Math.hypot(...values.map(Math.fround));
  return new Uint8Array(Float32Array.from(values.map((value) => Math.fround(value) / length)).buffer);
}

class Life {
  readonly #random: () => number;
  readonly #profile: ErasingProfile;
  readonly canaries = new Map<string, Canary>();
  readonly erased = new Set<Canary>();
  readonly #records: NamedCanary[] = [];
  readonly erasedRecords = new Set<NamedCanary>();
  readonly #subjects: SubjectCanary[] = [];
  readonly erasedSubjects = new Set<SubjectCanary>();
  readonly #branches = ["main"];
  #words = 0;

  constructor(profile: ErasingProfile, seed: number) {
    this.#profile = profile;
    this.#random = seeded(seed);
  }

  /** Runs the operations, several at a time, and forks now and then. */
  async run(count: number): Promise<void> {
    await this.#ingest("main");
    for (const [index, name] of branchNames.entries()) {
      if (index > 0) {
        await ok(this.#profile.database.fork(name));
        this.#branches.push(name);
      }
      let left = Math.ceil(count / branchNames.length);
      await Promise.all(
        Array.from({ length: clients }, async () => {
          while (left-- > 0) await this.#act();
        }),
      );
    }
  }

  /** Erases on every branch what was erased on one. */
  async eraseEverywhere(): Promise<void> {
    for (const subject of this.erasedSubjects) {
      for (const branch of this.#branches) await this.#profile.at(branch).surelyErase(subject.target);
      for (const id of subject.memories) this.#note(id);
      for (const record of subject.records) this.erasedRecords.add(record);
    }
    for (const { id } of this.erased) {
      for (const branch of this.#branches) await this.#profile.at(branch).surelyErase({ memory_id: id });
    }
    for (const { target } of this.erasedRecords)
      for (const branch of this.#branches) await this.#profile.at(branch).surelyErase(target);
  }

  /** Whatever was not erased, and not forgotten, is what it was, on every branch that has it. */
  async expectRest(): Promise<void> {
    let found = 0;
    for (const canary of this.canaries.values()) {
      if (this.erased.has(canary)) continue;
      for (const branch of this.#branches) {
        const reply = await this.#profile.at(branch).call("MemoryService.GetMemory", { id: canary.id });
        if (reply.code === "not_found") continue;
        found++;
        expect(reply.body).toMatchObject({
          summary: `somebody said ${canary.word} once`,
          keywords: `said ${canary.word}`,
          content: { said: canary.said },
        });
      }
    }
    expect(found).toBeGreaterThan(this.canaries.size / 4);
    for (const branch of this.#branches) expect(await this.#profile.database.at(branch).integrity()).toBe("ok");
  }

  #pick<Value>(values: readonly Value[]): Value {
    return values[Math.floor(this.#random() * values.length)]!;
  }

  async #act(): Promise<void> {
    const branch = this.#pick(this.#branches);
    const draw = this.#random();
    const database = this.#profile.database.at(branch);
    const n = Math.floor(this.#random() * 500);
    if (draw < 0.4) return this.#ingest(branch);
    if (draw < 0.5) return this.#write(database);
    if (draw < 0.6)
      return void (await ok(
        database.call("DataService.PutValue", { ns: "n", key: `k${n}`, value: Buffer.alloc(n * 4, n) }),
      ));
    if (draw < 0.7)
      return void (await ok(
        database.call("DataService.InsertDocs", { coll: "c", docs: [{ n, text: "filler ".repeat(n) }] }),
      ));
    if (draw < 0.75)
      return void (await ok(
        database.sql(
          "CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, x TEXT)",
          `INSERT INTO t (x) VALUES ('${"row ".repeat(n)}')`,
          `DELETE FROM t WHERE n % 3 = ${n % 3}`,
        ),
      ));
    if (draw < 0.78 && this.#records.length > 0) return this.#eraseRecord(branch, this.#pick(this.#records));
    if (draw < 0.79 && this.#subjects.length > 0) return this.#eraseSubject(branch, this.#pick(this.#subjects));
    const canary = this.#pick([...this.canaries.values()]);
    if (draw < 0.84) return void (await this.#profile.at(branch).call("MemoryService.ForgetMemory", { id: canary.id }));
    if (draw < 0.98 || canary.topic === undefined) return this.#erase(branch, { memory_id: canary.id });
    return this.#erase(branch, { topic_key: canary.topic, type: "fact" });
  }

  #word(): string {
    const chance = Math.floor(this.#random() * 2 ** 32);
    return `zq${[++this.#words, chance].map((part) => part.toString(16).padStart(8, "0")).join("")}x`;
  }

  #vector(): number[] {
    return Array.from({ length: dimension }, () => this.#random() - 0.5);
  }

  async #write(database: BranchedDatabase): Promise<void> {
    const word = this.#word();
    const id = `r${this.#words}`;
    const said = `${word} and so on `.repeat(1 + Math.floor(this.#random() ** 4 * 300));
    const about = this.#about();
    const given = { embedding: this.#vector(), subject: about?.word };
    const target = await this.#pick(recordKinds)(database, id, said, given);
    const record = { id, word, target };
    this.#records.push(record);
    about?.records.add(record);
  }

  /** Whom the next record is about, one of a few at a time; most are about nobody. */
  #about(): SubjectCanary | undefined {
    if (this.#random() > 0.4) return undefined;
    if (this.#subjects.length === 0 || this.#random() < 0.2) {
      const word = this.#word();
      const id = `s${this.#words}`;
      this.#subjects.push({ id, word, target: { subject: word }, memories: new Set(), records: new Set() });
    }
    return this.#pick(this.#subjects.slice(-6));
  }

  async #eraseSubject(branch: string, subject: SubjectCanary): Promise<void> {
    const { code, message } = await this.#profile.at(branch).erase(subject.target);
    if (code === "not_found") return;
    expect(code, message).toBe("ok");
    this.erasedSubjects.add(subject);
  }

  async #eraseRecord(branch: string, record: NamedCanary): Promise<void> {
    const { code, message } = await this.#profile.at(branch).erase(record.target);
    if (code === "not_found") return;
    expect(code, message).toBe("ok");
    this.erasedRecords.add(record);
  }

  async #ingest(branch: string): Promise<void> {
    const word = this.#word();
    const embedding = this.#vector();
    const topic = this.#random() < 0.6 ? `topic ${Math.floor(this.#random() * 60)}` : undefined;
    const said = `${word} and much besides `.repeat(1 + Math.floor(this.#random() ** 4 * 300));
    const about = this.#about();
    const memory = {
      type: "fact",
      summary: `somebody said ${word} once`,
      keywords: `said ${word}`,
      source: word,
      embedding,
      ...(topic === undefined ? {} : { topic_key: topic }),
      ...(about ? { subject: about.word } : {}),
      content: { said },
      ...(this.#random() < 0.3 ? { session_id: `session ${Math.floor(this.#random() * 20)}` } : {}),
    };
    const { body } = await ok(this.#profile.at(branch).call("MemoryService.Ingest", { memories: [memory] }));
    const id: string = body.results[0].id;
    this.canaries.set(id, { id, word, vector: encodeVector(embedding), topic, said });
    about?.memories.add(id);
  }

  async #erase(branch: string, target: object): Promise<void> {
    const reply = await this.#profile.at(branch).erase(target);
    if (reply.code === "not_found") return;
    expect(reply.code, reply.message).toBe("ok");
    for (const id of reply.body.memory_ids) this.#note(id);
  }

  #note(id: string): void {
    const canary = this.canaries.get(id);
    if (canary) this.erased.add(canary);
  }
}

/** Everything that is stored below a directory, decompressed: each piece with its name. */
async function* pieces(directory: string): AsyncGenerator<{ readonly name: string; readonly bytes: Buffer }> {
  for (const name of readdirSync(directory, { recursive: true, encoding: "utf8" })) {
    const path = join(directory, name);
    if (!statSync(path, { throwIfNoEntry: false })?.isFile()) continue;
    const bytes = readFileSync(path);
    yield { name, bytes };
    // The file store begins an object with the byte 1, and keeps the names of versions that were replaced.
    if (bytes[0] !== 1) continue;
    const object = bytes.subarray(1);
    const segments = name.includes("/seg/")
      ? [object]
      : name.includes("/head/")
        ? decodeManifest(object).tail.map((entry) => entry.bytes)
        : [];
    for (const segment of segments) {
      for (const { groups } of await decodeSegments(segment, inlinePress)) {
        for (const { txid, images } of groups)
          for (const { page, bytes: image } of images)
            yield { name: `${name} txid ${txid} page ${page}`, bytes: Buffer.from(image) };
      }
    }
  }
}

/** What is found of the canaries, by where; and how many other words, which shows that it looks. */
async function search(
  directory: string,
  { erased, erasedRecords, erasedSubjects }: Life,
): Promise<{ readonly hits: readonly string[]; readonly others: number }> {
  const wanted = [...erased];
  const words = new Map([...wanted, ...erasedRecords].map(({ word, id }) => [word, id]));
  const subjects = new Map([...erasedSubjects].map(({ word, id }) => [word, id]));
  const wide = wanted.slice(-100).map(({ word }) => Buffer.from(word, "utf16le"));
  const vectors = wanted.slice(-vectorsMax).map(({ vector }) => Buffer.from(vector.subarray(0, 32)));
  const hits: string[] = [];
  let others = 0;
  for await (const { name, bytes } of pieces(directory)) {
    for (const [word] of bytes.toString("latin1").matchAll(wordPattern)) {
      // Coupons and receipts name their target.
      const id = words.get(word) ?? (name.includes("objects/erasures/") ? undefined : subjects.get(word));
      if (id === undefined) others++;
      else hits.push(`word of ${id} in ${name}`);
    }
    for (const needle of [...wide, ...vectors]) if (bytes.includes(needle)) hits.push(`bytes in ${name}`);
  }
  return { hits, others };
}

/** Waits until no coupon of the store is unfinished. */
async function expectFinished(directory: string, waitMs: number): Promise<void> {
  const world = realWorld();
  const coupons = new ErasureCoupons({
    store: await FileStore.open(join(directory, "objects"), world),
    world,
    log: silentLog,
  });
  const lastMs = performance.now() + waitMs;
  for (;;) {
    const unfinished: string[] = [];
    for await (const { id, status, blockedBy, waitingFor } of coupons.unfinished())
      unfinished.push(JSON.stringify({ id, status, blockedBy, waitingFor }));
    if (unfinished.length === 0) return;
    if (performance.now() > lastMs) expect(unfinished).toEqual([]);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

test(
  `F95: after ${operations} random operations nothing of what was erased is left; the rest is whole`,
  { timeout: 1_800_000 },
  async () => {
    const directory = temporaryDirectory();
    const webhooks = { SERVICE_WEBHOOK_HOSTS: "127.0.0.1", SERVICE_WEBHOOK_RETRY_SECS: "1" };
    const service = await startService({ SERVICE_GC_GRACE_SECS: "1", ...webhooks }, directory);
    const profile = new ErasingProfile(service.wire("grpc"), "acme");
    const life = new Life(profile, 7);
    try {
      // History is cut and collected all the while.
      await profile.policy({ erasure: { grace_secs: 0 }, audit: { enabled: true } });
      // A webhook gives up what it is told, one transaction after the other, and keeps a list of it.
      await profile.add({ summary: "the first one" });
      const receiver = await Receiver.start(() => 500);
      const { id: webhook } = (await ok(profile.database.call("WebhookService.CreateWebhook", { url: receiver.url })))
        .body;
      await life.run(operations);
      await life.eraseEverywhere();
      expect(life.erased.size).toBeGreaterThan(operations / 40);
      expect(life.erasedRecords.size).toBeGreaterThan(operations / 100);
      expect(life.erasedSubjects.size).toBeGreaterThan(operations / 500);
      for (const { id } of await profile.coupons()) {
        const { receipt } = await profile.until(id, "completed", 60_000 + 60 * operations);
        expect(receipt.payload.evidence.traces.hits).toBe(0);
      }
      expect(receiver.posts.length).toBeGreaterThan(10);
      const failures = await ok(profile.database.call("WebhookService.ListWebhookFailures", { id: webhook }));
      expect(failures.body.failures.length).toBeGreaterThan(5);
      // A list gives the newest ones only: of the others, none may be left unfinished either.
      await expectFinished(directory, 60_000 + 60 * operations);
      const { hits, others } = await search(directory, life);
      expect(hits.slice(0, 10)).toEqual([]);
      // It does find what is there to be found.
      expect(others).toBeGreaterThan(operations / 10);
      await life.expectRest();
    } finally {
      await service.close();
    }
    // Nor after an orderly stop, which closes every file.
    expect((await search(directory, life)).hits.slice(0, 10)).toEqual([]);
  },
);
