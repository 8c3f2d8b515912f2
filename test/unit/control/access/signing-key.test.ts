/** Where a node's signing key comes from, and which public keys are known. */
import { createPrivateKey, generateKeyPairSync } from "node:crypto";
import { existsSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { calculateJwkThumbprint } from "jose";
import { describe, expect, test } from "vitest";
import { encodeUtf8, decodeUtf8 } from "../../../../src/base/bytes.ts";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { KeySet } from "../../../../src/control/access/key-set.ts";
import { type KeySources, loadSigningKey, buildSigningKey } from "../../../../src/control/access/signing-key.ts";
import { publicKeyKey, signingKeyKey } from "../../../../src/format/keys/object-keys.ts";
import { keyFile } from "../../../../src/server/config/key-file.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import type { ObjectStore } from "../../../../src/store/port/object-store.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

function fresh(): { readonly base64: string; readonly pem: string } {
  const { privateKey } = generateKeyPairSync("ed25519");
  return {
    base64: privateKey.export({ format: "der", type: "pkcs8" }).toString("base64"),
    pem: privateKey.export({ format: "pem", type: "pkcs8" }) as string,
  };
}

async function readKid(pem: string): Promise<string> {
  return (await buildSigningKey(createPrivateKey(pem))).kid;
}

function sources(over: Partial<KeySources> = {}): KeySources & { readonly directory: string } {
  const directory = temporaryDirectory();
  return { directory, given: undefined, file: keyFile(directory), store: new MemoryStore(), persist: false, ...over };
}

const absent = { kind: "absent" } as const;

describe("precedence", () => {
  test("a given key wins over the file and object storage, and touches neither", async () => {
    const [given, local, kept] = [fresh(), fresh(), fresh()];
    const from = sources({ given: given.base64, persist: true });
    await from.file.write(local.pem);
    await from.store.put(signingKeyKey, encodeUtf8(kept.pem), absent);
    expect(await loadSigningKey(from)).toMatchObject({ from: "variable", key: { kid: await readKid(given.pem) } });
    expect(from.file.read()).toBe(local.pem);
    expect(decodeUtf8((await from.store.get(signingKeyKey))!.bytes)).toBe(kept.pem);
  });

  test("the file wins over object storage, and the node knows that they differ", async () => {
    const [local, kept] = [fresh(), fresh()];
    const from = sources({ persist: true });
    await from.file.write(local.pem);
    expect(await loadSigningKey(from)).toMatchObject({
      from: "file",
      differsFromKept: false,
      key: { kid: await readKid(local.pem) },
    });
    // It was offered to nodes that have no file of their own.
    expect(await loadSigningKey(sources({ persist: true, store: from.store }))).toMatchObject({
      from: "object storage",
      key: { kid: await readKid(local.pem) },
    });
    const other = sources({ persist: true });
    await other.store.put(signingKeyKey, encodeUtf8(kept.pem), absent);
    await other.file.write(local.pem);
    expect(await loadSigningKey(other)).toMatchObject({
      from: "file",
      differsFromKept: true,
      key: { kid: await readKid(local.pem) },
    });
  });

  test("object storage is asked and written only when it is to keep the key", async () => {
    const kept = fresh();
    const from = sources();
    await from.store.put(signingKeyKey, encodeUtf8(kept.pem), absent);
    const made = await loadSigningKey(from);
    expect([made.from, made.key.kid === (await readKid(kept.pem))]).toEqual(["generated", false]);
    expect(await loadSigningKey({ ...from, persist: true, file: keyFile(temporaryDirectory()) })).toMatchObject({
      from: "object storage",
      key: { kid: await readKid(kept.pem) },
    });
  });

  test("a generated key stays: in the file, for its owner only, or in object storage for its readers", async () => {
    const from = sources();
    const made = await loadSigningKey(from);
    expect(made.from).toBe("generated");
    expect(await loadSigningKey(from)).toMatchObject({ from: "file", key: { kid: made.key.kid } });
    expect(statSync(join(from.directory, "signing-key.pem")).mode & 0o777).toBe(0o600);
    expect(readdirSync(from.directory)).toEqual(["signing-key.pem"]);
    expect(await from.store.get(signingKeyKey)).toBeUndefined();

    const shared = sources({ persist: true });
    const first = await loadSigningKey(shared);
    expect(first.from).toBe("generated");
    expect(existsSync(join(shared.directory, "signing-key.pem"))).toBe(false);
    expect(await loadSigningKey(sources({ persist: true, store: shared.store }))).toMatchObject({
      from: "object storage",
      key: { kid: first.key.kid },
    });
  });

  test("of nodes that race to keep a key, all take the winner's", async () => {
    const store = new MemoryStore();
    const loaded = await Promise.all(
      Array.from({ length: 8 }, () => loadSigningKey(sources({ persist: true, store }))),
    );
    expect(new Set(loaded.map(({ key }) => key.kid)).size).toBe(1);
    expect(loaded.filter(({ from }) => from === "generated")).toHaveLength(1);
  });
});

describe("what cannot be read", () => {
  const rsa = generateKeyPairSync("rsa", { modulusLength: 1024 }).privateKey.export({
    format: "pem",
    type: "pkcs8",
  }) as string;

  test.each([
    ["nothing", ""],
    ["garbage", "garbage"],
    ["another kind of key", rsa],
    ["half a key", fresh().pem.slice(0, 60)],
  ])("%s is refused where it lies, never replaced", async (_what, text) => {
    const from = sources();
    writeFileSync(join(from.directory, "signing-key.pem"), text);
    await expect(loadSigningKey(from)).rejects.toThrow(/^the local signing key file is not/);
    expect(from.file.read()).toBe(text);
    const kept = sources({ persist: true });
    await kept.store.put(signingKeyKey, encodeUtf8(text), absent);
    await expect(loadSigningKey(kept)).rejects.toThrow(/^the object keys\/signing is not/);
  });

  test("a store that does not answer stops a start that needs it", async () => {
    const store: ObjectStore = Object.assign(new MemoryStore(), {
      get: () => Promise.reject(new StoreError("unavailable", "down")),
    });
    await expect(loadSigningKey(sources({ persist: true, store }))).rejects.toThrow("down");
    expect((await loadSigningKey(sources({ store }))).from).toBe("generated");
  });
});

describe("the key set", () => {
  const readListed = async (): Promise<Awaited<ReturnType<typeof buildSigningKey>>["listed"]> =>
    (await buildSigningKey(createPrivateKey(fresh().pem))).listed;

  test("a key is named by its RFC 7638 thumbprint, and its private half is not in it", async () => {
    const listed = await readListed();
    expect(listed).toEqual({
      kty: "OKP",
      crv: "Ed25519",
      x: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
      kid: await calculateJwkThumbprint({ ...listed }),
      alg: "EdDSA",
      use: "sig",
    });
  });

  test("keys that were in use before stay listed, after the one in use", async () => {
    const store = new MemoryStore();
    const [old, current] = [await readListed(), await readListed()];
    await new KeySet(store, realWorld(), old).publish();
    const keySet = new KeySet(store, realWorld(), current);
    await keySet.publish();
    await keySet.publish();
    expect(await keySet.keys()).toEqual([current, old]);
  });

  test("a foreign object hides no key and is none", async () => {
    const store = new MemoryStore();
    const [old, current] = [await readListed(), await readListed()];
    await new KeySet(store, realWorld(), old).publish();
    for (const [name, text] of [
      ["a", ""],
      ["b", "[]"],
      ["c", "null"],
      ["d", '{"v":1,"kty":"OKP","crv":"X25519","x":"AA"}'],
    ] as const)
      await store.put(publicKeyKey(name), encodeUtf8(text), absent);
    expect(await new KeySet(store, realWorld(), current).keys()).toEqual([current, old]);
  });

  test("is listed once for all who ask, and the key in use also while the store does not answer", async () => {
    const store = new MemoryStore();
    let lists = 0;
    const counting: ObjectStore = {
      get: (key) => store.get(key),
      put: (key, bytes, condition) => store.put(key, bytes, condition),
      delete: (key) => store.delete(key),
      list: (prefix, options) => (++lists, store.list(prefix, options)),
      purgeVersions: () => store.purgeVersions(),
    };
    const current = await readListed();
    const keySet = new KeySet(counting, realWorld(), current);
    await Promise.all(Array.from({ length: 20 }, () => keySet.keys()));
    await keySet.keys();
    expect(lists).toBe(1);
    const down: ObjectStore = { ...counting, list: () => Promise.reject(new StoreError("unavailable", "down")) };
    expect(await new KeySet(down, realWorld(), current).keys()).toEqual([current]);
  });
});
