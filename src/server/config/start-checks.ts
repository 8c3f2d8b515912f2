/**
 * Why a node with this configuration must not start, and what its operator should be told when it does.
 *
 * Functions of a Config whose single values are already valid: these check the combinations, and whether an optional
 * package is there that it asks for.
 */
import { findLocalModel } from "../../ai/local-model.ts";
import { parseHost, isSelfHosted } from "../../egress/hosts.ts";
import type { Config } from "./config.ts";

/** A shorter platform key is warned of: 16 random characters of base64 are 96 bits. */
const platformKeyCharsWise = 16;

/**
 * Every reason not to start (spec: Authentication, rules 2, 3 and 7), each with its remedy; empty when there is none.
 */
export function startRefusals(config: Config): readonly string[] {
  const refusals: string[] = [];
  if (config.auth === "on" && config.platformKey === undefined) {
    refusals.push("SERVICE_AUTH=on needs SERVICE_PLATFORM_KEY: the platform key is never generated");
  }
  if (config.platformKey !== undefined && config.platformKey === config.clusterKey) {
    refusals.push("SERVICE_CLUSTER_KEY must differ from SERVICE_PLATFORM_KEY");
  }
  if (config.coordination === undefined && !config.singleNode && looksMultiNode(config)) {
    const followsListen = new URL(config.advertise).hostname === config.listen.host;
    const open = followsListen
      ? "SERVICE_LISTEN is not a loopback address (and SERVICE_ADVERTISE, which is not set, follows it)"
      : "SERVICE_ADVERTISE is not a loopback address";
    const why = config.auth === "on" ? "SERVICE_AUTH is on" : open;
    refusals.push(
      `${why}, so there may be other nodes: set SERVICE_COORD, or SERVICE_SINGLE_NODE=1 when this is the only one`,
    );
  }
  if ((config.tlsCertificatePath === undefined) !== (config.tlsKeyPath === undefined)) {
    refusals.push("SERVICE_TLS_CERT and SERVICE_TLS_KEY must be set together");
  }
  if (config.adminListen?.port === config.listen.port && config.listen.port !== 0) {
    refusals.push("SERVICE_ADMIN_LISTEN must have another port than SERVICE_LISTEN");
  }
  if (
    config.objectStore.kind === "s3" &&
    !config.objectStore.plainHttp &&
    config.objectStore.endpoint?.startsWith("http:")
  ) {
    refusals.push(
      "the S3 endpoint is plain HTTP, which shows every object on the wire: use https, or set AWS_ALLOW_HTTP=true",
    );
  }
  if (config.embedProvider === "local") {
    const model = findLocalModel();
    if ("missing" in model) refusals.push(`SERVICE_EMBED_PROVIDER=local needs ${model.missing}`);
  }
  return refusals;
}

/** What an operator should know about a node that does start. */
export function startWarnings(config: Config): readonly string[] {
  const warnings: string[] = [];
  if (config.platformKey !== undefined && config.platformKey.length < platformKeyCharsWise) {
    warnings.push(
      `SERVICE_PLATFORM_KEY has fewer than ${platformKeyCharsWise} characters: whoever guesses it may ` +
        "mint every token; take one of openssl rand -base64 32",
    );
  }
  if (config.auth === "off") {
    const reach = isLoopback(config.listen.host) ? "" : ", and the listen address is open to the network";
    warnings.push(`SERVICE_AUTH is off: every call is allowed without a credential (development only)${reach}`);
  }
  if (config.auth === "on" && config.tlsCertificatePath === undefined && !isLoopback(config.listen.host)) {
    warnings.push(
      "credentials reach this node in the clear unless something in front of it ends TLS: set " +
        "SERVICE_TLS_CERT and SERVICE_TLS_KEY",
    );
  }
  if (config.objectStore.kind === "memory")
    warnings.push("SERVICE_OBJECT_STORE=mem:// forgets everything when the node stops (tests only)");
  if (config.acceptRollback !== undefined)
    warnings.push(
      "SERVICE_ACCEPT_ROLLBACK is set: an older state of object storage is believed, and what is newer on " +
        "this node is set aside; unset it once the databases are open again",
    );
  return [...warnings, ...clusterWarnings(config), ...modelWarnings(config)];
}

