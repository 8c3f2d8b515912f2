/**
 * A proxy before an HTTP server that does to each request what networks and gateways do: it cuts the connection before
 * or after the server has acted, delays, sends a request twice, delivers it long after its sender has given up, ends an
 * answer in the middle, or answers in the server's place.
 */
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";

const fates = [
  "cut before",
  "cut after",
  "delayed",
  "repeated",
  "answered by the repeat",
  "late",
  "truncated",
  "refused",
] as const;
/** What happens to a request; `fine` is what happens to the others. */
export type Fate = (typeof fates)[number];

interface Heard {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly body: Buffer;
}

const delayMsMax = 200;
const lateMsMax = 1_500;

export class HttpMangler {
  readonly #server: Server;
  readonly #targetPort: number;
  readonly #random: () => number;
  /** Chance that something happens to a request. */
  chance = 0;
  /** How often each fate has come. */
  readonly counts: Partial<Record<Fate, number>> = {};
  #underWay = 0;

  private constructor(targetPort: number, random: () => number) {
    this.#targetPort = targetPort;
    this.#random = random;
    this.#server = createServer((asked, answer) => void this.#serve(asked, answer));
  }

  static async open(targetPort: number, random: () => number): Promise<HttpMangler> {
    const mangler = new HttpMangler(targetPort, random);
    await new Promise<void>((resolve, reject) => {
      mangler.#server.once("error", reject);
      mangler.#server.listen(0, "127.0.0.1", () => resolve());
    });
    return mangler;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Resolves when nothing is to be delivered any more. */
  async quiet(): Promise<void> {
    while (this.#underWay > 0) await pause(10);
  }

  async close(): Promise<void> {
    await this.quiet();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    this.#underWay++;
    try {
      const body = await readBody(asked);
      const fate = this.#random() < this.chance ? fates[Math.floor(this.#random() * fates.length)]! : undefined;
      if (fate) this.counts[fate] = (this.counts[fate] ?? 0) + 1;
      await this.#meet(fate, asked, body, answer);
    } catch {
      // The client, or the server, has cut the connection itself.
      answer.destroy();
    } finally {
      this.#underWay--;
    }
  }

  async #meet(fate: Fate | undefined, asked: IncomingMessage, body: Buffer, answer: ServerResponse): Promise<void> {
    switch (fate) {
      case "cut before":
        return void answer.destroy();
      case "cut after":
        await this.#forward(asked, body);
        return void answer.destroy();
      case "late":
        answer.destroy();
        await pause(this.#random() * lateMsMax);
        return void (await this.#forward(asked, body));
      case "refused":
        answer.writeHead(503, { "content-type": "application/xml" });
        return void answer.end("<Error><Code>SlowDown</Code><Message>simulated</Message></Error>");
      case "repeated": {
        const heard = await this.#forward(asked, body);
        await this.#forward(asked, body);
        return send(answer, heard);
      }
      case "answered by the repeat":
        await this.#forward(asked, body);
        return send(answer, await this.#forward(asked, body));
      case "delayed":
        await pause(this.#random() * delayMsMax);
    }
    const heard = await this.#forward(asked, body);
    if (fate !== "truncated" || heard.body.length === 0) return send(answer, heard);
    answer.writeHead(heard.status, heard.headers);
    answer.write(heard.body.subarray(0, Math.floor(this.#random() * heard.body.length)), () => answer.destroy());
  }

  #forward({ method, url, rawHeaders }: IncomingMessage, body: Buffer): Promise<Heard> {
    return new Promise((resolve, reject) => {
      // Headers as they came, the host among them: they are signed.
      const passed = request(
        {
          host: "127.0.0.1",
          port: this.#targetPort,
          method,
          path: url,
          headers: rawHeaders,
          setHost: false,
          agent: false,
        },
        (heard) => {
          readBody(heard).then(
            (bytes) => resolve({ status: heard.statusCode!, headers: heard.headers, body: bytes }),
            reject,
          );
        },
      );
      passed.on("error", reject);
      passed.end(body);
    });
  }
}

function send(answer: ServerResponse, { status, headers, body }: Heard): void {
  answer.writeHead(status, headers);
  answer.end(body);
}

async function readBody(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
