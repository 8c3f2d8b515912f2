/**
 * An object store in memory that counts what is asked of it and treats each request as the test says.
 *
 * Always true: objects change only by compare-and-set, and a version is a hash of the content, as on S3. Whoever
 * watches is told of every change, so that an audit can hold after each step (test/sim/store-audit).
 */
import { createHash } from "node:crypto";
import { StoreError } from "../../src/base/faults/errors.ts";
import type {
  ListPage,
  ObjectStore,
  ObjectVersion,
  PutCondition,
  PutOutcome,
  StoredObject,
  VersionPurge,
} from "../../src/store/port/object-store.ts";
import { StoreAudit } from "../sim/store-audit.ts";

export type Verb = "get" | "put" | "delete" | "list";

/** What becomes of a request. */
export type Fate =
  | "fine"
  /** Refused, not applied. */
  | "refused"
  /** Applied; the answer is lost. */
  | "answerLost"
  /** Never arrives. */
  | "requestLost"
  /** Given up by its sender at once; applied when the promise resolves, if the condition then still holds. */
  | { readonly late: Promise<void> }
  /** Arrives when the promise resolves. */
  | { readonly held: Promise<void> };

interface Stored extends StoredObject {
  readonly modifiedAtMs: number;
}

const computeVersion = (bytes: Uint8Array): string => createHash("md5").update(bytes).digest("hex");

export class ScriptedStore implements ObjectStore {
  readonly #objects = new Map<string, Stored>();
  readonly #nowMs: () => number;
  /** Decides over each request. */
  decideFate: (verb: Verb, key: string) => Fate = () => "fine";
  /** What a listing leaves out. */
  hides: (key: string) => boolean = () => false;
  /** Told of every change, after it happened. */
  watch: (key: string, before: Uint8Array | undefined, after: Uint8Array | undefined) => void = () => {};
  /** Requests so far, as `put head`, `get seg`. */
  readonly counts = new Map<string, number>();
  /** Objects that a test has spoilt: an audit does not look at them. */
  readonly rotten = new Set<string>();

  constructor(nowMs: () => number = () => 0) {
    this.#nowMs = nowMs;
  }

  get(key: string): Promise<StoredObject | undefined>;
  get(key: string, heldVersion: ObjectVersion | undefined): Promise<StoredObject | "same" | undefined>;
  get(key: string, heldVersion?: ObjectVersion): Promise<StoredObject | "same" | undefined> {
    return this.#request("get", key, () => {
      const found = this.read(key);
      return found && found.version === heldVersion ? "same" : found;
    });
  }

  put(key: string, bytes: Uint8Array, condition: PutCondition): Promise<PutOutcome> {
    const body = bytes.slice();
    return this.#request("put", key, () => this.#put(key, body, condition));
  }

  delete(key: string): Promise<void> {
    return this.#request("delete", key, () => {
      const before = this.#objects.get(key);
      this.#objects.delete(key);
      if (before) this.watch(key, before.bytes, undefined);
    });
  }

  list(prefix: string, options: { after?: string | undefined; limit: number }): Promise<ListPage> {
    return this.#request("list", prefix, () => {
      const keys = this.keys(prefix).filter((key) => options.after === undefined || key > options.after);
      const page = keys.slice(0, options.limit);
      const objects = page
        .filter((key) => !this.hides(key))
        .map((key) => ({
          key,
          bytes: this.#objects.get(key)!.bytes.length,
          modifiedAtMs: this.#objects.get(key)!.modifiedAtMs,
        }));
      return { objects, next: keys.length > page.length ? page.at(-1) : undefined };
    });
  }

  async purgeVersions(): Promise<VersionPurge> {
    return { versioned: false, removed: 0, uploadsAborted: 0, locked: 0 };
  }

  /** The store without any fault, for whoever checks. */
  get calm(): ObjectStore {
    return {
      get: async (key) => this.read(key),
      put: async (...put) => this.#put(...put),
      delete: async (key) => void this.#objects.delete(key),
      list: (...list) => this.list(...list),
      purgeVersions: () => this.purgeVersions(),
    };
  }

  /** The object as it lies there, not to be changed. */
  peek(key: string): StoredObject | undefined {
    return this.#objects.get(key);
  }

  /** The object as it lies there. */
  read(key: string): StoredObject | undefined {
    const found = this.#objects.get(key);
    return found && { bytes: found.bytes.slice(), version: found.version };
  }

  /** Keys under the prefix, sorted. */
  keys(prefix = ""): string[] {
    return [...this.#objects.keys()].filter((key) => key.startsWith(prefix)).sort();
  }

  /** Exchanges an object's bytes where it lies. */
  spoil(key: string, change: (bytes: Uint8Array) => Uint8Array | undefined): void {
    const bytes = change(this.#objects.get(key)!.bytes.slice());
    this.rotten.add(key);
    if (bytes) this.#objects.set(key, { bytes, version: computeVersion(bytes), modifiedAtMs: 0 });
    else this.#objects.delete(key);
  }

  /** How many requests of the verb there were, for keys whose folder has this name when one is given. */
  count(verb: Verb, folder?: string): number {
    return [...this.counts].reduce(
      (sum, [name, count]) =>
        name.startsWith(`${verb} `) && (folder === undefined || name === `${verb} ${folder}`) ? sum + count : sum,
      0,
    );
  }

  /** Holds every change from now on against what must always be true of manifests, histories and catalogs. */
  audit(): StoreAudit {
    const audit = new StoreAudit(() => this);
    this.watch = (key, before, after) => {
      try {
        audit.changed(key, before, after);
      } catch (error) {
        this.violations.push(error as Error);
      }
    };
    return audit;
  }

  /** What the audit has found. */
  readonly violations: Error[] = [];

  async #request<Answer>(verb: Verb, key: string, apply: () => Answer): Promise<Answer> {
    const name = `${verb} ${key.split("/")[2] ?? "-"}`;
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
    const fate = this.decideFate(verb, key);
    const doubt = new StoreError(verb === "put" ? "unknown_outcome" : "unavailable", "scripted: no answer");
    if (fate === "refused") throw new StoreError("unavailable", "scripted: refused");
    if (fate === "requestLost") throw doubt;
    if (typeof fate === "object" && "late" in fate) {
      void fate.late.then(apply);
      throw doubt;
    }
    if (typeof fate === "object") await fate.held;
    const answer = apply();
    if (fate === "answerLost") throw doubt;
    return answer;
  }

  #put(key: string, bytes: Uint8Array, condition: PutCondition): PutOutcome {
    const before = this.#objects.get(key);
    const holds = condition.kind === "absent" ? before === undefined : before?.version === condition.version;
    if (!holds) return { kind: "conflict" };
    const version = computeVersion(bytes);
    this.#objects.set(key, { bytes, version, modifiedAtMs: this.#nowMs() });
    this.watch(key, before?.bytes, bytes);
    return { kind: "stored", version };
  }
}
