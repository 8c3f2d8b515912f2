/** A plain connection to a listener, and a certificate that signs itself. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import * as net from "node:net";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { TlsFiles } from "../../src/server/wire/listener.ts";
import { temporaryDirectory } from "./temporary.ts";

export function dial(port: number): net.Socket {
  const socket = net.connect(port, "127.0.0.1");
  socket.on("error", () => {});
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** A certificate that nobody vouches for. */
export function selfSigned(): TlsFiles {
  const directory = temporaryDirectory();
  const [cert, key] = [join(directory, "cert.pem"), join(directory, "key.pem")];
  execFileSync(
    "openssl",
    [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:prime256v1",
      "-nodes",
      "-days",
      "1",
      "-subj",
      "/CN=localhost",
      "-keyout",
      key,
      "-out",
      cert,
    ],
    { stdio: "ignore" },
  );
  return { cert: readFileSync(cert), key: readFileSync(key) };
}
