/** Which hosts count as self-hosted, by their text alone. */
import { expect, test } from "vitest";
import { parseHost, isSelfHosted } from "../../../src/egress/hosts.ts";

const own = [
  "http://127.0.0.1:11434",
  "http://127.8.9.10",
  "http://[::1]:80",
  "http://10.1.2.3",
  "http://172.16.0.1",
  "http://172.31.255.255",
  "http://192.168.1.1",
  "http://169.254.10.1",
  "http://[fe80::1]",
  "http://[fd00::1]",
  "http://[fc00::1]",
  "http://[::ffff:10.0.0.1]",
  "http://[::ffff:127.0.0.1]",
  // One address has one form in a URL, however it is written.
  "http://0x7f000001",
  "http://2130706433",
  "http://127.1",
  "http://0177.0.0.1",
  "http://localhost:8080",
  "http://LOCALHOST",
  "http://localhost.",
  "http://embedder",
  "http://tei.models.svc",
  "http://tei.models.svc.cluster.local",
  "http://gpu.internal",
  "http://gpu.internal.",
];
const foreign = [
  "https://api.openai.com",
  "https://api.voyageai.com",
  "http://8.8.8.8",
  "http://11.0.0.1",
  "http://172.15.255.255",
  "http://172.32.0.1",
  "http://192.169.0.1",
  "http://100.64.0.1",
  "http://0.0.0.0",
  "http://[2001:db8::1]",
  "http://[::ffff:8.8.8.8]",
  "http://[::]",
  "http://[fec0::1]",
  "http://127.0.0.1.example.com",
  "http://localhost.example.com",
  "http://10.0.0.1.nip.io",
  "http://svc.example.com",
  "http://internal.example.com",
  "http://evil-internal.com",
  "http://notinternal.org",
];

test.each(own)("%s is self-hosted", (address) => {
  expect(isSelfHosted(parseHost(address), [])).toBe(true);
});

test.each(foreign)("%s is not self-hosted", (address) => {
  expect(isSelfHosted(parseHost(address), [])).toBe(false);
});

test("a listed host is self-hosted whatever its case, and no other host for its sake", () => {
  const listed = ["Models.Example.com", "2001:db8::1"];
  for (const address of ["https://models.example.com", "https://MODELS.example.com.", "http://[2001:db8::1]:9"])
    expect(isSelfHosted(parseHost(address), listed), address).toBe(true);
  for (const address of ["https://example.com", "https://a.models.example.com", "https://models.example.com.evil.org"])
    expect(isSelfHosted(parseHost(address), listed), address).toBe(false);
});
