/** The S3 adapter against a server that goes wrong. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import type { ObjectStore } from "../../../../src/store/port/object-store.ts";
import { openStore } from "../../../../src/store/open-store.ts";
import { proveStore } from "../../../../src/store/probe.ts";
import { TrustedTime } from "../../../../src/base/trusted-time.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { StoreTime } from "../../../../src/store/store-time.ts";
import { toS3Failure } from "../../../../src/store/s3/s3-failure.ts";
import { startS3Double, type Fault, type S3Double, type S3DoubleOptions } from "../../../support/s3-double.ts";
import { toldWorld } from "../../../support/told-world.ts";
import { storeAnswerMs, storeAttemptsMax } from "../../../../src/store/s3/s3-store.ts";

const { world, timeUp } = toldWorld(storeAnswerMs);
const absent = { kind: "absent" } as const;
const text = async (store: ObjectStore, key: string): Promise<string | undefined> => {
  const found = await store.get(key);
  return found && Buffer.from(found.bytes).toString();
};

async function faulty(options?: S3DoubleOptions): Promise<{ double: S3Double; store: ObjectStore }> {
  const double = await startS3Double(options);
  return { double, store: await openStore(double.location, world) };
}

/** The fault for the first `times` requests of a method, none afterwards. */
function firstly(times: number, method: string, fault: Fault): S3Double["fault"] {
  let left = times;
  return (request) => (request.method === method && left-- > 0 ? fault : undefined);
}

/** There is no answer, and its time is up as soon as the request has come. */
function silence(held: (land: () => void) => void = () => {}): Fault {
  return {
    kind: "silence",
    held: (land) => {
      held(land);
      timeUp();
    },
  };
}

const always =
  (fault: Fault): S3Double["fault"] =>
  () =>
    fault;
const sent = (double: S3Double, method: string): number =>
  double.requests.filter((request) => request.method === method).length;

test("F29: a create whose answer is lost is unknown, sent once; reading back and a retry tell", async () => {
  const { double, store } = await faulty();
  double.fault = firstly(1, "PUT", "drop answer");
  await expect(store.put("seg/1", Buffer.from("pages"), absent)).rejects.toMatchObject({ kind: "unknown_outcome" });
  expect(sent(double, "PUT")).toBe(1);
  expect(await text(store, "seg/1")).toBe("pages");
  expect(await store.put("seg/1", Buffer.from("pages"), absent)).toEqual({ kind: "conflict" });
});

test("F30: a replacement whose answer is lost is unknown; the nonce read back says it was made", async () => {
  const { double, store } = await faulty();
  const first = await store.put("head", Buffer.from("nonce 1"), absent);
  double.fault = firstly(1, "PUT", "drop answer");
  const condition = { kind: "version", version: first.kind === "stored" ? first.version : "" } as const;
  await expect(store.put("head", Buffer.from("nonce 2"), condition)).rejects.toMatchObject({
    kind: "unknown_outcome",
  });
  expect(sent(double, "PUT")).toBe(2);
  expect(await text(store, "head")).toBe("nonce 2");
});

test("F31: a replacement that lands long after its time was up changes nothing once another one has won", async () => {
  const { double, store } = await faulty();
  const first = await store.put("head", Buffer.from("nonce 1"), absent);
  const condition = { kind: "version", version: first.kind === "stored" ? first.version : "" } as const;
  const landings: (() => void)[] = [];
  double.fault = firstly(
    1,
    "PUT",
    silence((land) => landings.push(land)),
  );
  await expect(store.put("head", Buffer.from("nonce 2"), condition)).rejects.toMatchObject({
    kind: "unknown_outcome",
    message: expect.stringContaining("Timeout"),
  });
  expect(double.text("head")).toBe("nonce 1");
  expect((await store.put("head", Buffer.from("nonce 3"), condition)).kind).toBe("stored");
  for (const land of landings) land();
  expect(landings).toHaveLength(1);
  expect(double.text("head")).toBe("nonce 3");
});

test("F31: a replacement that lands before ours makes ours a conflict", async () => {
  const { double, store } = await faulty();
  const landings: (() => void)[] = [];
  double.fault = firstly(
    1,
    "PUT",
    silence((land) => landings.push(land)),
  );
  await expect(store.put("head", Buffer.from("nonce 1"), absent)).rejects.toMatchObject({ kind: "unknown_outcome" });
  for (const land of landings) land();
  expect(await store.put("head", Buffer.from("nonce 2"), absent)).toEqual({ kind: "conflict" });
  expect(double.text("head")).toBe("nonce 1");
});

test("F32: 409 ConditionalRequestConflict is sent again and never told as a conflict", async () => {
  const { double, store } = await faulty();
  const conflict: Fault = { status: 409, code: "ConditionalRequestConflict" };
  double.fault = firstly(3, "PUT", conflict);
  expect((await store.put("k", Buffer.from("1"), absent)).kind).toBe("stored");
  expect(sent(double, "PUT")).toBe(4);

  double.fault = always(conflict);
  await expect(store.put("k2", Buffer.from("1"), absent)).rejects.toMatchObject({
    kind: "unavailable",
    message: expect.stringContaining("ConditionalRequestConflict, 409"),
  });
  expect(sent(double, "PUT")).toBe(4 + storeAttemptsMax);
  expect(double.text("k2")).toBeUndefined();
});

