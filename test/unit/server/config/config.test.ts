/** The configuration as the environment gives it: defaults, values, and the texts derived from it. */
import { generateKeyPairSync } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { getFlag, readConfig, settingsMarkdown } from "../../../../src/server/config/config.ts";
import { settings } from "../../../../src/server/config/settings.ts";
import { startRefusals } from "../../../../src/server/config/start-checks.ts";
import { host, buildConfig, listProblems } from "../../../support/read-config.ts";

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
