/**
 * The S3 adapter on a real server behind a proxy that cuts, delays, repeats, truncates and delivers late: what clients
 * are told of each key can be explained by one order of all calls, whatever was in doubt settles, and nothing is half.
 *
 * `PALIMPSEST_SEED` chooses the order of clients and faults, as far as a real server has one; `PALIMPSEST_ROUNDS` how
 * many stories.
 */
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { StoreError } from "../../src/base/faults/errors.ts";
import type { ObjectStore } from "../../src/store/port/object-store.ts";
import { openStore } from "../../src/store/open-store.ts";
import { putUntilKnown } from "../../src/store/port/sure-put.ts";
import { hastyWorld } from "../support/hasty-world.ts";
import { HttpMangler } from "../support/http-mangler.ts";
import { seeded } from "../support/random.ts";
import { isLinearizable, type KeyCall } from "../support/register-history.ts";
import { hasS3Server, s3ServerNeed, startS3Server, type S3Server } from "../support/s3-server.ts";

const seed = Number(process.env["PALIMPSEST_SEED"] ?? 1);
const rounds = Number(process.env["PALIMPSEST_ROUNDS"] ?? 2);
const clients = 6;
const callsPerClient = 60;
const heads = ["head/a", "head/b", "head/c"];
const faultsMin = 100;

/** What came of an act; undefined when nothing is known of it. */
async function told<Value>(act: () => Promise<Value>): Promise<Value | undefined> {
  try {
    return await act();
  } catch (error) {
    if (error instanceof StoreError && (error.kind === "unavailable" || error.kind === "unknown_outcome"))
      return undefined;
    throw error;
  }
}

function parseName(body: string): string {
  return body.slice(0, body.indexOf(":"));
}

class Story {
  readonly #store: ObjectStore;
  readonly #random: () => number;
  readonly #calls = new Map<string, KeyCall[]>();
  /** Objects of the pool: written once by one client, and perhaps deleted by it; undefined when that is in doubt. */
  readonly #pool = new Map<string, { isThere: boolean | undefined; readonly body: string }>();
  readonly #bodies = new Set<string>();
  #values = 0;
  readonly counts: Record<string, number> = {};

  constructor(store: ObjectStore, random: () => number) {
    this.#store = store;
    this.#random = random;
  }

