/**
 * Clients that count: each writes the steps 1, 2, 3, … to a few keys in turn, so that what a database holds says
 * exactly which of a client's writes are there, and whether they are the first so many of them without a gap.
 *
 * A client waits for each answer before it sends the next step, and sends a step again until it is acknowledged; a
 * repeat writes what the first try would have written, so it does no harm when that came through after all. Works with
 * and without a test runner around it.
 */
import assert from "node:assert/strict";

type Call = (
  method: string,
  path: string,
  body?: unknown,
  headers?: Record<string, string>,
) => Promise<{ status: number; headers: Headers; text: string; json: any }>;
type Answer = Awaited<ReturnType<Call>>;

const countingDatabase = "count";
const profile = { ns: "count", name: "ing" };
const keysOfClient = 4;

/** One way to write a step and to read what is there, for one kind of data. */
interface Medium {
  readonly database: "plain" | "profile";
  write(call: Call, key: string, step: number, headers: Record<string, string>): Promise<Answer>;
  read(call: Call, key: string): Promise<{ readonly answer: Answer; readonly step: number }>;
}

const sqlPath = `/v1/db/${countingDatabase}/sql`;
const docsPath = `/v1/db/${countingDatabase}/docs/steps`;
const memoryPath = `/v1/memory/${profile.ns}/${profile.name}`;

const media: Readonly<Record<string, Medium>> = {
  kv: {
    database: "plain",
    write: (call, key, step, headers) =>
      call("PUT", `/v1/db/${countingDatabase}/kv/steps/${key}`, String(step), {
        "content-type": "text/plain",
        ...headers,
      }),
    async read(call, key) {
      const answer = await call("GET", `/v1/db/${countingDatabase}/kv/steps/${key}`);
      return { answer, step: answer.status === 404 ? 0 : Number(answer.text) };
    },
  },
  docs: {
    database: "plain",
    write: (call, key, step, headers) =>
      call("POST", `${docsPath}/update`, { filter: { _id: key }, update: { $set: { step } } }, headers),
    async read(call, key) {
      const answer = await call("POST", `${docsPath}/find`, { filter: { _id: key } });
      return { answer, step: answer.json?.docs[0]?.step };
    },
  },
  sql: {
    database: "plain",
    write: (call, key, step, headers) =>
      call(
        "POST",
        sqlPath,
        {
          stmts: [
            { q: "INSERT OR REPLACE INTO steps VALUES (?, ?)", params: [key, step] },
            { q: "INSERT OR REPLACE INTO mirrored VALUES (?, ?)", params: [key, step] },
          ],
        },
        headers,
      ),
    async read(call, key) {
      const answer = await call("POST", sqlPath, {
        stmts: [
          { q: "SELECT step, (SELECT step FROM mirrored WHERE key = ?1) FROM steps WHERE key = ?1", params: [key] },
        ],
      });
      const [step, mirrored] = answer.json?.results[0].rows[0] ?? [0, 0];
      assert.equal(mirrored, step, `both rows of one transaction, ${key}`);
      return { answer, step };
    },
  },
  memory: {
    database: "profile",
    write: (call, key, step, headers) =>
      call(
        "POST",
        `${memoryPath}/memories`,
        { memories: [{ type: "fact", topic_key: key, summary: `${key} stands at ${step}`, content: { step } }] },
        headers,
      ),
    async read(call, key) {
      const answer = await call("POST", `${memoryPath}/recall`, { topic_key: key, k: 1 });
      return { answer, step: answer.json?.memories[0]?.content.step ?? 0 };
    },
  },
};

export type MediumName = keyof typeof media;
const mediumNames: readonly MediumName[] = Object.keys(media);

/** Makes the databases, the tables and the documents, durably. */
export async function prepareCounting(call: Call, clients: readonly CountingClient[]): Promise<void> {
  const must = async (...request: Parameters<Call>): Promise<void> => {
    for (;;) {
      const { status, text } = await call(...request);
      // The first calls load what a node needs for them: on a busy machine that may take longer than their time.
      if (status === 408) continue;
      // What a repeat of them finds done.
      assert(status < 300 || status === 409, text);
      return;
    }
  };
  await must("POST", "/v1/databases", { name: countingDatabase });
  await must("POST", sqlPath, {
    stmts: ["steps", "mirrored"].map((name) => ({
      q: `CREATE TABLE IF NOT EXISTS ${name} (key TEXT PRIMARY KEY, step INTEGER)`,
    })),
  });
  const docs = clients
    .filter(({ medium }) => medium === "docs")
    .flatMap(({ keys }) => keys.map((key) => ({ _id: key, step: 0 })));
  await must("POST", `${docsPath}/insert`, { docs });
  await must("POST", `${memoryPath}/memories`, {
    memories: [{ type: "event", summary: "counting begins", content: null }],
  });
  await syncCounting(call);
}

