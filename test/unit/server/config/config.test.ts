import { generateKeyPairSync } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  getFlag,
  readConfig,
  settingsMarkdown,
  type Config,
  type Environment,
} from "../../../../src/server/config/config.ts";
import { settings } from "../../../../src/server/config/settings.ts";
import { isLoopback, startRefusals, startWarnings } from "../../../../src/server/config/start-checks.ts";

const host = { pid: 7, cores: 4 };

function buildConfig(environment: Environment, machine = host): Config {
  const reading = readConfig(environment, machine);
  if ("config" in reading) return reading.config;
  throw new Error(reading.problems.join("; "));
}

function listProblems(environment: Environment): readonly string[] {
  const reading = readConfig(environment, host);
  return "problems" in reading ? reading.problems : [];
}

describe("defaults", () => {
  test("those that speak of another variable follow it", () => {
    const config = buildConfig({ SERVICE_DATA_DIR: "/var/p", SERVICE_LISTEN: "[::1]:9000" });
    expect(config.objectStore).toEqual({ kind: "file", directory: "/var/p/objects" });
    expect(config.advertise).toBe("http://[::1]:9000");
    expect(config.nodeId).toBe("node-7");
  });

  test("engine threads are one less than the cores and at least one", () => {
    expect(buildConfig({}, { pid: 1, cores: 1 }).engineThreads).toBe(1);
    expect(buildConfig({}, { pid: 1, cores: 2 }).engineThreads).toBe(1);
    expect(buildConfig({}, { pid: 1, cores: 9 }).engineThreads).toBe(8);
  });

  test("an empty variable counts as unset", () => {
    expect(buildConfig({ SERVICE_COORD: "", SERVICE_LISTEN: "" })).toEqual(buildConfig({}));
  });

  test("a Config cannot be changed", () => {
    const config = buildConfig({});
    expect(() => Object.assign(config, { auth: "on" })).toThrow(TypeError);
    expect(() => Object.assign(config.listen, { port: 1 })).toThrow(TypeError);
  });
});