  async client(name: string): Promise<void> {
    for (let call = 0; call < callsPerClient; call++) {
      const draw = this.#random();
      const head = heads[Math.floor(this.#random() * heads.length)]!;
      if (draw < 0.35) await this.#replace(name, head);
      else if (draw < 0.6) await this.#get(name, head);
      else if (draw < 0.9) await this.#poolAct(name, `seg/${name}-${call}`);
      else await this.#list();
    }
  }

  /** Once nothing is under way any more: what was in doubt has an answer, and all answers together have one order. */
  async end(): Promise<void> {
    for (const head of heads) {
      await this.#get("last", head);
      expect(
        isLinearizable(this.#calls.get(head)!),
        `the calls of ${head}: ${JSON.stringify(this.#calls.get(head))}`,
      ).toBe(true);
    }
    const listed = new Set((await this.#store.list("seg/", { limit: 1_000 })).objects.map(({ key }) => key));
    for (const [key, { isThere, body }] of this.#pool) {
      const found = await this.#store.get(key);
      if (isThere !== undefined) expect(found !== undefined, `whether ${key} is there`).toBe(isThere);
      expect(listed.has(key), `whether ${key} is listed`).toBe(found !== undefined);
      if (found) expect(Buffer.from(found.bytes).toString()).toBe(body);
    }
  }

  async #replace(client: string, key: string): Promise<void> {
    const standing = await this.#get(client, key);
    if (!standing) return;
    const value = this.#newValue();
    const start = performance.now();
    const condition =
      standing.version === undefined
        ? ({ kind: "absent" } as const)
        : ({ kind: "version", version: standing.version } as const);
    const outcome = await told(() => putUntilKnown(this.#store, key, Buffer.from(value), condition));
    this.#count(`put ${outcome?.kind ?? "in doubt"}`);
    // One that is lost may have landed and been replaced before it was read back.
    const isLanded = outcome?.kind === "landed";
    const act = {
      kind: "put",
      value: parseName(value),
      over: standing.value,
      outcome: isLanded ? "stored" : "unknown",
    } as const;
    this.#note(key, { client, start, end: isLanded ? performance.now() : Infinity, act });
  }

  async #get(
    client: string,
    key: string,
  ): Promise<{ readonly value: string | undefined; readonly version: string | undefined } | undefined> {
    const start = performance.now();
    const found = await told(async () => ({ found: await this.#store.get(key) }));
    this.#count(found ? "get" : "get in doubt");
    if (!found) return undefined;
    const body = found.found && Buffer.from(found.found.bytes).toString();
    const value = body && parseName(body);
    if (body) expect(this.#bodies.has(body), `${key} holds ${body.length} characters that nobody put`).toBe(true);
    this.#note(key, { client, start, end: performance.now(), act: { kind: "get", found: value } });
    return { value, version: found.found?.version };
  }

  async #poolAct(client: string, key: string): Promise<void> {
    const entry = { isThere: undefined as boolean | undefined, body: this.#newValue() };
    this.#pool.set(key, entry);
    const outcome = await told(() => putUntilKnown(this.#store, key, Buffer.from(entry.body), { kind: "absent" }));
    if (outcome) expect(outcome.kind, `${client} is the only one that writes ${key}`).toBe("landed");
    entry.isThere = outcome ? true : undefined;
    this.#count(outcome ? "object put" : "object in doubt");
    if (!outcome || this.#random() < 0.5) return;
    entry.isThere = undefined;
    const deleted = await told(async () => {
      await this.#store.delete(key);
      return true;
    });
    this.#count(deleted ? "deleted" : "deleted in doubt");
    if (deleted) entry.isThere = false;
  }

  /** What was there before the listing began and is still there when it has ended is in it. */
  async #list(): Promise<void> {
    const before = [...this.#pool].filter(([, { isThere }]) => isThere === true).map(([key]) => key);
    const gone = [...this.#pool].filter(([, { isThere }]) => isThere === false).map(([key]) => key);
    const page = await told(() => this.#store.list("seg/", { limit: 1_000 }));
    this.#count(page ? "list" : "list in doubt");
    if (!page) return;
    const listed = new Set(page.objects.map(({ key }) => key));
    expect(before.filter((key) => this.#pool.get(key)!.isThere === true && !listed.has(key))).toEqual([]);
    expect(gone.filter((key) => listed.has(key))).toEqual([]);
  }

  #note(key: string, call: KeyCall): void {
    this.#calls.set(key, [...(this.#calls.get(key) ?? []), call]);
  }

  #newValue(): string {
    const body = `${++this.#values}:`.repeat(1 + Math.floor(this.#random() * 4_000));
    this.#bodies.add(body);
    return body;
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }
}

describe.skipIf(!hasS3Server)(
  `faults between the S3 adapter and a real server${s3ServerNeed}`,
  { timeout: 240_000 },
  () => {
    let server: S3Server;
    beforeAll(async () => {
      server = await startS3Server();
      for (const [name, value] of Object.entries(server.variables)) vi.stubEnv(name, value);
    });
    afterAll(async () => {
      vi.unstubAllEnvs();
      await server.end();
    });

    test.each(Array.from({ length: rounds }, (_, round) => seed + round))(
      "F29-F35: story %i: one winner of each put, no read of what was not put or is over, doubt settles",
      async (story) => {
        const random = seeded(story);
        const mangler = await HttpMangler.open(Number(new URL(server.endpoint).port), random);
        onTestFinished(() => mangler.close());
        // Bounds of many seconds pass soon, so that senders give up what then comes late.
        const store = await openStore(
          { ...server.buildLocation(`faults-${story}`), endpoint: `http://127.0.0.1:${mangler.port}` },
          hastyWorld(20),
        );
        const told = new Story(store, random);
        mangler.chance = 0.5;
        await Promise.all(Array.from({ length: clients }, (_, client) => told.client(`c${client}`)));
        mangler.chance = 0;
        await mangler.quiet();
        await told.end();
        const faults = Object.values(mangler.counts).reduce((sum, count) => sum + count, 0);
        expect(faults).toBeGreaterThan(faultsMin);
        expect(Object.keys(mangler.counts)).toHaveLength(8);
        // A story in which nothing was in doubt, or nothing came through, shows nothing.
        expect(Object.keys(told.counts)).toEqual(
          expect.arrayContaining(["put landed", "put lost", "object put", "deleted", "list", "get"]),
        );
      },
    );
  },
);