/** Waits until object storage covers both databases, for at most so long. */
export async function syncCounting(call: Call, withinMs = 30_000): Promise<void> {
  const endMs = performance.now() + withinMs;
  for (const name of [countingDatabase, `${profile.ns}--${profile.name}`]) {
    for (;;) {
      const { status, text } = await call("POST", `/v1/db/${name}/sync`, {});
      if (status === 200) break;
      if (performance.now() > endMs) throw new Error(`${name} is not synced after ${withinMs} ms: ${status} ${text}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

/** SQLite's own look at both databases. */
export async function expectSound(call: Call): Promise<void> {
  for (const name of [countingDatabase, `${profile.ns}--${profile.name}`]) {
    const { json, text } = await call("POST", `/v1/db/${name}/sql`, { stmts: [{ q: "PRAGMA integrity_check" }] });
    assert.deepEqual(json?.results?.[0].rows, [["ok"]], `${name}: ${text}`);
  }
}

/** What came of one try. */
export type Outcome =
  | { readonly kind: "acknowledged"; readonly txid: number }
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly retryAfter: string | null;
      readonly tookMs: number;
      readonly text: string;
    }
  | { readonly kind: "no answer" };

export class CountingClient {
  readonly name: string;
  readonly medium: MediumName;
  readonly durable: boolean;
  readonly keys: readonly string[];
  /** The last step that was sent, and the last that was acknowledged, or was seen after a restart. */
  sent = 0;
  acknowledged = 0;
  /** The last that was acknowledged as durable: what was only seen may be lost with the disk. */
  #covered = 0;
  /** Transaction ids of the acknowledged steps that were not seen to be covered yet. */
  #txids = new Map<number, number>();

  constructor(name: string, medium: MediumName, durable: boolean) {
    this.name = name;
    this.medium = medium;
    this.durable = durable;
    this.keys = Array.from({ length: keysOfClient }, (_, index) => `${name}-${index}`);
  }

  get database(): Medium["database"] {
    return media[this.medium]!.database;
  }

  /** The name under which its database is reached by SQL. */
  get databaseName(): string {
    return this.database === "plain" ? countingDatabase : `${profile.ns}--${profile.name}`;
  }

  /** Sends the step after the last acknowledged one. */
  async advance(call: Call): Promise<Outcome> {
    const step = this.acknowledged + 1;
    const isRepeat = step <= this.sent;
    this.sent = Math.max(this.sent, step);
    const startedMs = performance.now();
    let answer: Answer;
    try {
      answer = await media[this.medium]!.write(
        call,
        this.keys[step % keysOfClient]!,
        step,
        this.durable ? { "service-durability": "durable" } : {},
      );
    } catch {
      // The node died under it, or closed the connection.
      return { kind: "no answer" };
    }
    if (answer.status >= 300) {
      return {
        kind: "refused",
        status: answer.status,
        retryAfter: answer.headers.get("retry-after"),
        tookMs: performance.now() - startedMs,
        text: answer.text,
      };
    }
    const txid = Number(answer.headers.get("service-txid"));
    assert(txid > 0, `${this.name}: an acknowledged write has a transaction id`);
    if (this.durable)
      assert(
        Number(answer.headers.get("service-durable-txid")) >= txid,
        `${this.name}: ${txid} was acknowledged before it was covered`,
      );
    this.acknowledged = step;
    if (this.durable) this.#covered = step;
    // A repeat of what came through is answered from a later state than the one that it made.
    if (!isRepeat) this.#txids.set(step, txid);
    return { kind: "acknowledged", txid };
  }

  /**
   * What is there, which must be the first so many steps and nothing else. Gives their number and the state's
   * transaction id.
   */
  async inspect(call: Call): Promise<{ readonly steps: number; readonly txid: number }> {
    const reads = await Promise.all(this.keys.map((key) => media[this.medium]!.read(call, key)));
    for (const { answer } of reads)
      assert(answer.status === 200 || answer.status === 404, `${this.name}: ${answer.text}`);
    const found = reads.map(({ step }) => step);
    const steps = Math.max(...found);
    const expected = this.keys.map((_, index) => Math.max(0, steps - ((steps - index + keysOfClient) % keysOfClient)));
    assert.deepEqual(
      found,
      expected,
      `${this.name}: the first ${steps} steps would be ${expected.join()}, but there is ${found.join()}`,
    );
    assert(steps <= this.sent, `${this.name}: ${steps} steps, but only ${this.sent} were sent`);
    return { steps, txid: Number(reads[0]!.answer.headers.get("service-txid")) };
  }

  /** After a restart that kept the files: everything acknowledged is there. */
  async expectAll(call: Call): Promise<void> {
    const { steps } = await this.inspect(call);
    assert(
      steps >= this.acknowledged,
      `${this.name}: ${this.acknowledged} steps were acknowledged, ${steps} are there`,
    );
    this.#goOnFrom(steps);
  }

  /**
   * After a loss of the files: the state is a cut of history at its transaction id, for this client too, and below it
   * nothing is missing; a durable client lost nothing at all. Gives the newest transaction id that it had been given
   * and that is lost.
   */
  async expectCut(call: Call): Promise<number | undefined> {
    const { steps, txid } = await this.inspect(call);
    assert(steps >= this.#covered, `${this.name}: ${this.#covered} steps were durable, ${steps} are there`);
    let lostTxid: number | undefined;
    for (const [step, given] of this.#txids) {
      assert.equal(
        step <= steps,
        given <= txid,
        `${this.name}: ${steps} steps at transaction ${txid}, but step ${step} was transaction ${given}`,
      );
      if (given > txid) lostTxid = Math.max(lostTxid ?? 0, given);
    }
    this.#goOnFrom(steps);
    return lostTxid;
  }

  #goOnFrom(steps: number): void {
    this.acknowledged = steps;
    this.sent = steps;
    this.#txids = new Map();
  }
}

/** Two clients of each medium, one of them durable. */
export function countingClients(): CountingClient[] {
  return mediumNames.flatMap((medium) => [
    new CountingClient(`${medium}-standard`, medium, false),
    new CountingClient(`${medium}-durable`, medium, true),
  ]);
}
