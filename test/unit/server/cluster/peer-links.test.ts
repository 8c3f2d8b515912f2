/** Links between nodes over real sockets: refusals, what is followed, orders, and how a link ends in good order. */
import { setTimeout as pause } from "node:timers/promises";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { create } from "@bufbuild/protobuf";
import { describe, expect, onTestFinished, test } from "vitest";
import { ExchangeResponseSchema } from "../../../../gen/palimpsest/node/v1/node_pb.ts";
import { type ErrorCode, errorCodes, ServiceError, StoreError } from "../../../../src/base/faults/errors.ts";
import { limits } from "../../../../src/base/limits.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { type CallerTold, type PortCall, TurnedAway } from "../../../../src/engine/api/engine-port.ts";
import type { Answer } from "../../../../src/engine/api/protocol.ts";
import { encodeAnswer } from "../../../../src/server/node-wire/node-messages.ts";
import { PeerLinks } from "../../../../src/server/cluster/peer-links.ts";
import { type ForwardedCall, Unreachable } from "../../../../src/service/placement/peers.ts";
import { callSamples } from "../../../support/command-samples.ts";
import { hastyWorld } from "../../../support/hasty-world.ts";
import { uuidOf } from "../../../support/inline-engine.ts";
import {
  answered,
  buildCall,
  codec,
  clusterKey,
  openLinks,
  openPeer,
  openScripted,
  readCall,
  welcome,
} from "../../../support/peer-node.ts";
import { seeded } from "../../../support/random.ts";
import { selfSigned } from "../../../support/self-signed.ts";

const describeOutcome = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => "ok",
    (error: unknown) => (error instanceof ServiceError ? error.code : (error as Error).name),
  );

describe("refusals", () => {
  test("every code comes with its message and details, and with both reasons of turning away", async () => {
    const detail = { retryAfterSecs: 3, txid: 9, headers: { Allow: "PUT" }, httpStatus: 405 };
    const codes = Object.keys(errorCodes) as ErrorCode[];
    const peer = await openPeer(({ minTxid }) => {
      throw codes[minTxid]
        ? new ServiceError(codes[minTxid], "because", detail)
        : new TurnedAway(minTxid % 2 ? "unheld" : "behind");
    });
    const { links } = openLinks();
    for (const [minTxid, code] of codes.entries())
      await expect(links.forward(peer.address, buildCall({ minTxid }))).rejects.toMatchObject({
        name: "ServiceError",
        code,
        message: "because",
        detail,
      });
    await expect(links.forward(peer.address, buildCall({ minTxid: 101 }))).rejects.toMatchObject({
      name: "TurnedAway",
      reason: "unheld",
    });
    await expect(links.forward(peer.address, buildCall({ minTxid: 102 }))).rejects.toMatchObject({
      name: "TurnedAway",
      reason: "behind",
    });
  });

  test("a fault stays at the receiver, whose log has it under the id that the sender is told", async () => {
    const peer = await openPeer(({ minTxid }) => {
      throw minTxid === 0 ? new Error("secret of /data/db") : new StoreError("unknown_outcome", "secret of the store");
    });
    const { links } = openLinks();
    const refusal = await links.forward(peer.address, buildCall()).catch((error: unknown) => error as ServiceError);
    expect(refusal).toMatchObject({ name: "ServiceError", code: "internal" });
    expect((refusal as ServiceError).message).not.toContain("secret");
    const [said] = peer.log.said.filter(({ level }) => level === "error");
    expect(said!.error).toMatchObject({ message: "secret of /data/db" });
    expect((refusal as ServiceError).message).toContain(said!.fields!["id"]);
    const passing = await links
      .forward(peer.address, buildCall({ minTxid: 1 }))
      .catch((error: unknown) => error as ServiceError);
    expect(passing).toMatchObject({ code: "unavailable" });
    expect((passing as ServiceError).message).not.toContain("secret");
  });

  test("a value that cannot be written down is a fault too, and the stream goes on", async () => {
    const peer = await openPeer(({ minTxid }) => answered(minTxid === 0 ? () => {} : 1));
    const { links } = openLinks();
    await expect(links.forward(peer.address, buildCall())).rejects.toMatchObject({ code: "internal" });
    expect((await links.forward(peer.address, buildCall({ minTxid: 1 }))).value).toBe(1);
  });

  test("a client is refused what its scope can never do, whatever the sender has let pass", async () => {
    const peer = await openPeer(() => answered(1));
    const { links } = openLinks();
    const token = (scope: CallerTold["scope"]): CallerTold => ({ kind: "token", scope, hash: "h" });
    const batch = { statements: [], atomic: true, mayWrite: true };
    const branch = (act: string): PortCall => callSamples.find(({ name }) => name === `branch ${act}`)!.call;
    const rows: [PortCall, ...("ok" | "forbidden")[]][] = [
      [readCall, "ok", "ok", "ok"],
      [{ kind: "sql-read", batch }, "ok", "ok", "ok"],
      [branch("list"), "ok", "ok", "ok"],
      [branch("checkpoints"), "ok", "ok", "ok"],
      [buildCall().call, "forbidden", "ok", "ok"],
      [{ kind: "sql-write", batch }, "forbidden", "ok", "ok"],
      [branch("erase"), "forbidden", "ok", "ok"],
      ...["fork", "delete", "checkpoint", "forget-checkpoint", "rewind", "expunge"].map(
        (act): [PortCall, "forbidden", "forbidden", "ok"] => [branch(act), "forbidden", "forbidden", "ok"],
      ),
      [{ kind: "drop" }, "forbidden", "forbidden", "forbidden"],
    ];
    for (const [call, ...expected] of rows) {
      const codes = await Promise.all(
        (["read", "write", "admin"] as const).map((scope) =>
          describeOutcome(links.forward(peer.address, buildCall({ call, caller: token(scope) }))),
        ),
      );
      expect([call, ...codes]).toEqual([call, ...expected]);
      for (const caller of [
        undefined,
        { kind: "platform", scope: undefined, hash: "p" },
        { kind: "anonymous", scope: undefined, hash: undefined },
      ] as const)
        expect(await describeOutcome(links.forward(peer.address, buildCall({ call, caller })))).toBe("ok");
    }
    const { length } = peer.served;
    expect(await describeOutcome(links.forward(peer.address, buildCall({ caller: token(undefined) })))).toBe(
      "forbidden",
    );
    expect(peer.served).toHaveLength(length);
  });

  test("more calls than may be under way are shed at once; when some are answered there is room again", async () => {
    const gate = Promise.withResolvers<Answer>();
    const peer = await openPeer(() => gate.promise);
    const { links } = openLinks();
    const calls = Array.from({ length: limits.peerCallsMax }, () => links.forward(peer.address, buildCall()));
    await expect(links.forward(peer.address, buildCall())).rejects.toMatchObject({
      code: "overloaded",
      detail: { retryAfterSecs: 1 },
    });
    gate.resolve(answered(1));
    await Promise.all(calls);
    expect((await links.forward(peer.address, buildCall())).value).toBe(1);
  });

  test("a call that is larger than any may be is refused before it leaves", async () => {
    const peer = await openPeer(() => answered(1));
    const { links } = openLinks();
    const input = new Uint8Array(limits.peerBytesMax + 1);
    await expect(
      links.forward(peer.address, buildCall({ call: { kind: "write", command: "kv.put", input } })),
    ).rejects.toMatchObject({ code: "payload_too_large" });
    expect(peer.served).toEqual([]);
  });
});

