/** An audit log that a test flushes itself, its entries, and a world whose clock the test turns. */
import { silentLog, type Log } from "../../src/base/log.ts";
import { TrustedTime } from "../../src/base/trusted-time.ts";
import { realWorld, type World } from "../../src/base/world.ts";
import type { AuditEntry, AuditPolicy } from "../../src/control/audit/audit-entry.ts";
import { AuditLog } from "../../src/control/audit/audit-log.ts";
import { AuditStreams } from "../../src/control/audit/audit-streams.ts";
import { type AuditEvent } from "../../src/format/audit/audit-event.ts";
import { ScriptedStore } from "./scripted-store.ts";

export const dayMs = 86_400_000;
export const nodeA = "01HF7YAT00000000000000000A";

export const on: AuditPolicy = { enabled: true, includeReads: false, retentionSecs: undefined };
export const off: AuditPolicy = { ...on, enabled: false };
export const all = { fromMs: 0, limit: 1_000 };

export const ingest = (txid: number, namespace = "acme"): AuditEntry => ({
  namespace,
  profile: "alice",
  action: "memory.ingest",
  outcome: "ok",
  txid,
  identity: { kind: "anonymous" },
});

interface Given {
  readonly store?: ScriptedStore;
  readonly world?: World;
  readonly node?: string;
  readonly log?: Log;
  /** By namespace; `acme` is on, others are off. */
  readonly policies?: Record<string, AuditPolicy>;
  readonly readPolicy?: (namespace: string) => Promise<AuditPolicy>;
}

/** A log whose timer never fires: a test flushes itself. */
export function open({
  store = new ScriptedStore(),
  world = realWorld(),
  node = nodeA,
  log = silentLog,
  policies = { acme: on },
  readPolicy,
}: Given = {}) {
  const audit = new AuditLog({
    store,
    world,
    log,
    node,
    flushMs: 1_000_000,
    readPolicy: readPolicy ?? (async (namespace) => policies[namespace] ?? off),
  });
  const events = async (namespace = "acme"): Promise<readonly AuditEvent[]> =>
    (await new AuditStreams(store, silentLog).read(namespace, all)).events;
  return {
    audit,
    store,
    policies,
    events,
    txids: async (namespace?: string) => (await events(namespace)).map(({ txid }) => txid),
  };
}

/** A world whose wall clock the test turns; its ids say that time too. */
export function turnedWorld(startMs: number): World & { atMs: number } {
  const world = realWorld();
  const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  let ids = 0;
  const nowMs = (): number => turned.atMs;
  const turned = {
    ...world,
    atMs: startMs,
    nowMs,
    wallMs: nowMs,
    ulid() {
      let time = "";
      for (let rest = turned.atMs; time.length < 10; rest = Math.floor(rest / 32)) time = digits[rest % 32]! + time;
      return time + String(ids++).padStart(16, "0");
    },
  };
  return Object.assign(turned, { time: new TrustedTime(nowMs, nowMs) });
}

/** Counts what is said, by message. */
export function countingLog(): Log & { readonly said: string[] } {
  const said: string[] = [];
  return {
    said,
    info: (message) => said.push(message),
    warn: (message) => said.push(message),
    error: (message) => said.push(message),
  };
}
