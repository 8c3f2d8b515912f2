/** Which addresses are public: every form of those that are not is refused. */
import { expect, test } from "vitest";
import { isPublicAddress } from "../../../src/egress/public-addresses.ts";
import { findUrlFault } from "../../../src/egress/guarded-post.ts";

const forbidden = [
  "0.0.0.0",
  "0.1.2.3",
  "10.0.0.1",
  "10.255.255.255",
  "100.64.0.1",
  "100.127.255.255",
  "127.0.0.1",
  "127.255.255.255",
  "169.254.169.254",
  "172.16.0.1",
  "172.31.255.255",
  "192.0.0.1",
  "192.0.2.1",
  "192.88.99.1",
  "192.168.0.1",
  "198.18.0.1",
  "198.19.255.255",
  "198.51.100.1",
  "203.0.113.1",
  "224.0.0.1",
  "239.255.255.255",
  "240.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::127.0.0.1",
  "::ffff:127.0.0.1",
  "::ffff:7f00:1",
  "::ffff:8.8.8.8",
  "::ffff:0:127.0.0.1",
  "64:ff9b::7f00:1",
  "64:ff9b:1::1",
  "100::1",
  "2001::1",
  "2001:db8::1",
  "2002:7f00:1::",
  "3fff::1",
  "fc00::1",
  "fd12:3456::1",
  "fe80::1",
  "fe80::1%eth0",
  "fec0::1",
  "ff02::1",
  "5f00::1",
  "localhost",
  "",
  "1.2.3",
  "2130706433",
];
const open = [
  "1.1.1.1",
  "8.8.8.8",
  "9.255.255.255",
  "11.0.0.1",
  "100.63.255.255",
  "100.128.0.1",
  "172.15.255.255",
  "172.32.0.1",
  "192.167.255.255",
  "223.255.255.255",
  "2606:4700::1111",
  "2a00:1450:4001::1",
  "2001:4860:4860::8888",
];

test.each(forbidden)("%s is not public", (address) => {
  expect(isPublicAddress(address)).toBe(false);
});

test.each(open)("%s is public", (address) => {
  expect(isPublicAddress(address)).toBe(true);
});

test.each([
  "https://2130706433/",
  "https://0x7f000001/",
  "https://0x7f.1/",
  "https://0177.0.0.1/",
  "https://127.1/",
  "https://0/",
  "https://[::]/",
  "https://[::1]/",
  "https://[::ffff:127.0.0.1]/",
  "https://[::ffff:a9fe:a9fe]/",
  "https://[0:0:0:0:0:ffff:10.0.0.1]/",
  "https://[64:ff9b::10.0.0.1]/",
  "https://[fd00::1]:8443/x",
  "https://１２７.0.0.1/",
])("%s is an address that no tenant may name", (url) => {
  expect(findUrlFault(url, [])).toContain("not public");
  expect(findUrlFault(url, [new URL(url).hostname])).toBeUndefined();
});

test.each([
  ["http://example.org/", "plain HTTP"],
  ["https://a:b@example.org/", "user name"],
  ["https://a@example.org/", "user name"],
  ["https://example.org/#x", "fragment"],
  ["file:///etc/passwd", "https://"],
  ["javascript:alert(1)", "https://"],
  ["example.org", "https://"],
  ["", "https://"],
  [`https://example.org/${"é".repeat(1_100)}`, "2048 bytes"],
])("%s is refused", (url, says) => {
  expect(findUrlFault(url, [])).toContain(says);
});

test("what is listed may be plain HTTP and private; anything public needs https only", () => {
  expect(findUrlFault("http://hooks.internal:8080/x", ["hooks.internal"])).toBeUndefined();
  expect(findUrlFault("http://HOOKS.internal.:8080/x", ["hooks.internal"])).toBeUndefined();
  expect(findUrlFault("http://hooks.internal.example.org/x", ["hooks.internal"])).toContain("plain HTTP");
  expect(findUrlFault("https://example.org:8443/a?b=c", [])).toBeUndefined();
});
