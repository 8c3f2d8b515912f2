/**
 * What is said of the objects that a branch consists of: manifest, history, catalog.
 *
 * Always true: it is told by the formats' own decoders, which throw where an object breaks a rule. Must not know: where
 * the bytes came from.
 */
import { pageBytes } from "../../format/history/pages.ts";
import { decodeCatalog } from "../../format/history/catalog.ts";
import { decodeHistory } from "../../format/history/history.ts";
import { decodeManifest } from "../../format/history/manifest.ts";
import type { SegmentRef } from "../../format/history/refs.ts";
import { ulidTimeMs } from "../../format/core/ids.ts";
import { historyKey, parsePoolId } from "../../format/keys/object-keys.ts";
import { hex, plain, size, buildTable, time, type Account, type Table, type Value } from "./account.ts";

/** How a reference is told. */
const ofReference = {
  kind: ({ kind }: SegmentRef): Value => plain(kind),
  first_txid: ({ firstTxid }: SegmentRef): Value => plain(firstTxid),
  last_txid: ({ lastTxid }: SegmentRef): Value => plain(lastTxid),
  epoch: ({ id }: SegmentRef): Value => plain(parsePoolId(id)?.epoch),
  bytes: ({ bytes }: SegmentRef): Value => size(bytes),
  raw_bytes: ({ rawBytes }: SegmentRef): Value => size(rawBytes),
  cut: ({ cut }: SegmentRef): Value => plain(cut),
  last_at: ({ lastAtMs }: SegmentRef): Value => time(lastAtMs),
  sha256: ({ sha256 }: SegmentRef): Value => hex(sha256),
  id: ({ id }: SegmentRef): Value => plain(id),
};

/** Throws StoreError("corrupt") and NewerFormat, as the others here. */
export function buildManifestAccount(bytes: Uint8Array): Account {
  const manifest = decodeManifest(bytes);
  const { uuid, history, garbageBelowUlid } = manifest;
  return {
    fields: {
      database: plain(uuid),
      branch_id: plain(manifest.branchId),
      writer_epoch: plain(manifest.epoch),
      seq: plain(manifest.seq),
      nonce: hex(manifest.nonce),
      previous_sha256: hex(manifest.prevHash),
      node: plain(manifest.node),
      txid: plain(manifest.txid),
      committed_at: time(manifest.committedAtMs),
      reserved_to: plain(manifest.reservedTo),
      pages: plain(manifest.pages),
      database_bytes: size(manifest.pages * pageBytes),
      from_txid: plain(manifest.fromTxid),
      floor_txid: plain(manifest.floorTxid),
      history_key: plain(history && historyKey(uuid, history.id)),
      history_bytes: size(history?.bytes),
      history_sha256: hex(history?.sha256),
      garbage_below_ulid: plain(garbageBelowUlid === "" ? undefined : garbageBelowUlid),
      garbage_below_at: time(garbageBelowUlid === "" ? undefined : ulidTimeMs(garbageBelowUlid)),
    },
    tables: {
      references: buildTable(manifest.refs, ofReference),
      tail: buildTable(manifest.tail, {
        first_txid: ({ firstTxid }) => plain(firstTxid),
        last_txid: ({ lastTxid }) => plain(lastTxid),
        bytes: ({ bytes: held }) => size(held.length),
        raw_bytes: ({ rawBytes }) => size(rawBytes),
        last_at: ({ lastAtMs }) => time(lastAtMs),
      }),
      writer_epochs: buildTable(manifest.writerEpochs, {
        epoch: ({ epoch }) => plain(epoch),
        id: ({ id }) => hex(id),
        first_txid: ({ firstTxid }) => plain(firstTxid),
        // Nothing was written while the last is below the first.
        last_txid: ({ firstTxid, lastTxid }) => plain(lastTxid < firstTxid ? undefined : lastTxid),
      }),
      lost: buildTable(manifest.lost, {
        first_txid: ({ firstTxid }) => plain(firstTxid),
        last_txid: ({ lastTxid }) => plain(lastTxid),
      }),
    },
    damage: [],
  };
}

export function buildHistoryAccount(bytes: Uint8Array): Account {
  const { uuid, branchId, timelines, checkpoints } = decodeHistory(bytes);
  const references = timelines.flatMap(({ refs }, timeline) => refs.map((ref) => ({ ref, timeline })));
  const ofOne = Object.entries(ofReference).map(
    ([column, tell]) => [column, ({ ref }: (typeof references)[number]) => tell(ref)] as const,
  );
  return {
    fields: { database: plain(uuid), branch_id: plain(branchId) },
    tables: {
      checkpoints: buildTable(checkpoints, {
        name: ({ name }) => plain(name),
        txid: ({ txid }) => plain(txid),
        created_at: ({ createdAtMs }) => time(createdAtMs),
      }),
      timelines: buildTable([...timelines.entries()], {
        timeline: ([at]) => plain(at),
        from_txid: ([, { fromTxid }]) => plain(fromTxid),
        to_txid: ([, { toTxid }]) => plain(toTxid),
        ended_at: ([, { endedAtMs }]) => time(endedAtMs),
        references: ([, { refs }]) => plain(refs.length),
      }),
      references: buildTable(references, {
        timeline: ({ timeline }) => plain(timeline),
        ...Object.fromEntries(ofOne),
      }),
    },
    damage: [],
  };
}

export function buildCatalogAccount(bytes: Uint8Array): Account {
  const catalog = decodeCatalog(bytes);
  return {
    fields: {
      database: plain(catalog.uuid),
      seq: plain(catalog.seq),
      nonce: hex(catalog.nonce),
      created_at: time(catalog.createdAtMs),
      deleted_at: time(catalog.deletedAtMs),
    },
    tables: { branches: buildBranchesTable(catalog.branches), condemned: buildCondemnedTable(catalog.condemned) },
    damage: [],
  };
}

function buildBranchesTable(branches: ReturnType<typeof decodeCatalog>["branches"]): Table {
  return buildTable(branches, {
    name: ({ name }) => plain(name),
    branch_id: ({ id }) => plain(id),
    created_at: ({ createdAtMs }) => time(createdAtMs),
    parent: ({ parent }) => plain(parent?.name),
    parent_id: ({ parent }) => plain(parent?.id),
    fork_txid: ({ parent }) => plain(parent?.forkTxid),
    ends_at: ({ ttlAtMs }) => time(ttlAtMs),
  });
}

function buildCondemnedTable(condemned: ReturnType<typeof decodeCatalog>["condemned"]): Table {
  return buildTable(condemned, { key: ({ key }) => plain(key), condemned_at: ({ atMs }) => time(atMs) });
}
