/** Who a request is from: asked for once per connection and header, and always what `identify` would say. */
import { once } from "node:events";
import http from "node:http";
import http2 from "node:http2";
import { generateKeyPairSync } from "node:crypto";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { describe, expect, onTestFinished, test } from "vitest";
import { ControlService } from "../../../../gen/palimpsest/v1/control_pb.ts";
import { limits } from "../../../../src/base/limits.ts";
import { Credentials } from "../../../../src/control/access/credentials.ts";
import type { Identity } from "../../../../src/control/access/identity.ts";
import { buildSigningKey } from "../../../../src/control/access/signing-key.ts";
import { Tokens } from "../../../../src/control/access/tokens.ts";
import { emptyAnswer, openEcho } from "../../../support/echo-node.ts";
import { setWorld } from "../../../support/set-world.ts";

const platformKey = "key-of-the-platform";
const startMs = 1_800_000_000_000;

/** What was answered: whom the call was taken to be from, or why it was refused. */
type Outcome = Identity | string;

/** One connection. */
interface Connection {
  /** Makes a call with an Authorization header, or without one. */
  ask(header: string | undefined): Promise<Outcome>;
}

async function openNode() {
  const clock = setWorld(startMs);
  const key = await buildSigningKey(generateKeyPairSync("ed25519").privateKey);
  const tokens = new Tokens(key, clock.world);
  const credentials = new Credentials({ tokens, signingKey: key, platformKey, world: clock.world });
  const asked: (string | undefined)[] = [];
  let identity: Identity | undefined;
  const node = await openEcho({
    dispatch: async (call) => {
      identity = await call.caller;
      return emptyAnswer(call);
    },
    doors: {
      world: clock.world,
      identify: (credential) => {
        asked.push(credential);
        return credentials.known(credential) ?? credentials.identify(credential);
      },
    },
  });
  const mint = (lifetimeSecs = 60): Promise<string> => tokens.mint({ namespace: "acme" }, "write", lifetimeSecs);
  /** The outcome of a call, by what the dispatch saw or the refusal said. */
  const runCall = async (call: () => Promise<string | undefined>): Promise<Outcome> => {
    identity = undefined;
    const refusal = await call();
    return refusal ?? identity ?? "nobody";
  };
  return { clock, credentials, asked, mint, runCall, address: node.address, port: node.port };
}

type Node = Awaited<ReturnType<typeof openNode>>;

function overHttp1(node: Node): Connection {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  return {
    ask: (header) =>
      node.runCall(async () => {
        const request = http.get({
          agent,
          host: "127.0.0.1",
          port: node.port,
          path: "/v1/databases",
          headers: header === undefined ? {} : { authorization: header },
        });
        const [response] = (await once(request, "response")) as [http.IncomingMessage];
        const text = Buffer.concat(await response.toArray()).toString();
        return response.statusCode === 200 ? undefined : (JSON.parse(text) as { error: string }).error;
      }),
  };
}

function overHttp2(node: Node): Connection {
  const session = http2.connect(node.address);
  onTestFinished(() => session.destroy());
  return {
    ask: (header) =>
      node.runCall(async () => {
        const stream = session.request({
          ":path": "/v1/databases",
          ...(header === undefined ? {} : { authorization: header }),
        });
        const [headers] = (await once(stream, "response")) as [
          http2.IncomingHttpHeaders & http2.IncomingHttpStatusHeader,
        ];
        const text = Buffer.concat(await stream.toArray()).toString();
        return headers[":status"] === 200 ? undefined : (JSON.parse(text) as { error: string }).error;
      }),
  };
}

function overGrpc(node: Node): Connection {
  const sessionManager = new Http2SessionManager(node.address);
  onTestFinished(() => sessionManager.abort());
  const client = createClient(ControlService, createGrpcTransport({ baseUrl: node.address, sessionManager }));
  return {
    ask: (header) =>
      node.runCall(() =>
        client.listDatabases({}, { headers: header === undefined ? {} : { authorization: header } }).then(
          () => undefined,
          (error: { rawMessage: string }) => error.rawMessage,
        ),
      ),
  };
}

const wires = [
  ["REST over HTTP/1.1", overHttp1],
  ["REST over HTTP/2", overHttp2],
  ["gRPC", overGrpc],
] as const;

describe.each(wires)("%s", (_, connect) => {
  test("a token that comes again by the same connection is known without being asked for", async () => {
    const node = await openNode();
    const [connection, token] = [connect(node), await node.mint()];
    const expected = await node.credentials.identify(token);
    for (let call = 0; call < 5; call++) expect(await connection.ask(`Bearer ${token}`)).toBe(expected);
    expect(node.asked).toEqual([token]);
  });

  test("another token, none, garbage and the first one again are each what they are", async () => {
    const node = await openNode();
    const [connection, first, second] = [connect(node), await node.mint(), await node.mint()];
    const [one, two] = [await node.credentials.identify(first), await node.credentials.identify(second)];
    expect(two).not.toBe(one);
    const steps: readonly (readonly [string | undefined, Outcome])[] = [
      [`Bearer ${first}`, one],
      [`Bearer ${second}`, two],
      [undefined, "this call needs a credential: Authorization: Bearer"],
      [`Bearer ${first}`, one],
      [`Bearer ${first}x`, "the credential is not valid"],
      [`Bearer ${first.slice(0, -1)}`, "the credential is not valid"],
      [`Basic ${first}`, "this call needs a credential: Authorization: Bearer"],
      [`bearer ${first}`, one],
      [`Bearer ${second}`, two],
    ];
    for (const [header, outcome] of steps) expect(await connection.ask(header), header ?? "none").toBe(outcome);
    expect(node.asked).toHaveLength(steps.length);
  });

  test("what one connection has shown is not known on another", async () => {
    const node = await openNode();
    const [one, other, token] = [connect(node), connect(node), await node.mint()];
    const expected = await node.credentials.identify(token);
    expect([
      await one.ask(`Bearer ${token}`),
      await other.ask(`Bearer ${token}`),
      await one.ask(`Bearer ${token}`),
    ]).toEqual([expected, expected, expected]);
    expect(await other.ask(undefined)).toContain("needs a credential");
    expect(await one.ask(`Bearer ${token}`)).toBe(expected);
    expect(node.asked).toEqual([token, token, undefined]);
  });

  test("a token is good until its time is over, and not a call longer", async () => {
    const node = await openNode();
    const [connection, token] = [connect(node), await node.mint(60)];
    const expected = await node.credentials.identify(token);
    expect(await connection.ask(`Bearer ${token}`)).toBe(expected);
    node.clock.now = startMs + 60_000 + limits.tokenLeewayMs - 1;
    expect(await connection.ask(`Bearer ${token}`)).toBe(expected);
    expect(node.asked).toHaveLength(1);
    node.clock.now++;
    expect(await connection.ask(`Bearer ${token}`)).toBe("the token has expired");
    node.clock.now = startMs;
    expect(await connection.ask(`Bearer ${token}`)).toEqual(expected);
    expect(node.asked).toHaveLength(3);
  });

  test("the platform key, and a header longer than any token, are asked for each time", async () => {
    const node = await openNode();
    const [connection, token] = [connect(node), await node.mint()];
    const long = `Bearer${" ".repeat(limits.tokenBytesMax)}${token}`;
    for (let call = 0; call < 2; call++) {
      expect(await connection.ask(`Bearer ${platformKey}`)).toMatchObject({ kind: "platform" });
      expect(await connection.ask(long)).toBe(await node.credentials.identify(token));
    }
    expect(node.asked).toHaveLength(4);
  });
});
