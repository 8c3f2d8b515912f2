/** What a node says of its health, on its pages and by the health protocol of gRPC. */
import type { ConnectError } from "@connectrpc/connect";
import { Code, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../../../../gen/grpc/health/v1/health_pb.ts";
import { ServiceError } from "../../../../src/base/faults/errors.ts";
import { openEcho } from "../../../support/echo-node.ts";

describe("pages", () => {
  test("/health says ok to everybody; a HEAD has no body", async () => {
    const node = await openEcho({
      doors: { admitOperator: () => Promise.reject(new ServiceError("unauthorized", "no")) },
    });
    const response = await fetch(`${node.address}/health`);
    expect([response.status, response.headers.get("content-type"), await response.text()]).toEqual([
      200,
      "text/plain",
      "ok",
    ]);
    const head = await fetch(`${node.address}/health`, { method: "HEAD" });
    expect([head.status, head.headers.get("content-length"), await head.text()]).toEqual([200, "2", ""]);
  });

  test("/health/ready says each check, is 503 when one fails or in a drain, and asks for a credential", async () => {
    const state = { ready: true, checks: { store: "ok" } };
    const node = await openEcho({
      doors: {
        isReady: () => state,
        admitOperator: (credential) => {
          if (credential !== "key") throw new ServiceError("unauthorized", "the platform key is wanted");
        },
      },
    });
    const ready = async () => {
      const response = await fetch(`${node.address}/health/ready`, { headers: { authorization: "Bearer key" } });
      return [response.status, await response.json()];
    };
    expect(await ready()).toEqual([200, { ready: true, checks: { store: "ok" } }]);
    state.ready = false;
    state.checks.store = "no answer";
    expect(await ready()).toEqual([503, { ready: false, checks: { store: "no answer" } }]);
    state.ready = true;
    node.doors.drain();
    expect(await ready()).toEqual([503, { ready: false, checks: { store: "no answer", drain: "draining" } }]);
    expect((await fetch(`${node.address}/health/ready`)).status).toBe(401);
  });

  test("further pages are served beside them", async () => {
    const pages = new Map([
      [
        "/metrics",
        {
          answer: (credential: string | undefined) => ({
            status: 200,
            contentType: "text/plain; version=0.0.4",
            body: `up 1 ${credential}\n`,
          }),
        },
      ],
    ]);
    const node = await openEcho({ doors: { pages } });
    const response = await fetch(`${node.address}/metrics?x=1`, { headers: { authorization: "Bearer k" } });
    expect([response.headers.get("content-type"), await response.text()]).toEqual([
      "text/plain; version=0.0.4",
      "up 1 k\n",
    ]);
  });
});

describe("grpc.health.v1", () => {
  test("check and list know the node and each service, and nothing else", async () => {
    const state = { ready: true, checks: {} };
    const node = await openEcho({ doors: { isReady: () => state } });
    const client = createClient(Health, createGrpcTransport({ baseUrl: node.address }));
    const services = [
      "",
      "palimpsest.v1.ControlService",
      "palimpsest.v1.MemoryService",
      "palimpsest.v1.TransferService",
      "palimpsest.v1.DataService",
      "palimpsest.v1.FileService",
      "palimpsest.v1.BranchService",
      "palimpsest.v1.ChangeService",
      "palimpsest.v1.WebhookService",
      "grpc.health.v1.Health",
    ];
    for (const service of services) expect((await client.check({ service })).status).toBe(Status.SERVING);
    expect(Object.keys((await client.list({})).statuses).sort()).toEqual(services.toSorted());
    await expect(client.check({ service: "nothing" })).rejects.toMatchObject({
      code: Code.NotFound,
    } satisfies Partial<ConnectError>);
    state.ready = false;
    expect((await client.check({})).status).toBe(Status.NOT_SERVING);
  });

  test("a watch tells each change once, and ends with a drain", async () => {
    const state = { ready: true, checks: {} };
    const node = await openEcho({ doors: { isReady: () => state } });
    const client = createClient(Health, createGrpcTransport({ baseUrl: node.address }));
    const told: Status[] = [];
    for await (const { status } of client.watch({})) {
      told.push(status);
      if (told.length === 1) state.ready = false;
      if (told.length === 2) state.ready = true;
      if (told.length === 3) node.doors.drain();
    }
    expect(told).toEqual([Status.SERVING, Status.NOT_SERVING, Status.SERVING, Status.NOT_SERVING]);
    await node.listener.close();
  });

  test("a watch of an unknown service says so and stays open until its client leaves", async () => {
    const node = await openEcho();
    const abort = new AbortController();
    const client = createClient(Health, createGrpcTransport({ baseUrl: node.address }));
    const watch = client.watch({ service: "nothing" }, { signal: abort.signal })[Symbol.asyncIterator]();
    expect((await watch.next()).value?.status).toBe(Status.SERVICE_UNKNOWN);
    const next = watch.next();
    abort.abort();
    await expect(next).rejects.toMatchObject({ code: Code.Canceled });
  });
});
