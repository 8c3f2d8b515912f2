/**
 * The wires of a node: its doors, what is behind them beside calls, and its ports.
 *
 * Always true: a port is opened when everything behind it is ready. Callers of the node's port are let in by their
 * credentials where authentication is on; the operators' own port asks for none at the pages of operators.
 */
import { readFileSync } from "node:fs";
import type { AuditLog } from "../../control/audit/audit-log.ts";
import type { Embedding } from "../../service/embedding/embedding.ts";
import type { WebhookDeliveries } from "../../service/webhooks/webhook-deliveries.ts";
import type { Dispatch } from "../../service/call/call.ts";
import { allEndpoints } from "../../service/call/methods.ts";
import { operatorsOnly, type Authentication } from "./authentication.ts";
import { BodyRoom } from "../wire/body.ts";
import type { Config } from "../config/config.ts";
import { createDoors, type Doors, type DoorsOptions } from "./request-handler.ts";
import type { Instruments } from "../observability/instruments.ts";
import { createListener, type TlsFiles } from "../wire/listener.ts";
import { connectionsAllowed, descriptorsMax } from "../config/machine-capacity.ts";
import type { NodeBase } from "./node-base.ts";
import { NodeReadiness } from "../observability/node-readiness.ts";
import type { NodeEngine } from "./open-engine.ts";
import { llmsPage } from "../rest/llms-page.ts";
import { openapiDocument } from "../rest/openapi.ts";
import type { Page } from "../rest/rest.ts";
import type { Endpoint } from "../config/setting-kinds.ts";
import { StoreHealth } from "../observability/store-health.ts";

/** What the wires lead to, and what they tell of. */
export interface WiresParts {
  readonly dispatch: Dispatch;
  /** Undefined on a node without an embedder. */
  readonly embedding: Embedding | undefined;
  readonly webhooks: WebhookDeliveries;
  readonly engine: NodeEngine;
  readonly audit: AuditLog;
  readonly authentication: Authentication;
  readonly instruments: Instruments;
  /** Standard writes that cannot be shipped are taken for this long. */
  readonly unshippedMsMax: number;
}

/** Open ports. */
export interface Wires {
  /** `http://host:port` as it is listening. */
  readonly address: string;
  /** The same of the operators' own port, where there is one. */
  readonly adminAddress: string | undefined;
  /** What the node says of itself. */
  readonly readiness: NodeReadiness;
  /** Tells the world that this node is leaving; what runs is answered. */
  drain(): void;
}

/** Makes the doors and opens the ports; the stack closes them. */
export async function openWires(base: NodeBase, parts: WiresParts): Promise<Wires> {
  const { config, world, store, clock } = base;
  const { local, cluster, hasSql } = parts.engine;
  const storeHealth = new StoreHealth({
    store,
    world,
    durability: config.durability,
    unshippedMsMax: parts.unshippedMsMax,
  });
  const readiness = new NodeReadiness({ storeHealth, hasSql, clock, engine: local, leases: cluster?.placement });
  const options = doorsOptions(base, parts, readiness, storeHealth);
  const admitOperator = config.auth === "on" ? operatorsOnly(parts.authentication.credentials) : undefined;
  const doors = createDoors({ ...options, admitOperator, nodeDoor: cluster?.door });
  const address = await listen(base, config.listen, doors);
  const operatorDoors = config.adminListen && createDoors(options);
  const adminAddress = operatorDoors && (await listen(base, config.adminListen!, operatorDoors));
  const drain = (): void => {
    readiness.draining = true;
    doors.drain();
    operatorDoors?.drain();
  };
  return { address, adminAddress, readiness, drain };
}

/** What the doors of all ports have in common. */
function doorsOptions(
  { config, world, log, store }: NodeBase,
  { dispatch, embedding, webhooks, engine, audit, authentication, instruments }: WiresParts,
  readiness: NodeReadiness,
  storeHealth: StoreHealth,
): DoorsOptions {
  const metrics = instruments.page({
    engine: engine.local,
    store,
    audit,
    leases: engine.cluster?.placement,
    time: world.time,
    embedding,
    webhooks,
  });
  return {
    dispatch,
    isReady: () => readiness.now,
    look: () => storeHealth.look(),
    world,
    log,
    dataBodyBytesMax: config.dataBodyBytesMax,
    databaseHostSuffix: config.databaseHostSuffix,
    ...openTo(config),
    pages: new Map([
      ["/.well-known/jwks.json", authentication.keySetPage],
      ["/llms.txt", llmsPage()],
    ]),
    operatorPages: new Map([
      ["/openapi.json", openapiPage()],
      ["/metrics", metrics],
    ]),
    requestMetrics: instruments.requestMetrics,
    ...(config.auth === "on" && askingCallers(authentication)),
  };
}

/** The callers that are asked for a credential, and asked again when one was revoked. */
function askingCallers({ credentials, revocations }: Authentication): Pick<DoorsOptions, "identify" | "isRevoked"> {
  return {
    identify: (credential) => credentials.known(credential) ?? credentials.identify(credential),
    isRevoked: (identity) => !revocations.isFresh || revocations.has(identity),
  };
}

/** By which names and from which pages the node is called, and the room for what is sent to it, on all its ports. */
function openTo({
  advertise,
  listen: { host },
  adminListen,
  allowedOrigins = [],
  oauthIssuer: issuer,
}: Config): Pick<DoorsOptions, "hostNames" | "allowedOrigins" | "issuer" | "room"> {
  // The address that the node was told to advertise is no foreign name.
  return {
    hostNames: [new URL(advertise).hostname, host, ...(adminListen ? [adminListen.host] : [])],
    allowedOrigins,
    issuer,
    room: new BodyRoom(),
  };
}

/** The document never changes while the node runs, so it is written once: when it is first asked for. */
function openapiPage(): Page {
  let body: string | undefined;
  return {
    answer: () => ({
      status: 200,
      contentType: "application/json",
      body: (body ??= JSON.stringify(openapiDocument(allEndpoints))),
    }),
  };
}

/** Opens one port; the stack closes it. Gives its address as it is listening. */
async function listen({ config, world, log, stack }: NodeBase, endpoint: Endpoint, onRequest: Doors): Promise<string> {
  const tls = readTlsFiles(config);
  const listener = createListener({
    ...endpoint,
    tls,
    onRequest,
    world,
    log,
    room: connectionsAllowed(descriptorsMax()),
  });
  stack.defer(() => listener.close());
  const { address, port, family } = await listener.listen();
  return `${tls ? "https" : "http"}://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}

function readTlsFiles(config: Config): TlsFiles | undefined {
  const { tlsCertificatePath, tlsKeyPath } = config;
  if (tlsCertificatePath === undefined || tlsKeyPath === undefined) return undefined;
  return { cert: readFileSync(tlsCertificatePath), key: readFileSync(tlsKeyPath) };
}
