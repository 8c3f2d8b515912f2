/**
 * The node's signing key: where it comes from, and its public half for checking signatures.
 *
 * Always true: a node has one, whether authentication is on or off; a key that is there and cannot be read stops the
 * start, because a new one in its place would silently void every token.
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import { calculateJwkThumbprint } from "jose";
import { limits } from "../../base/limits.ts";
import { encodeUtf8, decodeUtf8 } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { signingKeyKey } from "../../format/keys/object-keys.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { putUntilKnown } from "../../store/port/sure-put.ts";

/** Earlier signing keys whose tokens are still taken; of more, the newest. */
const retiredKeysMax = 16;

/** The public half of a key as the key set lists it (RFC 8037). */
export interface PublicKey {
  readonly kty: "OKP";
  readonly crv: "Ed25519";
  /** The key itself, base64url. */
  readonly x: string;
  /** Its RFC 7638 thumbprint, which tokens and receipts name it by. */
  readonly kid: string;
  readonly alg: "EdDSA";
  readonly use: "sig";
}

/** An Ed25519 key pair and its name. */
export interface SigningKey {
  readonly kid: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  readonly listed: PublicKey;
}

/** A key that signed before the one in use. */
export interface RetiredKey {
  readonly kid: string;
  readonly publicKey: KeyObject;
  /** Tokens that it has signed are taken until then: none is good for longer. */
  readonly untilMs: number;
}

/** Where a key can come from, in the order in which the places are asked. */
export interface KeySources {
  /** Base64 of PKCS#8, already known to be an Ed25519 key (`SERVICE_AUTH_KEY`). */
  readonly given: string | undefined;
  /** The local file, PEM text of PKCS#8. */
  readonly file: { read(): string | undefined; write(pem: string): Promise<void> };
  readonly store: ObjectStore;
  /** Whether object storage keeps a key (`SERVICE_PERSIST_AUTH_KEY`). */
  readonly persist: boolean;
}

/** A key and the place that it came from. */
export interface LoadedKey {
  readonly key: SigningKey;
  readonly from: "variable" | "file" | "object storage" | "generated";
  /**
   * Object storage keeps another key than the one in use: nodes that have none of their own reject this node's tokens.
   */
  readonly differsFromKept: boolean;
  /** Keys whose tokens are still taken, beside the key; those that follow it where it was found. */
  readonly retired: readonly RetiredKey[];
}

/**
 * The text of a key file: the private key in use, and behind it the earlier public keys, each after a line `Retired:
 * <time>`. A reader of the first key only, such as an earlier build, reads the one in use.
 */
const blockPattern =
  /(?:Retired: (\S+)\s+)?(-----BEGIN (?:PRIVATE|PUBLIC) KEY-----[\s\S]+?-----END (?:PRIVATE|PUBLIC) KEY-----)/g;

/** The keys behind the first one of a key file, each with the time at which it was retired. */
async function retiredIn(pem: string): Promise<RetiredKey[]> {
  const [, ...behind] = [...pem.matchAll(blockPattern)];
  return Promise.all(
    behind.map(async ([, retiredAt = "", block = ""]) => {
      const atMs = Date.parse(retiredAt);
      if (Number.isNaN(atMs)) throw new StoreError("corrupt", "a key that was retired does not say when");
      const publicKey = createPublicKey(block);
      return {
        kid: await computeKid(publicKey),
        publicKey,
        untilMs: atMs + limits.tokenSecsMax * 1_000 + limits.tokenLeewayMs,
      };
    }),
  );
}

/**
 * The text of a key file with a new key in use, and the earlier one behind it; keys whose tokens have all expired are
 * removed.
 */
