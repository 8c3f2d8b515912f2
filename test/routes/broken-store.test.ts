/**
 * Object storage whose directory is gone, or is another one: what the node says of itself, and to those who call it.
 */
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect, onTestFinished, test } from "vitest";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../../gen/grpc/health/v1/health_pb.ts";
import { startService, type RestAnswer, type Service } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

async function start(variables: Record<string, string> = {}): Promise<{ service: Service; objects: string }> {
  const directory = temporaryDirectory();
  const service = await startService({ SERVICE_REQUEST_TIMEOUT: "8", ...variables }, directory);
  onTestFinished(() => service.close());
  return { service, objects: join(directory, "objects") };
}

const put = (service: Service, db: string, value: string, headers: Record<string, string> = {}): Promise<RestAnswer> =>
  service.call("PUT", `/v1/db/${db}/kv/n/k`, value, { "content-type": "text/plain", ...headers });
const gone = expect.stringContaining("the store's directory is gone") as string;

/** An unmounted file system leaves an empty directory, a mistake may leave a file or nothing. */
test.each([
  ["a file", (path: string) => writeFileSync(path, "")],
  ["an empty directory", (path: string) => mkdirSync(path)],
  ["nothing", () => {}],
] as const)(
  "%s in its place is an outage, never a store without databases; it is over when the directory is back",
  async (_, replace) => {
    const { service, objects } = await start();
    const db = await service.database();
    expect((await put(service, db, "1", { "service-durability": "durable" })).status).toBe(200);
    expect((await service.call("GET", "/health/ready")).json).toEqual({
      ready: true,
      checks: { node: "ok", sql: "ok", object_storage: "ok" },
    });
    renameSync(objects, `${objects}.away`);
    replace(objects);
    // Longer than anything is remembered without being read again.
    await new Promise((resolve) => setTimeout(resolve, 6_000));
    expect([(await service.call("GET", `/v1/db/${db}/kv/n/k`)).text, (await put(service, db, "2")).status]).toEqual([
      "1",
      200,
    ]);
    const durable = await put(service, db, "3", { "service-durability": "durable" });
    expect([408, 503]).toContain(durable.status);
    expect(durable.json.error).not.toContain("claimed");
    expect((await service.call("GET", "/v1/databases")).json).toEqual({ error: gone, code: "unavailable" });
    expect((await service.call("POST", "/v1/databases", { name: "other" })).json).toEqual({
      error: gone,
      code: "unavailable",
    });
    const { status, json } = await service.call("GET", "/health/ready");
    expect([status, json]).toEqual([
      200,
      {
        ready: true,
        checks: {
          node: "ok",
          sql: "ok",
          object_storage: expect.stringMatching(/^not reached for \d+ s: the store's directory is gone/) as string,
        },
      },
    ]);
    rmSync(objects, { recursive: true, force: true });
    renameSync(`${objects}.away`, objects);
    await expect
      .poll(async () => (await put(service, db, "4", { "service-durability": "durable" })).status, { timeout: 15_000 })
      .toBe(200);
    expect((await service.call("GET", `/v1/db/${db}/kv/n/k`)).text).toBe("4");
    await expect
      .poll(async () => (await service.call("GET", "/health/ready")).json.checks.object_storage, { timeout: 5_000 })
      .toBe("ok");
  },
  60_000,
);

test("a node whose writes all wait for object storage is not ready without it, over REST and gRPC", async () => {
  const { service, objects } = await start({ SERVICE_DURABILITY: "durable" });
  const health = createClient(Health, createGrpcTransport({ baseUrl: service.address }));
  expect((await health.check({})).status).toBe(Status.SERVING);
  // Every thread has the store open then.
  expect((await put(service, await service.database(), "1")).status).toBe(200);
  renameSync(objects, `${objects}.away`);
  await expect.poll(async () => (await service.call("GET", "/health/ready")).status, { timeout: 10_000 }).toBe(503);
  expect((await health.check({})).status).toBe(Status.NOT_SERVING);
  renameSync(`${objects}.away`, objects);
  await expect.poll(async () => (await health.check({})).status, { timeout: 10_000 }).toBe(Status.SERVING);
}, 30_000);
