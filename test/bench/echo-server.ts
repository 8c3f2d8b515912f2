/** The floor of every HTTP figure: bare node:http that parses a JSON body and sends it back. Prints its port. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const body = Buffer.from(JSON.stringify(JSON.parse(Buffer.concat(chunks).toString() || "{}")));
    response.writeHead(200, { "content-type": "application/json", "content-length": body.length });
    response.end(body);
  });
});
server.listen(0, "127.0.0.1", () => console.log((server.address() as AddressInfo).port));
process.on("SIGTERM", () => process.exit(0));
