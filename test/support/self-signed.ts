/** A certificate that nobody vouches for, of this machine's own address and name. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { TlsFiles } from "../../src/server/wire/listener.ts";
import { temporaryDirectory } from "./temporary.ts";

/** The certificate and its key as files, which go with the test. */
export function selfSignedPaths(): { readonly cert: string; readonly key: string } {
  const directory = temporaryDirectory();
  const [cert, key] = [join(directory, "cert.pem"), join(directory, "key.pem")];
  const algorithm = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  const subject = ["-subj", "/CN=palimpsest", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"];
  execFileSync("openssl", ["req", "-x509", ...algorithm, ...subject, "-keyout", key, "-out", cert], {
    stdio: "ignore",
  });
  return { cert, key };
}

/** The certificate and its key as a listener takes them. */
export function selfSigned(): TlsFiles {
  const { cert, key } = selfSignedPaths();
  return { cert: readFileSync(cert), key: readFileSync(key) };
}
