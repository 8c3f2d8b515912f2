/**
 * What a node knows of credentials, put together at start: its signing key, tokens, public keys, and who may call.
 *
 * Always true: a node has a signing key and mints tokens whether authentication is on or off; a token is asked for only
 * when it is on.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import type { Log } from "../../base/log.ts";
import type { World } from "../../base/world.ts";
import { Credentials, derivedClusterKey } from "../../control/access/credentials.ts";
import { Fences } from "../../control/access/fences.ts";
import { KeySet } from "../../control/access/key-set.ts";
import { WebhookSignatures } from "../../control/access/webhook-signatures.ts";
import { Receipts } from "../../control/access/receipts.ts";
import { Revocations } from "../../control/access/revocations.ts";
import { loadSigningKey } from "../../control/access/signing-key.ts";
import { Tokens } from "../../control/access/tokens.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import type { Config } from "../config/config.ts";
import { keyFile } from "../config/key-file.ts";
import type { Page } from "../rest/rest.ts";

/** The parts that have to do with credentials. */
export interface Authentication {
  readonly tokens: Tokens;
  readonly revocations: Revocations;
  readonly credentials: Credentials;
  readonly receipts: Receipts;
  readonly signatures: WebhookSignatures;
  readonly fences: Fences;
  /** Of the calls between nodes; never the platform key. */
  readonly clusterKey: string;
  /** `/.well-known/jwks.json`: the public keys, for everyone. */
  readonly keySetPage: Page;
}

/** Loads or makes the signing key and builds what depends on it. Rejects with a message for the operator. */
export async function openAuthentication(
  config: Config,
  directory: string,
  store: ObjectStore,
  world: World,
  log: Log,
): Promise<Authentication> {
  const {
    key: signingKey,
    from,
    differsFromKept,
    retired,
  } = await loadSigningKey({
    given: config.signingKey,
    file: keyFile(directory),
    store,
    persist: config.persistSigningKey,
  });
  log.info("signing key", { kid: signingKey.kid, from, retired: retired.length });
  if (differsFromKept)
    log.warn(
      "the local signing key is not the one in object storage: nodes without a local one reject this node's tokens",
      { kid: signingKey.kid },
    );
  const clusterKey = config.clusterKey ?? derivedClusterKey(signingKey);
  if (clusterKey === config.platformKey)
    throw new Error("SERVICE_PLATFORM_KEY is the key that the cluster key is derived to: set another platform key");
  const keySet = new KeySet(store, world, signingKey.listed);
  // What was signed today must be checkable in years; a store that is down now gets the key at the next start.
  await keySet.publish().catch((error: unknown) => log.error("the public key was not added to the known keys", error));
  const tokens = new Tokens(signingKey, world, retired);
  const revocations = new Revocations({ store, world, log });
  if (config.auth === "on") await revocations.refresh();
  const keySetPage: Page = {
    answer: async () => ({
      status: 200,
      contentType: "application/json",
      body: JSON.stringify({ keys: await keySet.keys() }),
    }),
  };
  return {
    tokens,
    revocations,
    credentials: new Credentials({ tokens, signingKey, platformKey: config.platformKey, world, revocations }),
    receipts: new Receipts(signingKey),
    signatures: new WebhookSignatures(signingKey),
    fences: new Fences(signingKey),
    clusterKey,
    keySetPage,
  };
}

/** Lets the bearer of the platform key pass, and no one else. */
export function operatorsOnly(credentials: Credentials): (credential: string | undefined) => Promise<void> {
  return async (credential) => {
    const identity = await credentials.identify(credential);
    if (identity.kind !== "platform") throw new ServiceError("forbidden", "this needs the platform key");
  };
}