export async function rotatedKeys(
  pem: string,
  nowMs: number,
): Promise<{ readonly pem: string; readonly kid: string; readonly retiredKid: string }> {
  const before = parsePem(pem, "the key file");
  const { privateKey: fresh } = generateKeyPairSync("ed25519");
  const publicText = (key: KeyObject): string => key.export({ format: "pem", type: "spki" }) as string;
  const retired = [
    { publicKey: createPublicKey(before), atMs: nowMs },
    ...(await retiredIn(pem))
      .filter(({ untilMs }) => untilMs > nowMs)
      .map(({ publicKey, untilMs }) => ({
        publicKey,
        atMs: untilMs - limits.tokenSecsMax * 1_000 - limits.tokenLeewayMs,
      })),
  ];
  const blocks = retired
    .slice(0, retiredKeysMax)
    .map(({ publicKey, atMs }) => `Retired: ${new Date(atMs).toISOString()}\n${publicText(publicKey)}`);
  return {
    pem: [fresh.export({ format: "pem", type: "pkcs8" }) as string, ...blocks].join(""),
    kid: await computeKid(createPublicKey(fresh)),
    retiredKid: await computeKid(createPublicKey(before)),
  };
}

async function computeKid(publicKey: KeyObject): Promise<string> {
  const { x } = publicKey.export({ format: "jwk" }) as { readonly x: string };
  return calculateJwkThumbprint({ kty: "OKP", crv: "Ed25519", x });
}

/** Finds the key, or makes one and keeps it. */
export async function loadSigningKey(sources: KeySources): Promise<LoadedKey> {
  const { given, file, store, persist } = sources;
  if (given !== undefined) {
    const key = createPrivateKey({ key: Buffer.from(given, "base64"), format: "der", type: "pkcs8" });
    return { key: await buildSigningKey(key), from: "variable", differsFromKept: false, retired: [] };
  }
  const local = file.read();
  if (local !== undefined) {
    const key = await buildSigningKey(parsePem(local, "the local signing key file"));
    const differsFromKept = persist && (await keepInStore(store, local)).kid !== key.kid;
    return { key, from: "file", differsFromKept, retired: await retiredIn(local) };
  }
  const { privateKey: fresh } = generateKeyPairSync("ed25519");
  const pem = fresh.export({ format: "pem", type: "pkcs8" }) as string;
  if (persist) {
    // Not copied to the file: the file is asked first, and would win over a key that is changed in object storage.
    const kept = await keepInStore(store, pem);
    const own = await buildSigningKey(fresh);
    return {
      key: kept,
      from: kept.kid === own.kid ? "generated" : "object storage",
      differsFromKept: false,
      retired: [],
    };
  }
  await file.write(pem);
  return { key: await buildSigningKey(fresh), from: "generated", differsFromKept: false, retired: [] };
}

/** Offers the key to object storage and gives the one that is there: of several nodes that race, one wins for all. */
async function keepInStore(store: ObjectStore, pem: string): Promise<SigningKey> {
  const standing = await store.get(signingKeyKey);
  if (standing) return buildSigningKey(parsePem(decodeUtf8(standing.bytes) ?? "", `the object ${signingKeyKey}`));
  const outcome = await putUntilKnown(store, signingKeyKey, encodeUtf8(pem), { kind: "absent" });
  if (outcome.kind === "landed") return buildSigningKey(parsePem(pem, "a new signing key"));
  if (!outcome.current) throw new StoreError("unavailable", "the signing key in object storage came and went");
  return buildSigningKey(parsePem(decodeUtf8(outcome.current.bytes) ?? "", `the object ${signingKeyKey}`));
}

function parsePem(pem: string, where: string): KeyObject {
  let key: KeyObject;
  try {
    key = createPrivateKey(pem);
  } catch (error) {
    // The parser's message says nothing of the key's bytes; its cause is left out even so.
    throw new StoreError(
      "corrupt",
      `${where} is not a private key in PEM form (${(error as NodeJS.ErrnoException).code ?? "unreadable"})`,
    );
  }
  if (key.asymmetricKeyType !== "ed25519") throw new StoreError("corrupt", `${where} is not an Ed25519 key`);
  return key;
}

/** The key pair of a private key, with its name. */
export async function buildSigningKey(privateKey: KeyObject): Promise<SigningKey> {
  const publicKey = createPublicKey(privateKey);
  const { x } = publicKey.export({ format: "jwk" }) as { readonly x: string };
  const named = { kty: "OKP", crv: "Ed25519", x } as const;
  const kid = await calculateJwkThumbprint(named);
  return { kid, privateKey, publicKey, listed: { ...named, kid, alg: "EdDSA", use: "sig" } };
}
