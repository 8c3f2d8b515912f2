/** The link that tests break: what comes through, what does not, and what comes later. */
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { LinkProxy } from "../../support/link-proxy.ts";

/** A server that sends back what it gets, behind a link. */
async function echo(): Promise<LinkProxy> {
  const server = createServer((socket) => void socket.on("error", () => socket.destroy()).pipe(socket));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const link = await LinkProxy.open((server.address() as AddressInfo).port);
  onTestFinished(async () => {
    await link.close();
    await new Promise((resolve) => server.close(resolve));
  });
  return link;
}

class Talk {
  readonly socket: Socket;
  heard = "";
  error: string | undefined;

  constructor(link: LinkProxy) {
    this.socket = connect(link.port, "127.0.0.1");
    this.socket
      .on("error", (error: NodeJS.ErrnoException) => (this.error = error.code))
      .on("data", (chunk) => (this.heard += chunk.toString()));
    onTestFinished(() => void this.socket.destroy());
  }

  async hears(text: string): Promise<void> {
    await expect.poll(() => this.heard).toBe(text);
  }
}

describe("a link", () => {
  test("carries everything in both ways, and counts it", async () => {
    const link = await echo();
    const talk = new Talk(link);
    const text = "x".repeat(3_000_000);
    talk.socket.end(text);
    await talk.hears(text);
    expect(link.passed).toEqual({ requests: text.length, answers: text.length });
    await expect.poll(() => talk.socket.closed).toBe(true);
    expect(talk.error).toBeUndefined();
  });

  test("cut, it resets what is on it and what comes, until it is restored", async () => {
    const link = await echo();
    const old = new Talk(link);
    old.socket.write("a");
    await old.hears("a");
    link.cut();
    await expect.poll(() => old.error).toBe("ECONNRESET");
    const barred = new Talk(link);
    await expect.poll(() => barred.error).toBe("ECONNRESET");
    expect(link.isSound).toBe(false);
    link.restore();
    const fresh = new Talk(link);
    fresh.socket.write("b");
    await fresh.hears("b");
  });

  test("silent, it holds what is sent, of new connections too, and delivers it when it is restored", async () => {
    const link = await echo();
    const old = new Talk(link);
    old.socket.write("a");
    await old.hears("a");
    link.silence();
    const fresh = new Talk(link);
    old.socket.write("b");
    fresh.socket.write("c");
    await pause(100);
    expect([old.heard, fresh.heard, old.error, fresh.error]).toEqual(["a", "", undefined, undefined]);
    link.restore();
    await old.hears("ab");
    await fresh.hears("c");
  });

  test.each([
    ["requests", 0],
    ["answers", 1],
  ] as const)("silent for %s only", async (flow, arrived) => {
    const link = await echo();
    link.silence(flow);
    const talk = new Talk(link);
    talk.socket.write("a");
    await pause(100);
    expect(talk.heard).toBe("");
    expect(link.passed.requests).toBe(arrived);
    link.restore();
    await talk.hears("a");
  });

  test("slow, everything comes later and in its order, also when it is fast again", async () => {
    const link = await echo();
    const talk = new Talk(link);
    talk.socket.write("a");
    await talk.hears("a");
    link.delay(150);
    const startedMs = performance.now();
    talk.socket.write("b");
    await pause(20);
    link.delay(0);
    talk.socket.write("c");
    await talk.hears("abc");
    expect(performance.now() - startedMs).toBeGreaterThan(140);
  });

  test("ever faster, nothing overtakes what was sent before", async () => {
    const link = await echo();
    const talk = new Talk(link);
    talk.socket.setNoDelay(true);
    const letters = Array.from({ length: 300 }, (_, index) => String.fromCharCode(0x4e00 + index));
    for (const [index, letter] of letters.entries()) {
      link.delay((index % 3) * 7.3);
      talk.socket.write(letter);
      await pause(1);
    }
    await talk.hears(letters.join(""));
  });
});