describe("values", () => {
  const privateKey = (type: "ed25519" | "x25519"): string =>
    generateKeyPairSync(type as "ed25519")
      .privateKey.export({ format: "der", type: "pkcs8" })
      .toString("base64");

  test.each([
    ["SERVICE_LISTEN", "0.0.0.0:0", "listen", { host: "0.0.0.0", port: 0 }],
    ["SERVICE_LISTEN", "db.example:65535", "listen", { host: "db.example", port: 65_535 }],
    ["SERVICE_LISTEN", "[2001:db8::1]:80", "listen", { host: "2001:db8::1", port: 80 }],
    ["SERVICE_OBJECT_STORE", "file:///srv/objects", "objectStore", { kind: "file", directory: "/srv/objects" }],
    [
      "SERVICE_OBJECT_STORE",
      "s3://bucket-1",
      "objectStore",
      { kind: "s3", bucket: "bucket-1", prefix: "", plainHttp: false },
    ],
    [
      "SERVICE_OBJECT_STORE",
      "s3://bucket-1/a/b",
      "objectStore",
      { kind: "s3", bucket: "bucket-1", prefix: "a/b", plainHttp: false },
    ],
    [
      "SERVICE_OBJECT_STORE",
      "s3://bucket-1/a/b/",
      "objectStore",
      { kind: "s3", bucket: "bucket-1", prefix: "a/b", plainHttp: false },
    ],
    ["SERVICE_OBJECT_STORE", "mem://", "objectStore", { kind: "memory" }],
    ["SERVICE_COORD", "a:2379, b:2379", "coordination", ["a:2379", "b:2379"]],
    ["SERVICE_ADVERTISE", "https://node-1.example:8443/", "advertise", "https://node-1.example:8443"],
    ["SERVICE_SINGLE_NODE", "1", "singleNode", true],
    ["SERVICE_SINGLE_NODE", "0", "singleNode", false],
    ["SERVICE_EMBED_BASE_URL", "http://localhost:11434/v1/", "embedBaseAddress", "http://localhost:11434/v1"],
    ["SERVICE_DB_HOST_SUFFIX", "DB.Example.com", "databaseHostSuffix", "db.example.com"],
    [
      "SERVICE_ALLOWED_ORIGINS",
      "http://localhost:3000, https://App.example.com/",
      "allowedOrigins",
      ["http://localhost:3000", "https://app.example.com"],
    ],
    ["SERVICE_ALLOWED_ORIGINS", "*", "allowedOrigins", ["*"]],
    ["SERVICE_REQUEST_TIMEOUT", "86400", "requestTimeoutSecs", 86_400],
    ["SERVICE_ACCEPT_ROLLBACK", "all", "acceptRollback", ["all"]],
    [
      "SERVICE_ACCEPT_ROLLBACK",
      "00000000-0000-4000-8000-000000000001, 00000000-0000-4000-8000-000000000002",
      "acceptRollback",
      ["00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"],
    ],
  ] as const)("%s=%s is read", (variable, text, field, value) => {
    expect(buildConfig({ [variable]: text })[field]).toEqual(value);
  });

  test("an Ed25519 key is read, another kind of key is not", () => {
    const key = privateKey("ed25519");
    expect(buildConfig({ SERVICE_AUTH_KEY: key }).signingKey).toBe(key);
    expect(listProblems({ SERVICE_AUTH_KEY: privateKey("x25519") })).toHaveLength(1);
  });

  test.each([
    ["SERVICE_LISTEN", "8080"],
    ["SERVICE_LISTEN", "localhost"],
    ["SERVICE_LISTEN", "localhost:65536"],
    ["SERVICE_LISTEN", "::1:80"],
    ["SERVICE_LISTEN", "[nope]:80"],
    ["SERVICE_LISTEN", ":80"],
    ["SERVICE_OBJECT_STORE", "gs://bucket"],
    ["SERVICE_OBJECT_STORE", "file://"],
    ["SERVICE_OBJECT_STORE", "s3://"],
    ["SERVICE_OBJECT_STORE", "s3://Bucket"],
    ["SERVICE_OBJECT_STORE", "s3://bucket/a//b"],
    ["SERVICE_OBJECT_STORE", "s3://bucket/../b"],
    ["SERVICE_OBJECT_STORE", "/srv/objects"],
    ["SERVICE_COORD", "a,,b"],
    ["SERVICE_ADVERTISE", "node-1:80"],
    ["SERVICE_ADVERTISE", "http://node-1/path"],
    ["SERVICE_SINGLE_NODE", "yes"],
    ["SERVICE_AUTH", "ON"],
    ["SERVICE_HOT_CAP", "0"],
    ["SERVICE_HOT_CAP", "1e3"],
    ["SERVICE_HOT_CAP", "-5"],
    ["SERVICE_HOT_CAP", "1.5"],
    ["SERVICE_REQUEST_TIMEOUT", "86401"],
    ["SERVICE_DURABILITY", "fast"],
    ["SERVICE_PITR_SECS", "59"],
    ["SERVICE_EMBED_PROVIDER", "acme"],
    ["SERVICE_EMBED_BASE_URL", "ftp://x"],
    ["SERVICE_DB_HOST_SUFFIX", "-bad-"],
    ["SERVICE_ALLOWED_ORIGINS", "localhost"],
    ["SERVICE_ALLOWED_ORIGINS", "http://a/b"],
    ["SERVICE_ALLOWED_ORIGINS", "http://a,,"],
    ["SERVICE_LOG_LEVEL", "loud"],
    ["SERVICE_ENGINE_THREADS", "0"],
    ["SERVICE_NODE_ID", "two words"],
  ])("%s=%s is refused with its name, the value and what is allowed", (variable, text) => {
    const kind = Object.values(settings).find((setting) => setting.variable === variable)!.kind;
    expect(listProblems({ [variable]: text })).toEqual([
      `${variable} must be ${kind.allowed}, not ${JSON.stringify(text)}`,
    ]);
  });

  test("every problem is told at once, and a default that follows a bad value adds none", () => {
    const problems = listProblems({ SERVICE_LISTEN: "two words", SERVICE_AUTH: "maybe", SERVICE_HOT_CAP: "many" });
    expect(problems.map((problem) => problem.split(" ")[0])).toEqual([
      "SERVICE_LISTEN",
      "SERVICE_AUTH",
      "SERVICE_HOT_CAP",
    ]);
  });

  test("no message shows a secret, whatever the secret is", () => {
    const secrets = Object.values(settings)
      .filter((setting) => setting.kind.secret)
      .map((setting) => setting.variable);
    expect(secrets).toHaveLength(6);
    fc.assert(
      fc.property(fc.constantFrom(...secrets), fc.string({ minLength: 8, maxLength: 40 }), (variable, value) => {
        for (const problem of listProblems({ [variable]: `${value} ` })) expect(problem).not.toContain(value);
      }),
      { numRuns: 100 },
    );
    const urls = ["SERVICE_OBJECT_STORE", "SERVICE_ADVERTISE", "SERVICE_EMBED_BASE_URL"];
    for (const variable of urls) {
      const problems = listProblems({ [variable]: "gs://user:hunter2@host" });
      expect(problems).toHaveLength(1);
      expect(problems[0]).not.toContain("hunter2");
    }
  });

  test("a long value is cut in the message", () => {
    const [problem] = listProblems({ SERVICE_LISTEN: "x".repeat(10_000) });
    expect(problem!.length).toBeLessThan(300);
  });

  test("unknown variables of our prefix are warned about, others are not", () => {
    expect(readConfig({ SERVICE_HOST: "x", OTHER: "y" }, host).warnings).toEqual([
      "SERVICE_HOST is not a variable of this node and is ignored",
    ]);
  });

  test("a slip in a variable's name is refused, and the one that was meant is named", () => {
    expect(listProblems({ SERVICE_LISTN: "x" })).toEqual([expect.stringContaining("did you mean SERVICE_LISTEN?")]);
    expect(listProblems({ SERVICE_AUHT: "on" })).toEqual([expect.stringContaining("did you mean SERVICE_AUTH?")]);
    // What an orchestrator tells of a service that is called `service` is near none of ours.
    for (const variable of [
      "SERVICE_SERVICE_HOST",
      "SERVICE_PORT",
      "SERVICE_PORT_8080_TCP_ADDR",
      "SERVICE_NAME",
      "SERVICE_SERVICE_PORT",
    ])
      expect(listProblems({ [variable]: "x" }), variable).toEqual([]);
  });

  test("any text at all is read or refused, never thrown on", () => {
    const variables = Object.values(settings).map((setting) => setting.variable);
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...variables), fc.string({ unit: "binary" })), (environment) => {
        const reading = readConfig(environment, host);
        expect("config" in reading || reading.problems.length > 0).toBe(true);
      }),
      { numRuns: 200 },
    );
  });
});

