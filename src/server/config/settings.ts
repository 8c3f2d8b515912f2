/**
 * The table of variables: what each may be, its default, and what it is for, in one line. Parsing, flags, `--help` and
 * the documentation are derived from it (server/config/config). Must not know: what a setting does beyond that line.
 */
import { limits } from "../../base/limits.ts";
import {
  baseAddress,
  endpoint,
  hostSuffix,
  integer,
  integerList,
  oneOf,
  origin,
  originList,
  path,
  secret,
  signingKey,
  storeUrl,
  toggle,
  uuidsOrAll,
  word,
  wordList,
} from "./setting-kinds.ts";
import type { Kind } from "./setting-kinds.ts";

export const writeQueueDepthDefault = 256;
const hotHandlesDefault = 50_000;
export const idleCloseMs = 30_000;
/** Dozens of small databases, or a few large ones. */
const pastBytesDefault = 1024 * 1024 * 1024;
/** Each takes a handle and half a second's puts at the start of a node. */
const spareDatabasesDefault = 8;
const spareDatabasesMax = 1_000;
const controlRateDefault = 10;
export const gcGraceSecsDefault = 600;
const policyCacheSecsDefault = 30;
const auditFlushMsDefault = 2_000;
export const pitrSecsDefault = 86_400;
/** How far `standard` acknowledgements may run ahead of object storage. */
export const unshippedSecsDefault = 300;
export const unshippedBytesDefault = 256 * 1024 * 1024;
const readerThreadsDefault = 2;
const threadsMax = 256;
/** Caps and rates beyond this are no caps. */
const settingCountMax = 1_000_000;
const settingSecsMax = 10 * 365 * 86_400;
const settingBytesMax = Number.MAX_SAFE_INTEGER;
const dataBodyBytesDefault = 32 * 1024 * 1024;
const concurrencyDefault = 1024;
const webhookRetriesMax = 20;

/** A row of the table: a variable, what it may be, and its default. */
export interface Setting<Value, Fallback extends string | undefined> {
  readonly variable: string;
  readonly kind: Kind<Value>;
  /**
   * The value when unset, as a person would write it; undefined leaves the setting out. `{NAME}` is the text of a
   * variable further up; `{pid}` and `{cores-1}` (at least 1) are facts of the host.
   */
  readonly fallback: Fallback;
  /** The default as the documentation shows it. */
  readonly shown: string;
  readonly meaning: string;
}

/** A row, whatever it may be. */
export type AnySetting = Setting<unknown, string | undefined>;

/** A setting that always has a value. */
function given<Value>(
  variable: string,
  kind: Kind<Value>,
  fallback: string | number,
  meaning: string,
): Setting<Value, string> {
  return { variable, kind, fallback: String(fallback), shown: String(fallback), meaning };
}

/** A setting that may be absent; `shown` says what that means. */
function absent<Value>(
  variable: string,
  kind: Kind<Value>,
  meaning: string,
  shown = "unset",
): Setting<Value, undefined> {
  return { variable, kind, fallback: undefined, shown, meaning };
}

/** Off unless it is `1`. */
function off(variable: string, meaning: string): Setting<boolean, string> {
  return { variable, kind: toggle, fallback: "0", shown: "unset", meaning };
}

const count = integer(1, settingCountMax);
const timerSecs = integer(1, limits.settingTimerSecsMax);
const periodSecs = integer(0, settingSecsMax);
const bytes = integer(1, settingBytesMax);
const threads = integer(1, threadsMax);

/**
 * Every variable, in the order in which the documentation lists them (spec: Node configuration, Optional AI features;
 * then ours).
 */