describe("what is followed", () => {
  test("the follower hears of changes of what it follows, from when it asks until it does not any more", async () => {
    const world = hastyWorld(50);
    const hints = new Map<string, () => void>();
    let asked = 0;
    const peer = await openPeer(() => answered(1), {
      world,
      host: { followed: (uuid, hint) => (asked++, hints.set(uuid, hint), () => void hints.delete(uuid)) },
    });
    const { links, hinted } = openLinks();
    links.follow(peer.address, uuidOf(1));
    links.follow(peer.address, uuidOf(2));
    await expect.poll(() => [...hints.keys()]).toEqual([uuidOf(1), uuidOf(2)]);
    hints.get(uuidOf(2))!();
    hints.get(uuidOf(2))!();
    await expect.poll(() => hinted).toEqual([uuidOf(2)]);
    links.follow(peer.address, uuidOf(2));
    // Thirty seconds of the receiver's time.
    await expect.poll(() => hints.size, { timeout: 5_000 }).toBe(0);
    expect(asked).toBe(2);
  });

  test("a follower that comes back follows again, without a call", async () => {
    const hints = new Map<string, () => void>();
    const host = {
      followed: (uuid: string, hint: () => void) => (hints.set(uuid, hint), () => void hints.delete(uuid)),
    };
    const first = await openPeer(() => answered(1), { host });
    const { links, hinted } = openLinks({ world: hastyWorld(5) });
    links.follow(first.address, uuidOf(1));
    await expect.poll(() => hints.size).toBe(1);
    first.doors.drain();
    await first.listener.close();
    await expect.poll(() => hints.size).toBe(0);
    await openPeer(() => answered(1), { host, listener: { port: first.port } });
    await expect.poll(() => hints.size, { timeout: 5_000 }).toBe(1);
    hints.get(uuidOf(1))!();
    await expect.poll(() => hinted).toEqual([uuidOf(1)]);
  });
});