/** What must be wrong when the nodes are on several machines. They may be on one. */
function clusterWarnings(config: Config): readonly string[] {
  if (config.coordination === undefined) return [];
  const warnings: string[] = [];
  const { protocol, hostname } = new URL(config.advertise);
  if (isLoopback(hostname))
    warnings.push("SERVICE_ADVERTISE is a loopback address: nodes on other machines cannot reach this one");
  if (protocol === "http:" && config.tlsCertificatePath !== undefined)
    warnings.push("SERVICE_ADVERTISE is an http address, but this node speaks TLS: other nodes cannot reach it");
  if (config.objectStore.kind === "file")
    warnings.push(
      "SERVICE_OBJECT_STORE is a directory: every node must see the very same one, which cannot be checked",
    );
  if (config.objectStore.kind === "memory")
    warnings.push("SERVICE_OBJECT_STORE=mem:// is not shared: what one node writes, no other one finds");
  if (config.signingKey === undefined && !config.persistSigningKey) {
    const derived = config.clusterKey === undefined ? ", and the key of the calls between them is derived from it" : "";
    warnings.push(
      `nodes with different signing keys reject each other's tokens${derived}: set SERVICE_AUTH_KEY, or ` +
        "SERVICE_PERSIST_AUTH_KEY=1",
    );
  }
  return warnings;
}

/** Addresses of models that are of no use, or that show what is sent to them. */
function modelWarnings(config: Config): readonly string[] {
  const unused: readonly (readonly [variable: string, value: string | undefined])[] = [
    ["SERVICE_EMBED_API_KEY", config.embedKey],
    ["SERVICE_EMBED_MODEL", config.embedModel],
    ["SERVICE_EMBED_BASE_URL", config.embedBaseAddress],
  ];
  const isLocal = config.embedProvider === "local";
  const models: readonly (readonly [name: string, key: string | undefined, baseAddress: string | undefined])[] = [
    ...(isLocal ? [] : [["EMBED", config.embedKey, config.embedBaseAddress] as const]),
    ["ASSISTANT", config.assistantKey, config.assistantBaseAddress],
    ["EXTRACT", config.extractKey, config.extractBaseAddress],
  ];
  const withoutEffect = unused.flatMap(([variable, value]) =>
    isLocal && value !== undefined ? [`${variable} has no effect with SERVICE_EMBED_PROVIDER=local`] : [],
  );
  const addresses = models.flatMap(([name, key, baseAddress]) => {
    if (baseAddress === undefined) return [];
    if (key === undefined)
      return [
        `SERVICE_${name}_BASE_URL has no effect without SERVICE_${name}_API_KEY; a server that asks for no key ` +
          "takes any",
      ];
    if (!baseAddress.startsWith("http:") || isSelfHosted(parseHost(baseAddress), config.embedSelfHostedHosts ?? []))
      return [];
    return [
      `SERVICE_${name}_BASE_URL is plain HTTP to a host that is not known to be your own: texts and the key ` +
        "reach it in the clear",
    ];
  });
  return [...withoutEffect, ...addresses];
}

function looksMultiNode(config: Config): boolean {
  return config.auth === "on" || !isLoopback(new URL(config.advertise).hostname);
}

/** Whether a host names this machine itself: 127.0.0.0/8, ::1, localhost. Brackets around IPv6 do not count. */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, "").toLowerCase();
  return bare === "localhost" || bare.endsWith(".localhost") || bare === "::1" || /^127(\.\d{1,3}){3}$/.test(bare);
}