test.each([
  [500, "InternalError"],
  [502, "BadGateway"],
  [503, "SlowDown"],
])("a put answered %i %s has an unknown outcome and is not sent again", async (status, code) => {
  const { double, store } = await faulty();
  double.fault = always({ status, code });
  await expect(store.put("k", Buffer.from("1"), absent)).rejects.toMatchObject({ kind: "unknown_outcome" });
  expect(double.requests).toHaveLength(1);
});

test("F33: get, list and delete are repeated through a storm of 503, within bounds", async () => {
  const { double, store } = await faulty();
  await store.put("k", Buffer.from("1"), absent);
  const storm: Fault = { status: 503, code: "SlowDown" };
  double.fault = firstly(3, "GET", storm);
  expect(await text(store, "k")).toBe("1");
  double.fault = firstly(3, "GET", storm);
  expect((await store.list("", { limit: 10 })).objects).toMatchObject([{ key: "k" }]);
  double.fault = firstly(3, "DELETE", "drop answer");
  await store.delete("k");
  expect(double.text("k")).toBeUndefined();

  double.fault = always(storm);
  const before = double.requests.length;
  await expect(store.get("k")).rejects.toMatchObject({
    kind: "unavailable",
    message: expect.stringContaining("SlowDown, 503"),
  });
  await expect(store.list("", { limit: 1 })).rejects.toMatchObject({ kind: "unavailable" });
  await expect(store.delete("k")).rejects.toMatchObject({ kind: "unavailable" });
  expect(double.requests.length - before).toBe(3 * storeAttemptsMax);
});

test("a get that is never answered is given up in time", async () => {
  const { double, store } = await faulty();
  double.fault = always(silence());
  await expect(store.get("k")).rejects.toMatchObject({
    kind: "unavailable",
    message: expect.stringContaining("Timeout"),
  });
  expect(double.requests.length).toBeGreaterThan(1);
  expect(double.requests.length).toBeLessThan(storeAttemptsMax);
});

test("F35: a body that ends early is read again, and never handed out", async () => {
  const { double, store } = await faulty();
  await store.put("seg", Buffer.from("0123456789"), absent);
  double.fault = firstly(2, "GET", "cut body");
  expect(await text(store, "seg")).toBe("0123456789");
  expect(sent(double, "GET")).toBe(3);
  double.fault = always("cut body");
  await expect(store.get("seg")).rejects.toMatchObject({ kind: "unavailable" });
});

test("F34: a server that sends no ETag is refused", async () => {
  const { store } = await faulty({ hidesETags: true });
  await expect(proveStore(store, world)).rejects.toMatchObject({
    kind: "misconfigured",
    message: expect.stringContaining("no ETag"),
  });
});

test.each([403, 404])(
  "a refusal %i whose reason is cut off is asked again, and not taken for a wrong configuration",
  async (status) => {
    expect(
      toS3Failure(Object.assign(new Error("aborted"), { code: "ECONNRESET", $metadata: { httpStatusCode: status } })),
    ).toEqual({ kind: "busy", name: `ECONNRESET, ${status}` });
  },
);

test.each([
  [403, "AccessDenied"],
  [403, "InvalidAccessKeyId"],
  [404, "NoSuchBucket"],
  [301, "PermanentRedirect"],
  [501, "NotImplemented"],
])("%i %s is a wrong configuration, asked once", async (status, code) => {
  const { double, store } = await faulty();
  double.fault = always({ status, code });
  const refusal = { kind: "misconfigured", message: expect.stringContaining(`${code}, ${status}`) };
  await expect(store.get("k")).rejects.toMatchObject(refusal);
  await expect(store.put("k", Buffer.from("1"), { kind: "version", version: '"x"' })).rejects.toMatchObject(refusal);
  await expect(store.list("", { limit: 1 })).rejects.toMatchObject(refusal);
  await expect(store.delete("k")).rejects.toMatchObject(refusal);
  expect(double.requests).toHaveLength(4);
});

test("F41: expired credentials are refused and store nothing; renewed ones pass without a restart", async () => {
  const { double, store } = await faulty();
  let key = "first";
  const issuer = createServer((_, response) => {
    // One that is about to expire is asked for again before every request.
    const expires = new Date(Date.now() + 1_000).toISOString();
    response.end(JSON.stringify({ AccessKeyId: key, SecretAccessKey: "secret", Token: "token", Expiration: expires }));
  });
  await new Promise<void>((resolve) => issuer.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    issuer.closeAllConnections();
    issuer.close();
  });
  vi.stubEnv("AWS_ACCESS_KEY_ID", undefined);
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", undefined);
  vi.stubEnv("AWS_CONTAINER_CREDENTIALS_FULL_URI", `http://127.0.0.1:${(issuer.address() as AddressInfo).port}/`);

  expect((await store.put("a", Buffer.from("1"), absent)).kind).toBe("stored");
  double.fault = ({ credential }) => (credential === "first" ? { status: 400, code: "ExpiredToken" } : undefined);
  await expect(store.put("b", Buffer.from("1"), absent)).rejects.toMatchObject({
    kind: "unavailable",
    message: expect.stringContaining("ExpiredToken"),
  });
  await expect(store.get("a")).rejects.toMatchObject({ kind: "unavailable" });
  expect(double.text("b")).toBeUndefined();
  key = "second";
  expect((await store.put("b", Buffer.from("1"), absent)).kind).toBe("stored");
  expect(double.requests.at(-1)!.credential).toBe("second");
});

