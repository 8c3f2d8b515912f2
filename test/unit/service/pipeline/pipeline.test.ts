/**
 * The pipeline over handlers of the test's own: what it makes of headers, and what it stamps on answers and refusals.
 */
import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { ServiceError } from "../../../../src/base/faults/errors.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { Concurrency } from "../../../../src/service/pipeline/admission.ts";
import type { Call, CallHeaders, CallResult } from "../../../../src/service/call/call.ts";
import { type Context, engineOptions, type Handler, seen, unborn } from "../../../../src/service/call/context.ts";
import { SyncRequestSchema } from "../../../../gen/palimpsest/v1/data_pb.ts";
import { endpoints } from "../../../../src/service/call/methods.ts";
import { createPipeline, type PipelineOptions } from "../../../../src/service/pipeline/pipeline.ts";

const endpoint = endpoints.find(({ name }) => name === "DataService.Sync")!;

function dispatch(
  handler: Handler,
  headers: CallHeaders = {},
  durability: PipelineOptions["durability"] = "standard",
): Promise<CallResult> {
  const handlers = new Map([[endpoint.name, handler]]);
  const pipeline = createPipeline({
    handlers,
    world: realWorld(),
    requestTimeoutMs: 1_000,
    concurrency: new Concurrency(1),
    controlPerSecond: 1,
    durability,
  });
  const call: Call = {
    endpoint,
    message: create(SyncRequestSchema, { db: "acme" }),
    credential: undefined,
    remoteAddress: "",
    hostDatabase: undefined,
    headers,
    deadlineMs: undefined,
    signal: undefined,
  };
  return pipeline(call);
}

async function askDurability(
  durability: string | undefined,
  node: PipelineOptions["durability"],
): Promise<boolean | undefined> {
  let durable: boolean | undefined;
  await dispatch(
    async (_request, context) => {
      durable = engineOptions(context).durable;
      return {};
    },
    { durability },
    node,
  );
  return durable;
}

async function catchRefusal(handler: Handler): Promise<ServiceError["detail"]> {
  const error: unknown = await dispatch(handler).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ServiceError);
  return (error as ServiceError).detail;
}

test("durability can only be escalated: by the request or by the node, and `standard` lowers nothing", async () => {
  const outcomes: unknown[] = [];
  for (const node of ["standard", "durable"] as const)
    for (const asked of [undefined, "standard", "durable"])
      outcomes.push([node, asked, await askDurability(asked, node)]);
  expect(outcomes).toEqual([
    ["standard", undefined, false],
    ["standard", "standard", false],
    ["standard", "durable", true],
    ["durable", undefined, true],
    ["durable", "standard", true],
    ["durable", "durable", true],
  ]);
  await expect(dispatch(async () => ({}), { durability: "eventual" })).rejects.toThrow("Service-Durability");
});

test("an answer carries both transaction ids of the state it speaks of, and none when it speaks of none", async () => {
  const answered = (txid: number, durableTxid: number) =>
    dispatch(async (_request, context) => ({ txid: seen(context, { value: "x", txid, durableTxid }).txid }));
  expect((await answered(7, 5)).headers).toEqual([
    ["Service-Txid", "7"],
    ["Service-Durable-Txid", "5"],
  ]);
  expect((await answered(7, 5)).message).toMatchObject({ txid: 7n });
  expect((await dispatch(async (_request, context) => ({ txid: seen(context, unborn).txid }))).headers).toEqual([
    ["Service-Txid", "0"],
    ["Service-Durable-Txid", "0"],
  ]);
  expect((await dispatch(async () => ({}))).headers).toEqual([]);
});

test("a refusal carries what is known: its own txid, else the one seen; and keeps its headers", async () => {
  const saw = (context: Context): void => void seen(context, { value: undefined, txid: 7, durableTxid: 5 });
  const after =
    (error: ServiceError): Handler =>
    async (_request, context) => {
      saw(context);
      throw error;
    };
  expect(await catchRefusal(after(new ServiceError("not_found", "no")))).toEqual({
    txid: 7,
    headers: { "Service-Durable-Txid": "5" },
  });
  expect(
    await catchRefusal(
      after(new ServiceError("conflict", "no", { txid: 9, retryAfterSecs: 2, headers: { Allow: "GET" } })),
    ),
  ).toEqual({
    txid: 9,
    retryAfterSecs: 2,
    headers: { Allow: "GET", "Service-Durable-Txid": "5" },
  });
  const unseen =
    (error: ServiceError): Handler =>
    async () =>
      Promise.reject(error);
  expect(await catchRefusal(unseen(new ServiceError("conflict", "no", { txid: 9 })))).toEqual({ txid: 9 });
  expect(await catchRefusal(unseen(new ServiceError("database_not_found", "no")))).toEqual({});
});
