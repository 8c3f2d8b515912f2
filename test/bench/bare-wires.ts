/**
 * The floor of a small unary call by each wire: a bare node:http that answers a few bytes, and a bare node:http2 that
 * answers them in a frame with the status in trailers. Prints both ports.
 */
import { createServer } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import type { AddressInfo } from "node:net";

const http = createServer((request, response) => {
  request.resume();
  request.on("end", () => {
    response.writeHead(200, { "content-type": "text/plain", "content-length": 5, "service-txid": "12" });
    response.end("value");
  });
});
const frame = Buffer.from("\0\0\0\0\x05value", "latin1");
const http2 = createHttp2Server();
http2.on("stream", (stream) => {
  stream.resume();
  stream.on("end", () => {
    stream.respond([":status", "200", "content-type", "application/grpc+proto", "service-txid", "12"], {
      waitForTrailers: true,
    });
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
    stream.end(frame);
  });
});
const portOf = (server: { address(): unknown }): number => (server.address() as AddressInfo).port;
http.listen(0, "127.0.0.1", () => http2.listen(0, "127.0.0.1", () => console.log(`${portOf(http)} ${portOf(http2)}`)));
process.on("SIGTERM", () => process.exit(0));
