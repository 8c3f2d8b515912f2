/**
 * What a bucket keeps beside its objects, and its removal: versions that were replaced or deleted, marks of deletions,
 * uploads that were never finished.
 *
 * Always true: a version that is an object now, or may become one meanwhile, is never removed; and the mark of a
 * deletion is removed only after every version below it, as removing it brings the newest of them back.
 *
 * A server without versions keeps none. One that has them but does not let them be seen or removed is reported as
 * misconfigured: an erasure must not be proven on a guess.
 */
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetBucketVersioningCommand,
  GetObjectCommand,
  GetObjectLegalHoldCommand,
  GetObjectRetentionCommand,
  ListMultipartUploadsCommand,
  ListObjectVersionsCommand,
} from "@aws-sdk/client-s3";
import type {
  DeleteMarkerEntry,
  GetObjectLegalHoldCommandOutput,
  GetObjectRetentionCommandOutput,
  ListMultipartUploadsCommandOutput,
  ListObjectVersionsCommandOutput,
  S3Client,
} from "@aws-sdk/client-s3";
import { StoreError } from "../../base/faults/errors.ts";
import { Semaphore } from "../../base/collections/semaphore.ts";
import type { World } from "../../base/world.ts";
import type { StoredObject, VersionPurge } from "../port/object-store.ts";
import type { S3FailureKind } from "./s3-failure.ts";

/** Older versions of one object that are looked at: a store in a directory keeps sixteen. */
const olderVersionsMax = 64;
/** Removals of old versions at once: there may be one for every manifest that was ever written. */
const storePurgesAtOnceMax = 16;

/**
 * Sends a request as often as its verb may be repeated; `expected` holds answers that come as errors. Throws
 * StoreError.
 */
type Send = <T>(
  verb: "get" | "list" | "delete",
  command: (client: S3Client, abortSignal: AbortSignal) => Promise<T>,
  expected: { readonly [Kind in S3FailureKind]?: T },
) => Promise<T>;

interface Version {
  readonly key: string;
  readonly id: string;
  readonly isCurrent: boolean;
  /** Whether it marks a deletion and holds nothing. */
  readonly isMarker: boolean;
}

/** Where a listing goes on. */
interface Place {
  readonly key: string;
  readonly id: string | undefined;
}

interface VersionPage {
  readonly versions: readonly Version[];
  /** Undefined at the end. */
  readonly next: Place | undefined;
}

/** The id of what is written while versions are not kept; the next such put replaces it in place. */
const idOfUnversioned = "null";

export class S3Versions {
  readonly #bucket: string;
  readonly #world: World;
  readonly #send: Send;
  readonly #permits = new Semaphore(storePurgesAtOnceMax);

  constructor(bucket: string, world: World, send: Send) {
    this.#bucket = bucket;
    this.#world = world;
    this.#send = send;
  }