test("without credentials, or without a server, nothing was stored for sure", async () => {
  const { double, store } = await faulty();
  const nobody = await openStore(
    { ...(double.location as typeof double.location), endpoint: "http://127.0.0.1:1" },
    world,
  );
  await expect(nobody.put("k", Buffer.from("1"), absent)).rejects.toMatchObject({
    kind: "unavailable",
    message: expect.stringContaining("ECONNREFUSED"),
  });
  for (const name of ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]) vi.stubEnv(name, undefined);
  vi.stubEnv("AWS_EC2_METADATA_DISABLED", "true");
  await expect(store.put("k", Buffer.from("1"), absent)).rejects.toMatchObject({
    kind: "unavailable",
    message: expect.stringContaining("CredentialsProviderError"),
  });
  expect(double.requests).toEqual([]);
});

test("plain HTTP is never spoken unless it is allowed, wherever the endpoint comes from", async () => {
  const { double } = await faulty();
  const { endpoint, ...elsewhere } = double.location;
  const refusal = { kind: "misconfigured", message: expect.stringContaining("AWS_ALLOW_HTTP=true") };
  await expect((await openStore({ ...double.location, plainHttp: false }, world)).get("k")).rejects.toMatchObject(
    refusal,
  );
  vi.stubEnv("AWS_ENDPOINT_URL", endpoint);
  await expect(
    (await openStore({ ...elsewhere, region: "us-east-1", plainHttp: false }, world)).get("k"),
  ).rejects.toMatchObject(refusal);
  expect(double.requests).toEqual([]);
});

test("a store without a region is refused when it is opened", async () => {
  vi.stubEnv("AWS_REGION", undefined);
  vi.stubEnv("AWS_CONFIG_FILE", "/nonexistent");
  onTestFinished(() => {
    vi.unstubAllEnvs();
  });
  await expect(openStore({ kind: "s3", bucket: "bucket", prefix: "", plainHttp: false }, world)).rejects.toMatchObject({
    kind: "misconfigured",
    message: expect.stringContaining("AWS_REGION"),
  });
});

test("a listing asks for no more keys than a page of S3 holds", async () => {
  const { double, store } = await faulty();
  await store.list("", { limit: 1_000_000 });
  await store.list("", { limit: 7 });
  expect(double.requests.map(({ query }) => query.get("max-keys"))).toEqual(["1000", "7"]);
});

test.each([
  ["an object", (store: ObjectStore): Promise<unknown> => store.put("k", Buffer.from("1"), absent)],
  ["nothing", (store: ObjectStore): Promise<unknown> => store.get("none")],
  [
    "a conflict",
    (store: ObjectStore): Promise<unknown> => store.put("k", Buffer.from("1"), { kind: "version", version: "none" }),
  ],
  ["a refusal", (store: ObjectStore): Promise<unknown> => store.list("", { limit: 1 }).catch(() => {})],
] as const)("F42: an answer that gives %s tells the server's clock, by which the node goes", async (what, ask) => {
  const double = await startS3Double();
  const real = realWorld();
  const store = await openStore(double.location, real);
  expect(real.time.sureMs()).toBe(0);
  double.clockAheadMs = -5 * 86_400_000;
  if (what === "a refusal") double.fault = always({ status: 403, code: "AccessDenied" });
  await ask(store);
  for (const toldMs of [real.nowMs(), real.time.sureMs()])
    expect(Math.abs(toldMs - real.wallMs() + 5 * 86_400_000)).toBeLessThan(5_000);
});

test("F42: a clock that was moved has the server's asked for, once until that has told it", async () => {
  const double = await startS3Double();
  const real = realWorld();
  let aheadMs = 0;
  const time = new TrustedTime(
    () => real.wallMs() + aheadMs,
    () => real.monotonicMs(),
  );
  const moved = { ...real, time };
  const store = await openStore(double.location, moved);
  const looks = new StoreTime(moved, store);
  const asked = async (): Promise<number> => {
    for (let look = 0; look < 3; look++) looks.tick();
    await vi.waitFor(() => expect(time.look()).toBe(false));
    return double.requests.length;
  };
  expect(await asked()).toBe(1);
  expect(await asked()).toBe(1);
  aheadMs = 4 * 86_400_000;
  expect(await asked()).toBe(2);
  expect(Math.abs(time.nowMs() - real.wallMs())).toBeLessThan(5_000);
});
