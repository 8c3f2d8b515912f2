/** Configurations with which a node does not start, and what it warns of. */
import { describe, expect, test } from "vitest";
import { findLocalModel } from "../../../../src/ai/local-model.ts";
import { isLoopback, startRefusals, startWarnings } from "../../../../src/server/config/start-checks.ts";
import { buildConfig, listProblems } from "../../../support/read-config.ts";

describe("start refusals", () => {
  const keys = {
    SERVICE_PLATFORM_KEY: "a platform key of a test".replaceAll(" ", "-"),
    SERVICE_CLUSTER_KEY: "cluster",
  };

  test("a default node starts", () => {
    expect(startRefusals(buildConfig({}))).toEqual([]);
  });

  test("auth-21: auth on without a platform key", () => {
    const auth = { SERVICE_AUTH: "on", SERVICE_SINGLE_NODE: "1" };
    expect(startRefusals(buildConfig(auth))).toEqual([expect.stringContaining("SERVICE_PLATFORM_KEY")]);
    expect(startRefusals(buildConfig({ ...auth, ...keys }))).toEqual([]);
  });

  test("a platform key that can be guessed is warned of; one address is named by the variable that gave it", () => {
    expect(startWarnings(buildConfig({ SERVICE_PLATFORM_KEY: "x", SERVICE_AUTH: "on" }))).toEqual([
      expect.stringMatching(/SERVICE_PLATFORM_KEY has fewer than 16 characters/),
    ]);
    expect(startRefusals(buildConfig({ SERVICE_LISTEN: "0.0.0.0:8080" }))).toEqual([
      expect.stringMatching(/^SERVICE_LISTEN is not a loopback address/),
    ]);
    expect(startRefusals(buildConfig({ SERVICE_ADVERTISE: "http://10.0.0.5:8080" }))).toEqual([
      expect.stringMatching(/^SERVICE_ADVERTISE is not a loopback address/),
    ]);
  });

  test("auth-21: equal cluster and platform keys", () => {
    const refusals = startRefusals(buildConfig({ SERVICE_PLATFORM_KEY: "same-key", SERVICE_CLUSTER_KEY: "same-key" }));
    expect(refusals).toEqual([expect.stringContaining("must differ")]);
    expect(refusals.join()).not.toContain("same-key");
  });

  test.each([
    ["auth on", { SERVICE_AUTH: "on", ...keys }],
    ["an advertised address that others can reach", { SERVICE_ADVERTISE: "http://10.0.0.5:8080" }],
    ["a listen address that others can reach", { SERVICE_LISTEN: "0.0.0.0:8080" }],
  ])("auth-21: looks multi-node by %s", (_, environment) => {
    expect(startRefusals(buildConfig(environment))).toEqual([expect.stringContaining("SERVICE_SINGLE_NODE=1")]);
    expect(startRefusals(buildConfig({ ...environment, SERVICE_SINGLE_NODE: "1" }))).toEqual([]);
    expect(startRefusals(buildConfig({ ...environment, SERVICE_COORD: "etcd:2379" }))).toEqual([]);
  });

  test("auth-21: an unknown object-store scheme and an unknown embed provider", () => {
    const problems = listProblems({ SERVICE_OBJECT_STORE: "gs://bucket", SERVICE_EMBED_PROVIDER: "acme" });
    expect(problems).toEqual([
      expect.stringContaining("SERVICE_OBJECT_STORE must be file://"),
      expect.stringContaining("SERVICE_EMBED_PROVIDER must be voyage or openai or local"),
    ]);
  });

  test("a model of its own starts a node only where its package is, and needs no key", () => {
    const found = findLocalModel();
    const refusals = startRefusals(buildConfig({ SERVICE_EMBED_PROVIDER: "local" }));
    expect(refusals).toEqual(
      "missing" in found
        ? [expect.stringMatching(/^SERVICE_EMBED_PROVIDER=local needs .* run npm run embed-local$/)]
        : [],
    );
    expect(startWarnings(buildConfig({ SERVICE_EMBED_PROVIDER: "local", SERVICE_AUTH: "off" }))).toHaveLength(1);
  });

  test("what a model of its own has no use for is warned of, and its value not shown", () => {
    const unused = {
      SERVICE_EMBED_API_KEY: "k-of-the-test",
      SERVICE_EMBED_MODEL: "another",
      SERVICE_EMBED_BASE_URL: "http://models.example.com/v1",
    };
    const warnings = startWarnings(buildConfig({ SERVICE_EMBED_PROVIDER: "local", ...unused }));
    for (const variable of Object.keys(unused))
      expect(warnings).toContain(`${variable} has no effect with SERVICE_EMBED_PROVIDER=local`);
    expect(warnings.join()).not.toMatch(/k-of-the-test|in the clear/);
  });

  test("half a TLS pair, and one port for two listeners", () => {
    expect(startRefusals(buildConfig({ SERVICE_TLS_CERT: "c.pem" }))).toEqual([
      expect.stringContaining("SERVICE_TLS_KEY"),
    ]);
    expect(startRefusals(buildConfig({ SERVICE_TLS_CERT: "c.pem", SERVICE_TLS_KEY: "k.pem" }))).toEqual([]);
    expect(startRefusals(buildConfig({ SERVICE_ADMIN_LISTEN: "127.0.0.1:8080" }))).toEqual([
      expect.stringContaining("SERVICE_ADMIN_LISTEN"),
    ]);
    expect(startRefusals(buildConfig({ SERVICE_ADMIN_LISTEN: "127.0.0.1:0", SERVICE_LISTEN: "127.0.0.1:0" }))).toEqual(
      [],
    );
  });

  test("a node among others is warned of what cannot be shared, and of an address that cannot be reached", () => {
    const shared = {
      SERVICE_AUTH: "on",
      ...keys,
      SERVICE_COORD: "etcd:2379",
      SERVICE_OBJECT_STORE: "s3://bucket",
      SERVICE_ADVERTISE: "http://10.0.0.5:8080",
      SERVICE_PERSIST_AUTH_KEY: "1",
    };
    const warned = (environment: Record<string, string>): readonly string[] =>
      startWarnings(buildConfig({ ...shared, ...environment }));
    expect(warned({})).toEqual([]);
    expect(warned({ SERVICE_ADVERTISE: "http://localhost:8080" })).toEqual([
      expect.stringContaining("SERVICE_ADVERTISE is a loopback address"),
    ]);
    expect(warned({ SERVICE_TLS_CERT: "c", SERVICE_TLS_KEY: "k" })).toEqual([expect.stringContaining("speaks TLS")]);
    expect(warned({ SERVICE_OBJECT_STORE: "file:///objects" })).toEqual([expect.stringContaining("the very same one")]);
    expect(warned({ SERVICE_OBJECT_STORE: "mem://" })).toContainEqual(expect.stringContaining("is not shared"));
    expect(warned({ SERVICE_PERSIST_AUTH_KEY: "0" })).toEqual([expect.stringContaining("SERVICE_PERSIST_AUTH_KEY=1")]);
    for (const alone of [{ SERVICE_COORD: "" }])
      expect(
        warned({
          ...alone,
          SERVICE_ADVERTISE: "http://localhost:8080",
          SERVICE_OBJECT_STORE: "file:///objects",
          SERVICE_PERSIST_AUTH_KEY: "0",
        }),
      ).toEqual([]);
  });

  test("auth off is warned about, louder when the network can reach the node", () => {
    expect(startWarnings(buildConfig({}))).toEqual([expect.not.stringContaining("open to the network")]);
    expect(startWarnings(buildConfig({ SERVICE_LISTEN: "0.0.0.0:1" }))).toEqual([
      expect.stringContaining("open to the network"),
    ]);
    expect(startWarnings(buildConfig({ SERVICE_OBJECT_STORE: "mem://", SERVICE_EMBED_API_KEY: "k" }))).toHaveLength(2);
  });

  test("an embedder that the texts reach in the clear is warned about, and an address without a key", () => {
    const auth = { SERVICE_AUTH: "on", ...keys };
    const embed = { ...auth, SERVICE_EMBED_API_KEY: "k" };
    expect(startWarnings(buildConfig({ ...embed, SERVICE_EMBED_BASE_URL: "http://models.example.com/v1" }))).toEqual([
      expect.stringContaining("in the clear"),
    ]);
    for (const address of ["https://models.example.com/v1", "http://10.0.0.7:11434", "http://ollama:11434"])
      expect(startWarnings(buildConfig({ ...embed, SERVICE_EMBED_BASE_URL: address })), address).toEqual([]);
    expect(
      startWarnings(
        buildConfig({
          ...embed,
          SERVICE_EMBED_BASE_URL: "http://models.example.com/v1",
          SERVICE_EMBED_SELF_HOSTED_HOSTS: "models.example.com",
        }),
      ),
    ).toEqual([]);
    expect(startWarnings(buildConfig({ ...auth, SERVICE_EMBED_BASE_URL: "http://ollama:11434" }))).toEqual([
      expect.stringContaining("SERVICE_EMBED_API_KEY"),
    ]);
  });

  test.each(["ASSISTANT", "EXTRACT"])(
    "an address of a model without a key is warned about, and so is one that shows texts and key: %s",
    (name) => {
      const warned = (environment: Record<string, string>): readonly string[] =>
        startWarnings(buildConfig({ SERVICE_AUTH: "on", ...keys, ...environment }));
      const [key, address] = [`SERVICE_${name}_API_KEY`, `SERVICE_${name}_BASE_URL`];
      expect(warned({ [key]: "k" })).toEqual([]);
      expect(warned({ [address]: "https://models.example.com" })).toEqual([
        expect.stringContaining(`${address} has no effect without ${key}`),
      ]);
      for (const safe of ["https://models.example.com", "http://127.0.0.1:1234", "http://models.internal/v1"])
        expect(warned({ [key]: "k", [address]: safe })).toEqual([]);
      const plain = { [key]: "k", [address]: "http://models.example.com" };
      expect(warned(plain)).toEqual([expect.stringContaining(`${address} is plain HTTP`)]);
      expect(warned({ ...plain, SERVICE_EMBED_SELF_HOSTED_HOSTS: "models.example.com" })).toEqual([]);
    },
  );

  test("credentials in the clear are warned about where the network can reach the node", () => {
    const auth = { SERVICE_AUTH: "on", ...keys };
    expect(startWarnings(buildConfig(auth))).toEqual([]);
    expect(startWarnings(buildConfig({ ...auth, SERVICE_LISTEN: "0.0.0.0:1" }))).toEqual([
      expect.stringContaining("SERVICE_TLS_CERT"),
    ]);
    expect(
      startWarnings(buildConfig({ ...auth, SERVICE_LISTEN: "0.0.0.0:1", SERVICE_TLS_CERT: "c", SERVICE_TLS_KEY: "k" })),
    ).toEqual([]);
  });

  test.each([
    ["127.0.0.1", true],
    ["127.9.9.9", true],
    ["localhost", true],
    ["a.localhost", true],
    ["::1", true],
    ["[::1]", true],
    ["0.0.0.0", false],
    ["10.0.0.1", false],
    ["127.example.com", false],
    ["::", false],
    ["notlocalhost", false],
  ])("%s is loopback: %s", (name, loopback) => {
    expect(isLoopback(name)).toBe(loopback);
  });
});
