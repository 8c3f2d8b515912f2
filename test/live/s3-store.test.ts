/** The S3 adapter, the proof of a start and a node on a real server that speaks S3. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { realWorld } from "../../src/base/world.ts";
import type { ObjectStore } from "../../src/store/port/object-store.ts";
import { openStore } from "../../src/store/open-store.ts";
import { proveStore } from "../../src/store/probe.ts";
import { hastyWorld } from "../support/hasty-world.ts";
import { startNodeProcess } from "../support/node-process.ts";
import { racePuts } from "../support/put-racer.ts";
import { hasS3Server, s3ServerNeed, startS3Server, type S3Server } from "../support/s3-server.ts";
import { describeStore } from "../support/store-suite.ts";
import { temporaryDirectory } from "../support/temporary.ts";

describe.skipIf(!hasS3Server)(`a real S3 server${s3ServerNeed}`, { timeout: 60_000 }, () => {
  let server: S3Server;
  let stores = 0;
  const newPrefix = (): string => `store-${stores++}/objects`;
  const open = (world = realWorld()): Promise<ObjectStore> => openStore(server.buildLocation(newPrefix()), world);

  beforeAll(async () => {
    server = await startS3Server();
    for (const [name, value] of Object.entries(server.variables)) vi.stubEnv(name, value);
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await server.end();
  });

  describeStore("s3:// on a real server", () => open());

  test("F34: passes the proof of a start again and again", async () => {
    const store = await open();
    for (let time = 0; time < 10; time++) await proveStore(store, realWorld());
  });

  test("several processes count to 100 on one key and no step is lost or taken twice", async () => {
    expect(await racePuts(server.buildLocation(newPrefix()), 4, 100)).toEqual({ wins: 100, unknown: 0 });
  });

  test("wrong credentials and a missing bucket are wrong configurations", async () => {
    const { bucket: _, ...rest } = server.buildLocation(newPrefix());
    const elsewhere = await openStore({ ...rest, bucket: "no-such-bucket" }, realWorld());
    await expect(elsewhere.get("k")).rejects.toMatchObject({
      kind: "misconfigured",
      message: expect.stringContaining("NoSuchBucket"),
    });
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", "not the secret");
    onTestFinished(() => {
      vi.stubEnv("AWS_SECRET_ACCESS_KEY", server.variables["AWS_SECRET_ACCESS_KEY"]);
    });
    await expect((await open()).get("k")).rejects.toMatchObject({
      kind: "misconfigured",
      message: expect.stringContaining("SignatureDoesNotMatch"),
    });
  });

  test("an outage is unavailable, no unknown outcome of what was not sent; all that is stored remains", async () => {
    const store = await open(hastyWorld(20));
    const stored = await store.put("k", Buffer.from("kept"), { kind: "absent" });
    await server.stop();
    await expect(store.get("k")).rejects.toMatchObject({ kind: "unavailable" });
    await expect(store.put("k2", Buffer.from("x"), { kind: "absent" })).rejects.toMatchObject({
      kind: "unavailable",
    });
    await server.start();
    expect(await store.get("k")).toEqual({
      bytes: expect.objectContaining({ length: 4 }),
      version: stored.kind === "stored" ? stored.version : "",
    });
    expect(await store.get("k2")).toBeUndefined();
  });

  test("a node proves the store at its start and keeps its databases there", async () => {
    const prefix = newPrefix();
    const node = await startNodeProcess(temporaryDirectory(), {
      ...server.variables,
      SERVICE_OBJECT_STORE: server.buildUrl(prefix),
    });
    onTestFinished(() => node.end("SIGTERM"));
    const created = await node.call("POST", "/v1/databases", { name: "harbour" });
    expect(created.status, created.text).toBeLessThan(300);
    const { objects } = await (await openStore(server.buildLocation(prefix), realWorld())).list("", { limit: 100 });
    expect(objects.map(({ key }) => key.split("/")[0])).not.toContain("probe");
    expect(objects.length).toBeGreaterThan(0);
  });

  test("F34: a node does not start on plain HTTP that nobody allowed, nor without its bucket", async () => {
    const { AWS_ALLOW_HTTP: _, ...unallowed } = server.variables;
    await expect(
      startNodeProcess(temporaryDirectory(), { ...unallowed, SERVICE_OBJECT_STORE: server.buildUrl("x") }),
    ).rejects.toThrow("AWS_ALLOW_HTTP=true");
    await expect(
      startNodeProcess(temporaryDirectory(), { ...server.variables, SERVICE_OBJECT_STORE: "s3://no-such-bucket" }),
    ).rejects.toThrow("NoSuchBucket");
  });
});