describe("standard variables of S3 clients", () => {
  const s3 = { SERVICE_OBJECT_STORE: "s3://bucket" };
  const local = { AWS_ENDPOINT_URL: "http://127.0.0.1:9000/", AWS_REGION: "eu-central-1", AWS_ALLOW_HTTP: "true" };

  test("complete an S3 store; the name that is meant for S3 alone wins", () => {
    expect(buildConfig({ ...s3, ...local }).objectStore).toEqual({
      kind: "s3",
      bucket: "bucket",
      prefix: "",
      endpoint: "http://127.0.0.1:9000",
      region: "eu-central-1",
      plainHttp: true,
    });
    expect(buildConfig({ ...s3, ...local, AWS_ENDPOINT_URL_S3: "https://s3.example" }).objectStore).toMatchObject({
      endpoint: "https://s3.example",
    });
    expect(buildConfig({ ...s3, AWS_REGION: "", AWS_DEFAULT_REGION: "us-west-2" }).objectStore).toMatchObject({
      region: "us-west-2",
    });
  });

  test("are not looked at for another store", () => {
    expect(buildConfig({ AWS_ENDPOINT_URL: "nonsense", AWS_ALLOW_HTTP: "perhaps" })).toEqual(buildConfig({}));
  });

  test("a bad one is refused with its name", () => {
    expect(
      listProblems({ ...s3, AWS_ENDPOINT_URL_S3: "ftp://x", AWS_REGION: "two words", AWS_ALLOW_HTTP: "yes" }),
    ).toEqual([
      expect.stringMatching(/^AWS_ENDPOINT_URL_S3 must be .*"ftp:\/\/x"$/),
      expect.stringMatching(/^AWS_REGION must be /),
      'AWS_ALLOW_HTTP must be true or false, not "yes"',
    ]);
    expect(listProblems({ ...s3, AWS_ENDPOINT_URL: "http://user:hunter2@host" }).join()).not.toContain("hunter2");
  });

  test("a plain-HTTP endpoint needs leave", () => {
    const { AWS_ALLOW_HTTP: _, ...unallowed } = local;
    expect(startRefusals(buildConfig({ ...s3, ...unallowed }))).toEqual([
      expect.stringContaining("AWS_ALLOW_HTTP=true"),
    ]);
    expect(startRefusals(buildConfig({ ...s3, ...local }))).toEqual([]);
    expect(startRefusals(buildConfig({ ...s3, AWS_ENDPOINT_URL: "https://s3.example" }))).toEqual([]);
  });
});

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
      expect.stringContaining("SERVICE_EMBED_PROVIDER must be voyage or openai"),
    ]);
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

describe("derived texts", () => {
  test("every setting but the secrets has a flag of its own", () => {
    const rows = Object.values(settings);
    const flags = rows.map(getFlag).filter((flag) => flag !== undefined);
    expect(new Set(flags).size).toBe(rows.filter((setting) => !setting.kind.secret).length);
    expect(getFlag(settings.dataDirectory)).toBe("--data-dir");
    expect(getFlag(settings.platformKey)).toBeUndefined();
  });

  test("the Markdown table has one row per variable", () => {
    const lines = settingsMarkdown().trimEnd().split("\n");
    expect(lines).toHaveLength(Object.keys(settings).length + 2);
    for (const line of lines) expect(line.match(/\|/g)).toHaveLength(4);
  });
});
