/**
 * Object storage on a server that speaks S3 and decides `If-None-Match: *` and `If-Match` of a put atomically (probe.ts
 * finds out whether it does).
 *
 * Always true: a put is sent again only after an answer that says it was not carried out; one whose answer is lost is
 * an unknown outcome. Get, list and delete change nothing that a repeat would change again, so they are repeated after
 * lost answers too. A version is the ETag, which most servers make of the bytes alone.
 *
 * Every answer, a refusal too, has the server's clock, which is passed to the world (base/trusted-time).
 *
 * A 403 counts as a wrong configuration, unless its code says that credentials ran out or a clock is off: those pass.
 * (S3 says 403 of an absent key to a caller without s3:ListBucket, so that permission is needed.)
 */
import {
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import type { ListObjectsV2CommandOutput } from "@aws-sdk/client-s3";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { sleep, type World } from "../../base/world.ts";
import type {
  KeepingStore,
  ListPage,
  ObjectVersion,
  PutCondition,
  PutOutcome,
  StoredObject,
  VersionPurge,
} from "../port/object-store.ts";
import { toS3Failure, type S3FailureKind } from "./s3-failure.ts";
import { S3Versions } from "./s3-versions.ts";

/** One attempt of a request must have its answer by then; an answer's body has as long again. */
export const storeAnswerMs = 10_000;
/** A body that is sent or read adds time at this rate: slower lines are taken for dead. */
const storeBytesPerMsMin = 256;
/** Attempts of one request, as long as a repeat is safe. */
export const storeAttemptsMax = 8;
/**
 * The longest pause before the first repeat; it doubles with each. Pauses are random below it, so that a crowd
 * disperses.
 */
const storeBackoffMs = 50;
const storeBackoffMsMax = 4_000;
/** After this long a request is not repeated any more. */
const storeRepeatMs = 30_000;
/** Connections of one thread to the object store; further requests wait for one. */
const storeConnectionsMax = 64;

/**
 * A bucket, or a folder of one, on a server that speaks S3. Credentials are no part of it: the client finds its own.
 */
export interface S3Location {
  readonly kind: "s3";
  readonly bucket: string;
  /** Goes before every key, with a slash between; empty for none. */
  readonly prefix: string;
  /** The server's address; undefined for Amazon's, or what the shared configuration file of S3 clients names. */
  readonly endpoint?: string | undefined;
  readonly region?: string | undefined;
  /** Whether requests may go unencrypted. */
  readonly plainHttp: boolean;
}

/** One request on its way. */
interface Attempt {
  /** Aborts when the time is up. */
  readonly abortSignal: AbortSignal;
  /** Starts the time anew for a body of the given size. */
  allow(bytes: number): void;
}

const repeatable: Readonly<Record<"put" | "get" | "list" | "delete", readonly S3FailureKind[]>> = {
  put: ["busy"],
  get: ["busy", "lost"],
  list: ["busy", "lost"],
  delete: ["busy", "lost"],
};
type Verb = keyof typeof repeatable;

/** Servers other than Amazon's take any region, but the signature must name one. */
const regionOfOtherServers = "us-east-1";
const silent = { debug() {}, info() {}, warn() {}, error() {} };

function createClient({ endpoint, region = endpoint && regionOfOtherServers, plainHttp }: S3Location): S3Client {
  const agent = { keepAlive: true, maxSockets: storeConnectionsMax };
  const client = new S3Client({
    ...(endpoint !== undefined && { endpoint }),
    ...(region !== undefined && { region }),
    forcePathStyle: true,
    // Repeats are ours: the client's own would repeat a put whose answer was lost, and lose to itself.
    maxAttempts: 1,
    // Checksums in trailers are Amazon's alone; what must not be read wrong carries a hash of ours.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    expectContinueHeader: false,
    // Its handler would tell the console that requests wait for a connection, which is what the bound is for.
    requestHandler: { httpAgent: agent, httpsAgent: agent, logger: silent },
  });
  if (!plainHttp) refusePlainHttp(client);
  return client;
}

/** Tells the world the time of the server's clock, by every answer that comes. */
function hearClock(client: S3Client, world: World): void {
  world.time.awaitStore();
  client.middlewareStack.add(
    (next) => async (call) => {
      const sentMs = world.monotonicMs();
      const answer = await next(call);
      const { headers } = answer.response as { readonly headers?: Readonly<Record<string, string>> };
      const storeMs = Date.parse(headers?.["date"] ?? "");
      // With an age it is what a cache in between has kept.
      if (!Number.isNaN(storeMs) && headers?.["age"] === undefined) world.time.heard(storeMs, sentMs);
      return answer;
    },
    // Next to the wire: an answer that is a refusal is none any more further up.
    { step: "deserialize", priority: "low", name: "hearClock" },
  );
}

/** The shared configuration file can name an endpoint too, so the address is looked at where it is certain. */
function refusePlainHttp(client: S3Client): void {
  client.middlewareStack.add(
    (next) => async (call) => {
      if ((call.request as { readonly protocol?: string }).protocol === "http:") {
        throw new StoreError(
          "misconfigured",
          "s3 store: the endpoint is plain HTTP, which must be allowed with AWS_ALLOW_HTTP=true",
        );
      }
      return next(call);
    },
    { step: "build", name: "refusePlainHttp" },
  );
}

export class S3Store implements KeepingStore {
  readonly #client: S3Client;
  readonly #world: World;
  readonly #bucket: string;
  readonly #prefix: string;

  private constructor(client: S3Client, location: S3Location, world: World) {
    this.#client = client;
    this.#world = world;
    this.#bucket = location.bucket;
    this.#prefix = location.prefix === "" ? "" : `${location.prefix}/`;
  }

  /** Makes a client for the location. Nothing is sent yet. */
  static async open(location: S3Location, world: World): Promise<S3Store> {
    const client = createClient(location);
    hearClock(client, world);
    try {
      await client.config.region();
    } catch (error) {
      throw new StoreError("misconfigured", "s3 store: no region is set; set AWS_REGION", { cause: error });
    }
    return new S3Store(client, location, world);
  }

  get(key: string): Promise<StoredObject | undefined>;
  get(key: string, heldVersion: ObjectVersion | undefined): Promise<StoredObject | "same" | undefined>;
  async get(key: string, heldVersion?: ObjectVersion): Promise<StoredObject | "same" | undefined> {
    return this.#repeated<StoredObject | "same" | undefined>(
      "get",
      0,
      async ({ abortSignal, allow }) => {
        const command = new GetObjectCommand({
          Bucket: this.#bucket,
          Key: this.#prefix + key,
          ...(heldVersion !== undefined && { IfNoneMatch: heldVersion }),
        });
        const { Body, ContentLength, ETag } = await this.#client.send(command, { abortSignal });
        allow(ContentLength ?? 0);
        const bytes = await Body!.transformToByteArray();
        if (ContentLength !== undefined && bytes.length !== ContentLength)
          throw new Error("the answer's body is not as long as it says");
        return { bytes, version: requireVersion(ETag) };
      },
      { absent: undefined, ...(heldVersion !== undefined && { same: "same" as const }) },
    );
  }

  async put(key: string, bytes: Uint8Array, condition: PutCondition): Promise<PutOutcome> {
    const input = { Bucket: this.#bucket, Key: this.#prefix + key, Body: bytes, ContentLength: bytes.length };
    const command = new PutObjectCommand(
      condition.kind === "absent" ? { ...input, IfNoneMatch: "*" } : { ...input, IfMatch: condition.version },
    );
    const conflict: PutOutcome = { kind: "conflict" };
    return this.#repeated<PutOutcome>(
      "put",
      bytes.length,
      async ({ abortSignal }) => {
        const { ETag } = await this.#client.send(command, { abortSignal });
        return { kind: "stored", version: requireVersion(ETag) };
      },
      { absent: conflict, unmet: conflict },
    );
  }

  async delete(key: string): Promise<void> {
    return this.#repeated(
      "delete",
      0,
      async ({ abortSignal }) => {
        await this.#client.send(new DeleteObjectCommand({ Bucket: this.#bucket, Key: this.#prefix + key }), {
          abortSignal,
        });
      },
      { absent: undefined },
    );
  }

  async list(prefix: string, options: { after?: string | undefined; limit: number }): Promise<ListPage> {
    return this.#repeated(
      "list",
      0,
      async ({ abortSignal }) => {
        const command = new ListObjectsV2Command({
          Bucket: this.#bucket,
          Prefix: this.#prefix + prefix,
          MaxKeys: Math.min(options.limit, limits.storeListMax),
          ...(options.after !== undefined && { StartAfter: this.#prefix + options.after }),
        });
        return this.#toPage(await this.#client.send(command, { abortSignal }));
      },
      {},
    );
  }

  async purgeVersions(prefix: string): Promise<VersionPurge> {
    return this.#versions().purge(this.#prefix + prefix);
  }

  async olderVersions(key: string): Promise<readonly StoredObject[]> {
    return this.#versions().older(this.#prefix + key);
  }

  #versions(): S3Versions {
    return new S3Versions(this.#bucket, this.#world, (verb, command, expected) =>
      this.#repeated(verb, 0, ({ abortSignal }) => command(this.#client, abortSignal), expected),
    );
  }

  #toPage({ Contents = [], IsTruncated }: ListObjectsV2CommandOutput): ListPage {
    const objects = Contents.map(({ Key, Size, LastModified }) => {
      if (Key === undefined || Size === undefined || LastModified === undefined)
        throw new Error("a listed object lacks its key, size or time");
      return { key: Key.slice(this.#prefix.length), bytes: Size, modifiedAtMs: LastModified.getTime() };
    });
    if (IsTruncated && objects.length === 0) throw new Error("a page of a listing is empty but not the last");
    return { objects, next: IsTruncated ? objects.at(-1)!.key : undefined };
  }

  /**
   * Asks until there is an answer, as often as the verb allows. `expected` holds the answers that the client throws as
   * errors; every other failure becomes a StoreError.
   */
  async #repeated<T>(
    verb: Verb,
    sentBytes: number,
    ask: (attempt: Attempt) => Promise<T>,
    expected: { readonly [Kind in S3FailureKind]?: T },
  ): Promise<T> {
    const startedMs = this.#world.monotonicMs();
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#timed(sentBytes, ask);
      } catch (error) {
        if (error instanceof StoreError) throw error;
        const { kind, name } = toS3Failure(error);
        if (kind in expected) return expected[kind] as T;
        const isLast = attempt === storeAttemptsMax || this.#world.monotonicMs() - startedMs > storeRepeatMs;
        if (isLast || !repeatable[verb].includes(kind)) throw buildFault(verb, kind, name, error);
      }
      await this.#pause(attempt);
    }
  }

  /** One attempt, abandoned when its time is over: a server that has gone silent must not hold its caller. */
  async #timed<T>(sentBytes: number, ask: (attempt: Attempt) => Promise<T>): Promise<T> {
    const controller = new AbortController();
    const { promise: timeUp, reject } = Promise.withResolvers<never>();
    let cancel = (): void => {};
    const allow = (bytes: number): void => {
      cancel();
      cancel = this.#world.after(storeAnswerMs + bytes / storeBytesPerMsMin, () => {
        reject(Object.assign(new Error("no answer in time"), { name: "Timeout" }));
        controller.abort();
      });
    };
    allow(sentBytes);
    try {
      return await Promise.race([ask({ abortSignal: controller.signal, allow }), timeUp]);
    } finally {
      cancel();
    }
  }

  /** Waits for a random part of what this attempt allows. */
  async #pause(attempt: number): Promise<void> {
    const mostMs = Math.min(storeBackoffMsMax, storeBackoffMs * 2 ** (attempt - 1));
    const fraction = Buffer.from(this.#world.randomBytes(4)).readUInt32LE() / 2 ** 32;
    // Timers let the process end. A node that is starting has nothing else yet, and would end silently.
    const { port1: alive } = new MessageChannel();
    alive.ref();
    await sleep(this.#world, mostMs * fraction);
    alive.close();
  }
}

function requireVersion(etag: string | undefined): string {
  if (etag === undefined)
    throw new StoreError(
      "misconfigured",
      "s3 store: the server sends no ETag, without which nothing can be replaced safely",
    );
  return etag;
}

function buildFault(verb: Verb, kind: S3FailureKind, name: string, cause: unknown): StoreError {
  if (kind === "busy")
    return new StoreError("unavailable", `s3 store: a ${verb} was refused for now (${name})`, { cause });
  if (kind !== "lost") return new StoreError("misconfigured", `s3 store: a ${verb} was refused (${name})`, { cause });
  if (verb === "put")
    return new StoreError("unknown_outcome", `s3 store: the answer to a put was lost (${name}); read the object back`, {
      cause,
    });
  return new StoreError("unavailable", `s3 store: a ${verb} had no answer (${name})`, { cause });
}