  /** Removes all that is kept under the prefix and is no object now. */
  async purge(prefix: string): Promise<VersionPurge> {
    const uploadsAborted = await this.#abortUploads(prefix);
    const bucket = { Bucket: this.#bucket };
    const { Status } = await this.#send(
      "list",
      (client, abortSignal) => client.send(new GetBucketVersioningCommand(bucket), { abortSignal }),
      { unsupported: { $metadata: {} } },
    );
    if (Status === undefined) return { versioned: false, removed: 0, uploadsAborted, locked: 0 };
    return { versioned: true, uploadsAborted, ...(await this.#removeVersions(prefix, Status === "Enabled")) };
  }

  /** What is kept of one object as it was before, newest first. */
  async older(key: string): Promise<readonly StoredObject[]> {
    const older: StoredObject[] = [];
    const none: VersionPage = { versions: [], next: undefined };
    for (let from: Place | undefined, isFirst = true; isFirst || from; isFirst = false) {
      const { versions, next } = await this.#page(key, from, none);
      for (const version of versions.filter((one) => one.key === key && !one.isCurrent && !one.isMarker)) {
        if (older.length === olderVersionsMax) return older;
        const kept = await this.#read(version);
        if (kept) older.push(kept);
      }
      // Longer keys with the same beginning come behind it.
      from = next?.key === key ? next : undefined;
    }
    return older;
  }

  async #read({ key, id }: Version): Promise<StoredObject | undefined> {
    const version = { Bucket: this.#bucket, Key: key, VersionId: id };
    const command = async (client: S3Client, abortSignal: AbortSignal): Promise<StoredObject> => {
      const { Body } = await client.send(new GetObjectCommand(version), { abortSignal });
      return { bytes: await Body!.transformToByteArray(), version: id };
    };
    return this.#send<StoredObject | undefined>("get", command, { absent: undefined });
  }

  async #removeVersions(prefix: string, isEnabled: boolean): Promise<{ removed: number; locked: number }> {
    const count = { removed: 0, locked: 0, unsafe: 0 };
    /** Keys that keep something older. */
    const holding = new Set<string>();
    let markers: Version[] = [];
    const remove = (version: Version): Promise<void> =>
      this.#permits.run(async () => {
        // While versions are not kept, a put may make this very id the object's again between the listing and now.
        const isSafe = isEnabled || version.id !== idOfUnversioned;
        if (isSafe && (await this.#remove(version))) return void count.removed++;
        if (version.isMarker) return;
        holding.add(version.key);
        if (isSafe) count.locked++;
        else count.unsafe++;
      });
    for (let page: VersionPage | undefined = await this.#page(prefix, undefined); page;) {
      // Asked before anything of this page goes: no server need know the place of a version that is no more.
      const next: VersionPage | undefined = page.next && (await this.#page(prefix, page.next));
      await Promise.all(page.versions.filter(({ isCurrent }) => !isCurrent).map(remove));
      markers.push(...page.versions.filter(({ isCurrent, isMarker }) => isCurrent && isMarker));
      const goesOn = page.next?.key;
      await Promise.all(markers.filter(({ key }) => key !== goesOn && !holding.has(key)).map(remove));
      markers = markers.filter(({ key }) => key === goesOn);
      for (const key of holding) if (key !== goesOn) holding.delete(key);
      page = next;
    }
    if (count.unsafe > 0)
      throw new StoreError(
        "misconfigured",
        "s3 store: older versions cannot be removed safely while the bucket's versioning is suspended; enable it",
      );
    return { removed: count.removed, locked: count.locked };
  }

  /** `none` is what a server answers that has never heard of versions, where that is an answer. */
  async #page(prefix: string, from: Place | undefined, none?: VersionPage): Promise<VersionPage> {
    const input = { Bucket: this.#bucket, Prefix: prefix, KeyMarker: from?.key, VersionIdMarker: from?.id };
    const answer = await this.#send<ListObjectVersionsCommandOutput | undefined>(
      "list",
      (client, abortSignal) => client.send(new ListObjectVersionsCommand(input), { abortSignal }),
      none ? { unsupported: undefined } : {},
    );
    if (answer === undefined) return none!;
    const { Versions = [], DeleteMarkers = [], IsTruncated, NextKeyMarker, NextVersionIdMarker } = answer;
    if (IsTruncated && NextKeyMarker === undefined)
      throw unclear("a listing of versions goes on but does not say where");
    return {
      versions: [
        ...Versions.map((version) => toVersion(version, false)),
        ...DeleteMarkers.map((marker) => toVersion(marker, true)),
      ],
      next: IsTruncated ? { key: NextKeyMarker!, id: NextVersionIdMarker } : undefined,
    };
  }

  /** Answers whether the version is gone; if not, it is locked. */
  async #remove({ key, id, isMarker }: Version): Promise<boolean> {
    const version = { Bucket: this.#bucket, Key: key, VersionId: id };
    try {
      await this.#send(
        "delete",
        async (client, abortSignal) => void (await client.send(new DeleteObjectCommand(version), { abortSignal })),
        { absent: undefined },
      );
      return true;
    } catch (error) {
      // Servers refuse what is locked as they refuse callers they do not trust; only the version itself says which it
      // was.
      const isRefused = error instanceof StoreError && error.kind === "misconfigured";
      if (isMarker || !isRefused || !(await this.#isLocked(version))) throw error;
      return false;
    }
  }

  async #isLocked(version: {
    readonly Bucket: string;
    readonly Key: string;
    readonly VersionId: string;
  }): Promise<boolean> {
    // A version without a lock is refused an answer, not answered with none.
    const none = { $metadata: {} };
    const expected = { refused: none, absent: none, unsupported: none };
    const { LegalHold } = await this.#send<GetObjectLegalHoldCommandOutput>(
      "get",
      (client, abortSignal) => client.send(new GetObjectLegalHoldCommand(version), { abortSignal }),
      expected,
    );
    if (LegalHold?.Status === "ON") return true;
    const { Retention } = await this.#send<GetObjectRetentionCommandOutput>(
      "get",
      (client, abortSignal) => client.send(new GetObjectRetentionCommand(version), { abortSignal }),
      expected,
    );
    return Retention?.RetainUntilDate !== undefined && Retention.RetainUntilDate.getTime() > this.#world.nowMs();
  }

  /** No put of ours is in parts: whatever is unfinished was begun by something else, or long ago. */
  async #abortUploads(prefix: string): Promise<number> {
    let aborted = 0;
    for (let from: Place | undefined, isFirst = true; isFirst || from; isFirst = false) {
      const input = { Bucket: this.#bucket, Prefix: prefix, KeyMarker: from?.key, UploadIdMarker: from?.id };
      const none: ListMultipartUploadsCommandOutput = { $metadata: {} };
      const {
        Uploads = [],
        IsTruncated,
        NextKeyMarker,
        NextUploadIdMarker,
      } = await this.#send(
        "list",
        (client, abortSignal) => client.send(new ListMultipartUploadsCommand(input), { abortSignal }),
        { unsupported: none },
      );
      await Promise.all(Uploads.map(({ Key, UploadId }) => this.#permits.run(() => this.#abort(Key, UploadId))));
      aborted += Uploads.length;
      if (IsTruncated && NextKeyMarker === undefined)
        throw unclear("a listing of uploads goes on but does not say where");
      from = IsTruncated ? { key: NextKeyMarker!, id: NextUploadIdMarker } : undefined;
    }
    return aborted;
  }

  async #abort(key: string | undefined, id: string | undefined): Promise<void> {
    if (key === undefined || id === undefined) throw unclear("a listed upload lacks its key or its id");
    const upload = { Bucket: this.#bucket, Key: key, UploadId: id };
    await this.#send(
      "delete",
      async (client, abortSignal) => void (await client.send(new AbortMultipartUploadCommand(upload), { abortSignal })),
      { absent: undefined },
    );
  }
}

function toVersion({ Key, VersionId, IsLatest }: DeleteMarkerEntry, isMarker: boolean): Version {
  if (Key === undefined || VersionId === undefined || IsLatest === undefined)
    throw unclear("a listed version lacks its key, its id or whether it is the newest");
  return { key: Key, id: VersionId, isCurrent: IsLatest, isMarker };
}

function unclear(what: string): StoreError {
  return new StoreError("misconfigured", `s3 store: ${what}`);
}
