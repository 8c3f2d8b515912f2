/** F91: what a real server keeps beside the objects, and its removal. */
import {
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  GetObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectVersionsCommand,
  PutBucketVersioningCommand,
  PutObjectCommand,
  PutObjectLegalHoldCommand,
  PutObjectRetentionCommand,
  S3Client,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { realWorld } from "../../src/base/world.ts";
import type { ObjectStore } from "../../src/store/port/object-store.ts";
import { openStore } from "../../src/store/open-store.ts";
import { hasS3Server, s3ServerNeed, startS3Server, type S3Server } from "../support/s3-server.ts";

const absent = { kind: "absent" } as const;
const nothing = { versioned: true, removed: 0, uploadsAborted: 0, locked: 0 };

describe.skipIf(!hasS3Server)(`F91: versions on a real S3 server${s3ServerNeed}`, { timeout: 60_000 }, () => {
  let server: S3Server;
  let client: S3Client;
  let buckets = 0;

  /** A store with a prefix in a bucket of its own. */
  async function open(
    versioning: "Enabled" | undefined,
    withLocks = false,
  ): Promise<{ bucket: string; store: ObjectStore }> {
    const bucket = `versions-${buckets++}`;
    await client.send(new CreateBucketCommand({ Bucket: bucket, ObjectLockEnabledForBucket: withLocks }));
    if (versioning)
      await client.send(
        new PutBucketVersioningCommand({ Bucket: bucket, VersioningConfiguration: { Status: versioning } }),
      );
    return {
      bucket,
      store: await openStore(
        { kind: "s3", bucket, prefix: "objects", endpoint: server.endpoint, region: "us-east-1", plainHttp: true },
        realWorld(),
      ),
    };
  }

  /** Puts one body after the other under a key. */
  async function write(store: ObjectStore, key: string, ...bodies: string[]): Promise<void> {
    for (const body of bodies) {
      const seen = await store.get(key);
      expect(
        (await store.put(key, Buffer.from(body), seen ? { kind: "version", version: seen.version } : absent)).kind,
      ).toBe("stored");
    }
  }

  /** All that the bucket holds: `key body`, or `key -` for the mark of a deletion, the newest with a star. */
  async function kept(bucket: string): Promise<string[]> {
    const { Versions = [], DeleteMarkers = [] } = await client.send(new ListObjectVersionsCommand({ Bucket: bucket }));
    const bodies = Versions.map(async ({ Key, VersionId, IsLatest }) => {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key, VersionId }));
      return `${Key} ${await Body!.transformToString()}${IsLatest ? " *" : ""}`;
    });
    return [
      ...(await Promise.all(bodies)),
      ...DeleteMarkers.map(({ Key, IsLatest }) => `${Key} -${IsLatest ? " *" : ""}`),
    ].toSorted();
  }

  const findVersionId = async (bucket: string, key: string, isLatest: boolean): Promise<string> =>
    (await client.send(new ListObjectVersionsCommand({ Bucket: bucket, Prefix: key }))).Versions!.find(
      (version) => version.IsLatest === isLatest,
    )!.VersionId!;

  beforeAll(async () => {
    server = await startS3Server({ keepsVersions: true });
    for (const [name, value] of Object.entries(server.variables)) vi.stubEnv(name, value);
    client = new S3Client({ endpoint: server.endpoint, region: "us-east-1", forcePathStyle: true });
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    client.destroy();
    await server.end();
  });

  test("what was replaced and deleted goes, with marks of deletions; current objects stay as they are", async () => {
    // Objects of other prefixes stay too, byte for byte.
    const { bucket, store } = await open("Enabled");
    await write(store, "db/u/head", "secret 1", "secret 2", "clean");
    await write(store, "db/u/seg/1", "secret 3");
    await store.delete("db/u/seg/1");
    await store.delete("db/u/seg/1");
    await write(store, "db/u/seg/2", "secret 4");
    await store.delete("db/u/seg/2");
    // Not by the store: this server takes the mark of a deletion for an object that is in the way.
    await client.send(new PutObjectCommand({ Bucket: bucket, Key: "objects/db/u/seg/2", Body: "anew" }));
    await write(store, "db/v/head", "other 1", "other 2");
    const current = await store.get("db/u/head");

    const purged = await store.purgeVersions("db/u/");
    expect(purged).toMatchObject({ versioned: true, uploadsAborted: 0, locked: 0 });
    expect(purged.removed).toBeGreaterThanOrEqual(6);
    expect(await kept(bucket)).toEqual([
      "objects/db/u/head clean *",
      "objects/db/u/seg/2 anew *",
      "objects/db/v/head other 1",
      "objects/db/v/head other 2 *",
    ]);
    expect(await store.get("db/u/head")).toEqual(current);
    expect(await store.get("db/u/seg/1")).toBeUndefined();
    expect(await store.purgeVersions("db/u/")).toEqual(nothing);
  });

  test("more versions than a page lists go in one call", async () => {
    const { bucket, store } = await open("Enabled");
    const rounds = 600;
    for (let round = 0; round < rounds; round += 20) {
      await Promise.all(
        ["a", "b"].flatMap((key) =>
          Array.from({ length: 20 }, (_, step) =>
            client.send(
              new PutObjectCommand({ Bucket: bucket, Key: `objects/${key}`, Body: `${key} ${round + step}` }),
            ),
          ),
        ),
      );
    }
    await store.delete("b");
    const current = await store.get("a");
    expect(await store.purgeVersions("")).toEqual({ ...nothing, removed: 2 * rounds });
    expect(await kept(bucket)).toEqual([`objects/a ${Buffer.from(current!.bytes).toString()} *`]);
  });

  test("what a retention lock or a legal hold protects is counted, and stays out of sight", async () => {
    // The mark above it stays, so that it is not seen again.
    const { bucket, store } = await open(undefined, true);
    await write(store, "held", "secret 1", "clean");
    await client.send(
      new PutObjectLegalHoldCommand({
        Bucket: bucket,
        Key: "objects/held",
        VersionId: await findVersionId(bucket, "objects/held", false),
        LegalHold: { Status: "ON" },
      }),
    );
    for (const [key, Mode] of [
      ["retained", "COMPLIANCE"],
      ["governed", "GOVERNANCE"],
    ] as const) {
      await write(store, key, "secret 2");
      const retention = { Mode, RetainUntilDate: new Date(Date.now() + 3_600_000) };
      await client.send(
        new PutObjectRetentionCommand({
          Bucket: bucket,
          Key: `objects/${key}`,
          VersionId: await findVersionId(bucket, `objects/${key}`, true),
          Retention: retention,
        }),
      );
      await store.delete(key);
    }
    await write(store, "free", "secret 3", "clean");

    expect(await store.purgeVersions("")).toEqual({ ...nothing, removed: 1, locked: 3 });
    expect(await kept(bucket)).toEqual([
      "objects/free clean *",
      "objects/governed - *",
      "objects/governed secret 2",
      "objects/held clean *",
      "objects/held secret 1",
      "objects/retained - *",
      "objects/retained secret 2",
    ]);
    expect(await store.get("retained")).toBeUndefined();
    await client.send(
      new PutObjectLegalHoldCommand({
        Bucket: bucket,
        Key: "objects/held",
        VersionId: await findVersionId(bucket, "objects/held", false),
        LegalHold: { Status: "OFF" },
      }),
    );
    expect(await store.purgeVersions("")).toEqual({ ...nothing, removed: 1, locked: 2 });
  });

  test("while versioning is suspended, what cannot be removed safely is said, and everything else goes", async () => {
    const { bucket, store } = await open(undefined);
    await write(store, "k", "before versions");
    await client.send(
      new PutBucketVersioningCommand({ Bucket: bucket, VersioningConfiguration: { Status: "Enabled" } }),
    );
    await write(store, "k", "secret", "clean");
    await client.send(
      new PutBucketVersioningCommand({ Bucket: bucket, VersioningConfiguration: { Status: "Suspended" } }),
    );
    await expect(store.purgeVersions("")).rejects.toMatchObject({
      kind: "misconfigured",
      message: expect.stringContaining("suspended"),
    });
    expect(await kept(bucket)).toEqual(["objects/k before versions", "objects/k clean *"]);
    await client.send(
      new PutBucketVersioningCommand({ Bucket: bucket, VersioningConfiguration: { Status: "Enabled" } }),
    );
    expect(await store.purgeVersions("")).toEqual({ ...nothing, removed: 1 });
    expect(await kept(bucket)).toEqual(["objects/k clean *"]);
  });

  test("F43: uploads that were never finished go, below the prefix alone", async () => {
    const { bucket, store } = await open("Enabled");
    for (const Key of ["objects/db/u/seg/1", "objects/db/v/seg/1"]) {
      const { UploadId } = await client.send(new CreateMultipartUploadCommand({ Bucket: bucket, Key }));
      await client.send(new UploadPartCommand({ Bucket: bucket, Key, UploadId, PartNumber: 1, Body: "secret" }));
    }
    expect(await store.purgeVersions("db/u/")).toEqual({ ...nothing, uploadsAborted: 1 });
    const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket: bucket }));
    expect(Uploads.map(({ Key }) => Key)).toEqual(["objects/db/v/seg/1"]);
  });

  test("without versions there is nothing to remove but unfinished uploads", async () => {
    const { bucket, store } = await open(undefined);
    await write(store, "k", "1", "2");
    await store.delete("gone");
    await client.send(new CreateMultipartUploadCommand({ Bucket: bucket, Key: "objects/k" }));
    expect(await store.purgeVersions("")).toEqual({ versioned: false, removed: 0, uploadsAborted: 1, locked: 0 });
    expect(await kept(bucket)).toEqual(["objects/k 2 *"]);
  });

  test("a bucket that is not there is a wrong configuration", async () => {
    const store = await openStore(
      {
        kind: "s3",
        bucket: "no-such-bucket",
        prefix: "",
        endpoint: server.endpoint,
        region: "us-east-1",
        plainHttp: true,
      },
      realWorld(),
    );
    await expect(store.purgeVersions("")).rejects.toMatchObject({
      kind: "misconfigured",
      message: expect.stringContaining("NoSuchBucket"),
    });
  });
});
