/** The variables of a node against the specification's tables, row by row. */
import { expect, test } from "vitest";
import { readConfig } from "../../src/server/config/config.ts";
import { settings } from "../../src/server/config/settings.ts";

const host = { pid: 4321, cores: 6 };

/** Variable, default as the specification writes it, field, and the value that default means. */
const specified: readonly (readonly [
  variable: string,
  written: string,
  field: keyof typeof settings,
  value: unknown,
])[] = [
  ["SERVICE_DATA_DIR", "./data", "dataDirectory", "./data"],
  ["SERVICE_LISTEN", "127.0.0.1:8080", "listen", { host: "127.0.0.1", port: 8080 }],
  [
    "SERVICE_OBJECT_STORE",
    "file://{SERVICE_DATA_DIR}/objects",
    "objectStore",
    { kind: "file", directory: "./data/objects" },
  ],
  ["SERVICE_COORD", "unset", "coordination", undefined],
  ["SERVICE_ADVERTISE", "http://{SERVICE_LISTEN}", "advertise", "http://127.0.0.1:8080"],
  ["SERVICE_NODE_ID", "node-{pid}", "nodeId", "node-4321"],
  ["SERVICE_SINGLE_NODE", "unset", "singleNode", false],
  ["SERVICE_AUTH", "off", "auth", "off"],
  ["SERVICE_PLATFORM_KEY", "required when auth is on", "platformKey", undefined],
  ["SERVICE_CLUSTER_KEY", "derived from the signing key", "clusterKey", undefined],
  ["SERVICE_AUTH_KEY", "unset", "signingKey", undefined],
  ["SERVICE_PERSIST_AUTH_KEY", "unset", "persistSigningKey", false],
  ["SERVICE_HOT_CAP", "50000", "hotHandlesMax", 50_000],
  ["SERVICE_REQUEST_TIMEOUT", "30", "requestTimeoutSecs", 30],
  ["SERVICE_MAX_BODY_BYTES", "33554432", "dataBodyBytesMax", 33_554_432],
  ["SERVICE_MAX_CONCURRENCY", "1024", "concurrencyMax", 1024],
  ["SERVICE_CONTROL_RATE", "10", "controlRate", 10],
  ["SERVICE_WRITE_QUEUE_DEPTH", "256", "writeQueueDepth", 256],
  ["SERVICE_DURABILITY", "standard", "durability", "standard"],
  ["SERVICE_GC_GRACE_SECS", "600", "gcGraceSecs", 600],
  ["SERVICE_POLICY_CACHE_SECS", "30", "policyCacheSecs", 30],
  ["SERVICE_AUDIT_FLUSH_MS", "2000", "auditFlushMs", 2000],
  ["SERVICE_EXTRACT_API_KEY", "unset", "extractKey", undefined],
  ["SERVICE_EXTRACT_MODEL", "chosen by the node", "extractModel", undefined],
  ["SERVICE_ASSISTANT_API_KEY", "unset", "assistantKey", undefined],
  ["SERVICE_EMBED_API_KEY", "unset", "embedKey", undefined],
  ["SERVICE_EMBED_PROVIDER", "voyage", "embedProvider", "voyage"],
  ["SERVICE_EMBED_MODEL", "provider default", "embedModel", undefined],
  ["SERVICE_EMBED_BASE_URL", "provider default", "embedBaseAddress", undefined],
  ["SERVICE_EMBED_SELF_HOSTED_HOSTS", "unset", "embedSelfHostedHosts", undefined],
];

/** The variables that we add. */
const added: typeof specified = [
  ["SERVICE_DB_HOST_SUFFIX", "localhost", "databaseHostSuffix", "localhost"],
  ["SERVICE_ALLOWED_ORIGINS", "none", "allowedOrigins", undefined],
  ["SERVICE_OAUTH_ISSUER", "none", "oauthIssuer", undefined],
  ["SERVICE_TLS_CERT", "unset", "tlsCertificatePath", undefined],
  ["SERVICE_TLS_KEY", "unset", "tlsKeyPath", undefined],
  ["SERVICE_ADMIN_LISTEN", "unset", "adminListen", undefined],
  ["SERVICE_PITR_SECS", "86400", "pitrSecs", 86_400],
  ["SERVICE_UNSHIPPED_MAX_SECS", "300", "unshippedSecsMax", 300],
  ["SERVICE_UNSHIPPED_MAX_BYTES", "268435456", "unshippedBytesMax", 268_435_456],
  ["SERVICE_IDLE_CLOSE_SECS", "30", "idleCloseSecs", 30],
  ["SERVICE_PAST_BYTES", "1073741824", "pastBytesMax", 1_073_741_824],
  ["SERVICE_SPARE_DATABASES", "8", "spareDatabases", 8],
  ["SERVICE_LOG_LEVEL", "info", "logLevel", "info"],
  ["SERVICE_ENGINE_THREADS", "{cores-1}", "engineThreads", 5],
  ["SERVICE_READER_THREADS", "2", "readerThreads", 2],
  ["SERVICE_EMBED_THREADS", "1", "embedThreads", 1],
  ["SERVICE_ASSISTANT_MODEL", "chosen by the node", "assistantModel", undefined],
  ["SERVICE_ASSISTANT_BASE_URL", "provider default", "assistantBaseAddress", undefined],
  ["SERVICE_EXTRACT_BASE_URL", "provider default", "extractBaseAddress", undefined],
  ["SERVICE_CREDENTIAL_RATE", "no bound", "credentialRate", undefined],
  ["SERVICE_CREDENTIAL_CONCURRENCY", "no bound", "credentialConcurrency", undefined],
  ["SERVICE_WEBHOOKS", "on", "webhooks", "on"],
  ["SERVICE_WEBHOOK_HOSTS", "none", "webhookHosts", undefined],
  ["SERVICE_WEBHOOK_RETRY_SECS", "5,30,120,600,1800,7200", "webhookRetrySecs", [5, 30, 120, 600, 1_800, 7_200]],
  ["SERVICE_ACCEPT_ROLLBACK", "unset", "acceptRollback", undefined],
];

test.each([...specified, ...added])("%s: default %s", (variable, written, field, value) => {
  const reading = readConfig({}, host);
  if (!("config" in reading)) throw new Error(reading.problems.join("; "));
  expect(settings[field].variable).toBe(variable);
  expect(settings[field].shown).toBe(written);
  expect(reading.config[field]).toEqual(value);
});

test("the table holds the specification's variables in their order, then ours, and no other", () => {
  const variables = Object.values(settings).map((setting) => setting.variable);
  expect(variables).toEqual([...specified, ...added].map(([variable]) => variable));
});
