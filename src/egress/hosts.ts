/**
 * Which hosts count as self-hosted: an address that no outside network routes, a name that only a private network
 * knows, or a name that the operator has listed.
 *
 * Always true: what a host is said to be depends on its text alone, never on what a name server answers, which may be
 * forged; what is not known to be private is not.
 */
import { BlockList, isIP } from "node:net";

/** Loopback, private, link-local and unique-local addresses. IPv6 forms of IPv4 addresses are judged as those. */
const privateAddresses = new BlockList();
for (const [network, bits] of [
  ["127.0.0.0", 8],
  ["10.0.0.0", 8],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
  ["169.254.0.0", 16],
] as const) {
  privateAddresses.addSubnet(network, bits, "ipv4");
}
privateAddresses.addAddress("::1", "ipv6");
for (const [network, bits] of [
  ["fc00::", 7],
  ["fe80::", 10],
] as const)
  privateAddresses.addSubnet(network, bits, "ipv6");

/** Names that a cluster or a private network gives out; no public name ends so. */
const privateEndings = [".localhost", ".svc", ".svc.cluster.local", ".internal"];

/** Without brackets, without the dot of an absolute name, in lower case. */
function bareHost(host: string): string {
  return host
    .replace(/^\[|\]$/g, "")
    .replace(/\.$/, "")
    .toLowerCase();
}

/** The host of an address as texts name it, without its port. */
export function parseHost(baseAddress: string): string {
  return new URL(baseAddress).hostname;
}

/** Whether the operator has listed the host, which is as a URL gives it. */
export function isListed(host: string, listed: readonly string[]): boolean {
  const bare = bareHost(host);
  return listed.some((entry) => bareHost(entry) === bare);
}

/**
 * Whether what is sent to the host stays with the operator. `host` is as a URL gives it, so that an address has one
 * form.
 */
export function isSelfHosted(host: string, listed: readonly string[]): boolean {
  if (isListed(host, listed)) return true;
  const bare = bareHost(host);
  const family = isIP(bare);
  if (family !== 0) return privateAddresses.check(bare, family === 4 ? "ipv4" : "ipv6");
  return bare !== "" && (!bare.includes(".") || privateEndings.some((ending) => bare.endsWith(ending)));
}
