/**
 * Receives webhooks with nothing but Node: node examples/receive-webhook.ts http://127.0.0.1:8080 9000
 *
 * The first argument is a node, of which the public keys are asked once; the second the port to listen on. What is signed
 * and new is printed, a line an event. What is signed, and what that means, stands in docs/webhooks.md.
 */
import { createPublicKey, verify } from "node:crypto";
import { createServer } from "node:http";

const [node = "", port = ""] = process.argv.slice(2);
const { keys } = (await (await fetch(`${node}/.well-known/jwks.json`)).json()) as { keys: any[] };
const seen = new Set<string>();

createServer(async (request, response) => {
  const { headersDistinct } = request;
  const [id, time, signatures] = ["id", "timestamp", "signature"].map(
    (name) => headersDistinct[`webhook-${name}`]?.[0] ?? "",
  );
  const body = Buffer.concat(await request.toArray()).toString();
  const isSigned = signatures!.split(" ").some((one) => {
    const signature = Buffer.from(one.replace(/^v1a,/, ""), "base64");
    const content = Buffer.from(`${id}.${time}.${body}`);
    return keys.some((key) => verify(null, content, createPublicKey({ key, format: "jwk" }), signature));
  });
  const isFresh = Math.abs(Date.now() / 1_000 - Number(time)) < 300;
  if (!isSigned || !isFresh) return response.writeHead(401).end();
  if (!seen.has(id!)) console.log(body);
  seen.add(id!);
  response.writeHead(204).end();
}).listen(Number(port), () => console.log("ready"));