export const settings = {
  dataDirectory: given("SERVICE_DATA_DIR", path, "./data", "local directory of open databases and caches"),
  listen: given("SERVICE_LISTEN", endpoint, "127.0.0.1:8080", "listen address; port 0 takes a free one"),
  objectStore: given(
    "SERVICE_OBJECT_STORE",
    storeUrl,
    "file://{SERVICE_DATA_DIR}/objects",
    "object store: `file://path`, `s3://bucket/prefix`, or `mem://` (tests only); S3's credentials, region " +
      "and endpoint come from the standard `AWS_` variables, and `AWS_ALLOW_HTTP=true` allows plain HTTP",
  ),
  coordination: absent(
    "SERVICE_COORD",
    wordList,
    "comma-separated endpoints of the coordination store; unset keeps leases in the process",
  ),
  advertise: given("SERVICE_ADVERTISE", origin, "http://{SERVICE_LISTEN}", "address that other nodes use"),
  nodeId: given("SERVICE_NODE_ID", word, "node-{pid}", "the node's name; keep it stable when there are several nodes"),
  singleNode: off("SERVICE_SINGLE_NODE", "`1` declares that this is the only node"),
  auth: given(
    "SERVICE_AUTH",
    oneOf("on", "off"),
    "off",
    "`on` demands a credential for every call; `off` is for development",
  ),
  platformKey: absent("SERVICE_PLATFORM_KEY", secret, "key of the control plane", "required when auth is on"),
  clusterKey: absent("SERVICE_CLUSTER_KEY", secret, "key of the calls between nodes", "derived from the signing key"),
  signingKey: absent("SERVICE_AUTH_KEY", signingKey, "Ed25519 signing key, base64 of PKCS#8"),
  persistSigningKey: off(
    "SERVICE_PERSIST_AUTH_KEY",
    "`1` keeps a generated signing key, unencrypted, in object storage",
  ),
  hotHandlesMax: given("SERVICE_HOT_CAP", count, hotHandlesDefault, "open database handles at most"),
  requestTimeoutSecs: given(
    "SERVICE_REQUEST_TIMEOUT",
    timerSecs,
    limits.requestTimeoutSecsDefault,
    "seconds a call may take; over it, 408",
  ),
  dataBodyBytesMax: given(
    "SERVICE_MAX_BODY_BYTES",
    integer(1, limits.dataBodyBytesMax),
    dataBodyBytesDefault,
    "body cap in bytes of writes that carry data; over it, 413",
  ),
  concurrencyMax: given("SERVICE_MAX_CONCURRENCY", count, concurrencyDefault, "calls under way at once"),
  controlRate: given(
    "SERVICE_CONTROL_RATE",
    count,
    controlRateDefault,
    "control calls per second, with a burst of twice that; over it, 429",
  ),
  writeQueueDepth: given(
    "SERVICE_WRITE_QUEUE_DEPTH",
    count,
    writeQueueDepthDefault,
    "writes that may wait per database; over it, 429",
  ),
  durability: given(
    "SERVICE_DURABILITY",
    oneOf("standard", "durable"),
    "standard",
    "`standard` acknowledges after the local fsync, `durable` once object storage covers the write",
  ),
  gcGraceSecs: given(
    "SERVICE_GC_GRACE_SECS",
    periodSecs,
    gcGraceSecsDefault,
    "seconds before unreferenced objects are reclaimed",
  ),
  policyCacheSecs: given(
    "SERVICE_POLICY_CACHE_SECS",
    periodSecs,
    policyCacheSecsDefault,
    "seconds within which a policy change is seen everywhere",
  ),
  auditFlushMs: given(
    "SERVICE_AUDIT_FLUSH_MS",
    integer(1, limits.settingTimerSecsMax * 1000),
    auditFlushMsDefault,
    "milliseconds between flushes of the audit stream",
  ),
  extractKey: absent("SERVICE_EXTRACT_API_KEY", secret, "enables extract; unset answers 503"),
  extractModel: absent("SERVICE_EXTRACT_MODEL", word, "model of extract", "chosen by the node"),
  assistantKey: absent("SERVICE_ASSISTANT_API_KEY", secret, "enables ask; unset answers 503"),
  embedKey: absent("SERVICE_EMBED_API_KEY", secret, "enables embedding of text-only ingest and recall"),
  embedProvider: given(
    "SERVICE_EMBED_PROVIDER",
    oneOf("voyage", "openai", "local"),
    "voyage",
    "`voyage`; `openai` for every server that speaks that embeddings protocol; `local` for a model that the node " +
      "runs itself, which needs the package `@palimpsest/embed-local` and no key",
  ),
  embedModel: absent("SERVICE_EMBED_MODEL", word, "model of embeddings", "provider default"),
  embedBaseAddress: absent(
    "SERVICE_EMBED_BASE_URL",
    baseAddress,
    "base address of the embedder, such as a server of your own; without a path it means `/v1`",
    "provider default",
  ),
  embedSelfHostedHosts: absent(
    "SERVICE_EMBED_SELF_HOSTED_HOSTS",
    wordList,
    "comma-separated hosts that count as self-hosted for `ai_egress.embed`",
  ),
  databaseHostSuffix: given(
    "SERVICE_DB_HOST_SUFFIX",
    hostSuffix,
    "localhost",
    "a Host header of `{db}.` and this suffix addresses one database",
  ),
  allowedOrigins: absent(
    "SERVICE_ALLOWED_ORIGINS",
    originList,
    "comma-separated origins, such as `http://localhost:3000`, whose pages in a browser may call the node " +
      "and read its answers; `*` for all",
    "none",
  ),
  oauthIssuer: absent(
    "SERVICE_OAUTH_ISSUER",
    baseAddress,
    "address of the authorization server that hands out this node's tokens, which clients of MCP are told; those " +
      "tokens are signed with `SERVICE_AUTH_KEY`",
    "none",
  ),
  tlsCertificatePath: absent(
    "SERVICE_TLS_CERT",
    path,
    "PEM file of the certificate chain; with it the port speaks TLS",
  ),
  tlsKeyPath: absent("SERVICE_TLS_KEY", path, "PEM file of the certificate's private key"),
  adminListen: absent(
    "SERVICE_ADMIN_LISTEN",
    endpoint,
    "second listen address, for operators: readiness, metrics, reflection",
  ),
  pitrSecs: given(
    "SERVICE_PITR_SECS",
    integer(limits.policySecsMin, settingSecsMax),
    pitrSecsDefault,
    "point-in-time window in seconds; policies can only shorten it",
  ),
  unshippedSecsMax: given(
    "SERVICE_UNSHIPPED_MAX_SECS",
    timerSecs,
    unshippedSecsDefault,
    "age in seconds of the oldest unshipped write at which new ones are shed",
  ),
  unshippedBytesMax: given(
    "SERVICE_UNSHIPPED_MAX_BYTES",
    bytes,
    unshippedBytesDefault,
    "bytes of unshipped writes at which new ones are shed",
  ),
  idleCloseSecs: given(
    "SERVICE_IDLE_CLOSE_SECS",
    timerSecs,
    idleCloseMs / 1000,
    "seconds after which an unused database is closed",
  ),
  pastBytesMax: given(
    "SERVICE_PAST_BYTES",
    bytes,
    pastBytesDefault,
    "bytes of disk for earlier states that are kept restored to be read again",
  ),
  spareDatabases: given(
    "SERVICE_SPARE_DATABASES",
    integer(0, spareDatabasesMax),
    spareDatabasesDefault,
    "empty databases kept ready for new names, so that a first write waits for no making; none with `SERVICE_COORD`",
  ),
  logLevel: given(
    "SERVICE_LOG_LEVEL",
    oneOf("debug", "info", "warn", "error", "silent"),
    "info",
    "least level that is logged",
  ),
  engineThreads: given("SERVICE_ENGINE_THREADS", threads, "{cores-1}", "threads that own databases; at least 1"),
  readerThreads: given("SERVICE_READER_THREADS", threads, readerThreadsDefault, "processes for SQL that reads"),
  embedThreads: given("SERVICE_EMBED_THREADS", threads, 1, "threads of the processor that the `local` model uses"),
  assistantModel: absent("SERVICE_ASSISTANT_MODEL", word, "model of ask", "chosen by the node"),
  assistantBaseAddress: absent(
    "SERVICE_ASSISTANT_BASE_URL",
    baseAddress,
    "base address of the model of ask, such as a server of your own that speaks the same protocol",
    "provider default",
  ),
  extractBaseAddress: absent(
    "SERVICE_EXTRACT_BASE_URL",
    baseAddress,
    "base address of the model of extract",
    "provider default",
  ),
  credentialRate: absent(
    "SERVICE_CREDENTIAL_RATE",
    count,
    "calls of the data plane per second of one credential (of one address with authentication off), with a " +
      "burst of twice that; over it, 429",
    "no bound",
  ),
  credentialConcurrency: absent(
    "SERVICE_CREDENTIAL_CONCURRENCY",
    count,
    "calls of one credential under way at once; over it, 429",
    "no bound",
  ),
  webhooks: given(
    "SERVICE_WEBHOOKS",
    oneOf("on", "off"),
    "on",
    "`off` makes no webhooks and posts nothing; the same at all nodes",
  ),
  webhookHosts: absent(
    "SERVICE_WEBHOOK_HOSTS",
    wordList,
    "comma-separated hosts that webhooks may reach over plain HTTP, and at addresses that are not public",
    "none",
  ),
  webhookRetrySecs: given(
    "SERVICE_WEBHOOK_RETRY_SECS",
    integerList(1, limits.settingTimerSecsMax, webhookRetriesMax),
    "5,30,120,600,1800,7200",
    "seconds after which what a webhook's receiver did not take is posted again, time by time; then it is given up",
  ),
  acceptRollback: absent(
    "SERVICE_ACCEPT_ROLLBACK",
    uuidsOrAll,
    "**dangerous**: comma-separated uuids of databases, or `all`, whose object storage was put back to an " +
      "older state that is to be believed; what is newer on this node is set aside under `quarantine/`",
  ),
} as const;
