/** Doctor, backup, repair and restore --all on a real S3 server, with and without versions. */
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  PutBucketVersioningCommand,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { realWorld } from "../../src/base/world.ts";
import { decodeNameClaim } from "../../src/format/records/name-claim.ts";
import { openStore } from "../../src/store/open-store.ts";
import { palimpsest as run, type Run } from "../support/command-runs.ts";
import { fleetIn, rows, smallFleet, sql } from "../support/rescue.ts";
import { startService, type Service } from "../support/service.ts";
import { hasS3Server, s3ServerNeed, startS3Server, type S3Server } from "../support/s3-server.ts";
import { temporaryDirectory } from "../support/temporary.ts";

describe.skipIf(!hasS3Server)(`rescue on a real S3 server${s3ServerNeed}`, { timeout: 120_000 }, () => {
  let server: S3Server;
  let client: S3Client;

  beforeAll(async () => {
    server = await startS3Server({ keepsVersions: true });
    for (const [name, value] of Object.entries(server.variables)) vi.stubEnv(name, value);
    client = new S3Client({ endpoint: server.endpoint, region: "us-east-1", forcePathStyle: true });
    await client.send(new CreateBucketCommand({ Bucket: "kept" }));
    await client.send(
      new PutBucketVersioningCommand({ Bucket: "kept", VersioningConfiguration: { Status: "Enabled" } }),
    );
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    client.destroy();
    await server.end();
  });

  const palimpsest = (...words: string[]): Promise<Run> => run(words, server.variables);

  async function started(url: string): Promise<Service> {
    return startService({ ...server.variables, SERVICE_OBJECT_STORE: url }, temporaryDirectory());
  }

  async function doctorFinds(url: string): Promise<string[]> {
    const { out, error } = await palimpsest("doctor", "--object-store", url, "--deep", "--json");
    expect(error).toBe("");
    return (JSON.parse(out) as { findings: { severity: string; kind: string }[] }).findings
      .filter(({ severity }) => severity !== "note")
      .map(({ kind }) => kind);
  }

  async function written(url: string): Promise<void> {
    const service = await started(url);
    expect((await service.call("POST", "/v1/databases", { name: "one" })).status).toBe(201);
    await sql(service, "one", "CREATE TABLE t (n)");
    for (const n of [1, 2, 3]) await sql(service, "one", `INSERT INTO t VALUES (${n})`);
    await sql(service, "one", "CREATE TABLE big AS SELECT randomblob(120000) AS b");
    await service.close();
  }

  test("a fleet is copied from one prefix to another while it is written, and comes back from there", async () => {
    const [live, copy, fresh] = [server.buildUrl("live"), server.buildUrl("copy"), server.buildUrl("fresh")];
    await written(live);
    const service = await started(live);
    const writing = (async () => {
      for (let n = 10; n < 30; n++) await sql(service, "one", `INSERT INTO t VALUES (${n})`);
    })();
    const first = await palimpsest("backup", "--object-store", live, "--to", copy, "--verify", "restore");
    expect(first, first.error).toMatchObject({ code: 0 });
    await writing;
    const second = await palimpsest("backup", "--object-store", live, "--to", copy);
    expect(second, second.error).toMatchObject({ code: 0 });
    const now = await rows(service, "one");
    await service.close();
    expect(await doctorFinds(copy)).toEqual([]);
    const restored = await palimpsest("restore", "--all", "--object-store", copy, "--to", fresh, "--verify", "restore");
    expect(restored, restored.error).toMatchObject({ code: 0 });
    expect(await doctorFinds(fresh)).toEqual([]);
    const again = await started(fresh);
    expect(await rows(again, "one")).toEqual(now);
    await sql(again, "one", "INSERT INTO t VALUES (99)");
    await again.close();
    await expect(started(copy)).rejects.toThrow("is a backup of");
  });

  test("a manifest that was overwritten or deleted comes back from the bucket's versions", async () => {
    // This server's versions do not keep what a node asks of a store, so that the objects come from a backup.
    const url = "s3://kept/objects";
    const fleet = await smallFleet();
    for (const n of [4, 5]) {
      const service = await fleet.start();
      await sql(service, "one", `INSERT INTO t VALUES (${n})`);
      await service.close();
      expect((await palimpsest("backup", "--object-store", fleet.url, "--to", url)).code).toBe(0);
    }
    const store = await openStore(
      {
        kind: "s3",
        bucket: "kept",
        prefix: "objects",
        endpoint: server.endpoint,
        region: "us-east-1",
        plainHttp: true,
      },
      realWorld(),
    );
    const { uuid } = decodeNameClaim((await store.get("names/one.json"))!.bytes);
    const manifest = { Bucket: "kept", Key: `objects/db/${uuid}/head/main` };
    await client.send(new PutObjectCommand({ ...manifest, Body: "rubbish" }));
    expect(await doctorFinds(url)).toContain("head_unreadable");
    const looked = await palimpsest("repair", "--object-store", url, "--database", "one");
    expect(looked.out).toContain("an older version of the manifest");
    const digest = /--apply ([0-9a-f]{16}) carries/.exec(looked.out)![1]!;
    const done = await palimpsest(
      "repair",
      "--object-store",
      url,
      "--database",
      "one",
      "--apply",
      digest,
      "--nodes-stopped",
    );
    expect(done, done.error + done.out).toMatchObject({ code: 0 });
    expect(await doctorFinds(url)).toEqual([]);
    const restored = fleetIn(temporaryDirectory());
    expect((await palimpsest("restore", "--all", "--object-store", url, "--to", restored.url)).code).toBe(0);
    const service = await restored.start();
    expect((await rows(service, "one")).slice(0, 4)).toEqual([1, 2, 3, 4]);
    await service.close();
    // What was deleted is found too. (This server takes the mark of a deletion for an object, so that nothing can be
    // put over it on condition.)
    await client.send(new DeleteObjectCommand(manifest));
    expect((await palimpsest("repair", "--object-store", url, "--database", "one")).out).toContain(
      "an older version of the manifest",
    );
  });
});
