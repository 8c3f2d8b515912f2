/**
 * Which addresses the public internet routes to somebody else: those that a URL of a tenant may lead to.
 *
 * Always true: of IPv6 only global unicast is public, and of that nothing that embeds an IPv4 address or is set aside
 * for documentation or tests; of IPv4 nothing that any registry reserves. What is no address is not public. Must not
 * know: names, settings.
 */
import { BlockList, isIP } from "node:net";

/** Of IPv4, all that the registry of special-purpose addresses (RFC 6890) lists, multicast, and what is reserved. */
const reservedAddresses = new BlockList();
for (const [network, bits] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.31.196.0", 24],
  ["192.52.193.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["192.175.48.0", 24],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
] as const)
  reservedAddresses.addSubnet(network, bits, "ipv4");

/** Of the addresses below: those of protocols (Teredo among them), of documentation, and of 6to4. */
for (const [network, bits] of [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["2620:4f:8000::", 48],
  ["3fff::", 20],
] as const)
  reservedAddresses.addSubnet(network, bits, "ipv6");

/** Global unicast; no form of an IPv4 address lies in it. */
const globalAddresses = new BlockList();
globalAddresses.addSubnet("2000::", 3, "ipv6");

/** Whether the text is an address of the public internet, as a URL or a name server writes it, without brackets. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !reservedAddresses.check(address, "ipv4");
  // With a zone it is an address of a link, which isIP takes and a list does not know.
  if (family !== 6 || address.includes("%")) return false;
  return globalAddresses.check(address, "ipv6") && !reservedAddresses.check(address, "ipv6");
}