describe("orders", () => {
  test("the other node is told to look for them now, though nothing else is asked of it", async () => {
    // The link is none that was lost.
    let nudges = 0;
    const peer = await openPeer(() => answered(1), { host: { nudged: () => void nudges++ } });
    const { links, log } = openLinks({ world: hastyWorld(10) });
    links.nudge(peer.address);
    links.nudge(peer.address);
    await expect.poll(() => nudges).toBe(1);
    links.nudge(peer.address);
    await expect.poll(() => nudges).toBe(2);
    // Longer than a node may be silent of whom something is expected.
    await pause((2 * limits.peerSilenceMs) / 10);
    expect(log.said).toEqual([]);
    await peer.listener.close();
    links.nudge("http://127.0.0.1:1");
    await pause(20);
  });
});

describe("the end", () => {
  test("a node that leaves answers what is under way, takes nothing more, and no write's fate is unknown", async () => {
    const random = seeded(13);
    const peer = await openPeer(
      async () => {
        await pause(random() * 40);
        return answered(1);
      },
      { listener: { times: { drainMs: 20_000 } } },
    );
    const { links } = openLinks();
    const fates = new Map<unknown, number>();
    let isOver = false;
    const writers = Array.from({ length: 40 }, async () => {
      while (!isOver) {
        const fate = await describeOutcome(links.forward(peer.address, buildCall()));
        fates.set(fate, (fates.get(fate) ?? 0) + 1);
        if (fate !== "ok") await pause(5);
      }
    });
    await pause(300);
    const begun = performance.now();
    peer.doors.drain();
    await peer.listener.close();
    // Its listener would cut what is left after twenty seconds.
    expect(performance.now() - begun).toBeLessThan(10_000);
    isOver = true;
    await Promise.all(writers);
    expect(fates.get("ok")).toBeGreaterThan(40);
    expect(fates.get("Unreachable")).toBeGreaterThan(0);
    expect(
      [...fates.keys()].filter((fate) => fate !== "ok" && fate !== "Unreachable" && fate !== "TurnedAway"),
    ).toEqual([]);
  });

  test("a link that nobody uses is closed after a minute, and opened again for the next call", async () => {
    let [streams, ended] = [0, 0];
    const address = await openScripted(async function* (requests) {
      streams++;
      for await (const message of requests)
        yield message.protocol
          ? welcome()
          : create(ExchangeResponseSchema, {
              answers: message.calls.map(({ id }) => encodeAnswer(id, answered(1), codec)),
            });
      ended++;
    });
    const { links, log } = openLinks({ world: hastyWorld(100) });
    await links.forward(address, buildCall());
    await expect.poll(() => ended, { timeout: 60_000 }).toBe(1);
    await links.forward(address, buildCall());
    expect(streams).toBe(2);
    expect(log.said).toEqual([]);
  });

  test("a stream lives longer than a request may take to come", async () => {
    const peer = await openPeer(async ({ minTxid }) => (await pause(minTxid), answered(1)), {
      listener: { times: { requestReceiveMs: 100, headersTimeoutMs: 100 } },
    });
    const { links, log } = openLinks();
    expect((await links.forward(peer.address, buildCall({ minTxid: 400 }))).value).toBe(1);
    expect(log.said).toEqual([]);
  });

  test("links that are closed refuse what is under way and what comes", async () => {
    const peer = await openPeer(({ minTxid }) => (minTxid === 0 ? new Promise<Answer>(() => {}) : answered(1)));
    const links = new PeerLinks({ clusterKey, world: realWorld(), log: openLinks().log, hinted() {} });
    await links.forward(peer.address, buildCall({ minTxid: 1 }));
    const write = links.forward(peer.address, buildCall());
    const read = links.forward(peer.address, buildCall({ call: readCall }));
    await expect.poll(() => peer.served.length).toBe(3);
    await links.close();
    await expect(write).rejects.toMatchObject({ code: "unavailable", message: expect.stringContaining("not known") });
    await expect(read).rejects.toThrow(Unreachable);
    await expect(links.forward(peer.address, buildCall())).rejects.toThrow(Unreachable);
    links.follow(peer.address, uuidOf(1));
  });
});

test("under TLS with a certificate of an authority that the system knows, and not with another", async () => {
  const tls = selfSigned();
  const peer = await openPeer(() => answered(1), { listener: { tls } });
  const address = peer.address.replace("http:", "https:");
  const call: ForwardedCall = buildCall();
  await expect(openLinks().links.forward(address, call)).rejects.toThrow(Unreachable);
  expect(peer.served).toEqual([]);
  const known = getCACertificates("default");
  onTestFinished(() => setDefaultCACertificates(known));
  setDefaultCACertificates([...known, tls.cert.toString()]);
  expect((await openLinks().links.forward(address, call)).value).toBe(1);
});
