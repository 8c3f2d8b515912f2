/**
 * Which tests run when: `npm run test:unit` runs the quick ones, `npm test` those too that a change needs, and
 * `npm run test:all` every one. The project of a file (vitest.config.ts) follows from these lists.
 *
 * Always true: a file is in exactly one set, and one that nobody has named is run by `npm test`, or by all three if it
 * lies under `unit`; every pattern is of some file. Seconds are of one core.
 */

/** What is left to `npm run test:all` and the gate: together some 700 seconds. */
export const longTests = [
  // Many seeds, and inputs by the thousand.
  "test/sim/*.test.ts",
  "test/fuzz/{rest-json,sql-functions,sql-guard,wires}.test.ts",
  // Other programs and a model, which `.ci/run` brings; without them they are skipped.
  "test/live/*.test.ts",
  "test/routes/{cluster-key,local-embedding}.test.ts",
  // Processes that are killed and disks that fail, over and over.
  "test/crash/{crash-points,faulty-disk,matrix-log,matrix-process,power-loss,sql-orphans}.test.ts",
  "test/crash/{kill,mcp-kill,watch-kill,webhook-kill}.test.ts",
  "test/unit/engine/processes/{sql-kills,sql-pool,sql-process}.test.ts",
  "test/unit/store/file/{file-store-faults,file-store-races}.test.ts",
  // Fleets that are broken and mended, command by command.
  "test/routes/{backup-command,broken-store,cli-document,disasters,doctor-command,repair-command}.test.ts",
  "test/unit/engine/backup/backup.test.ts",
  // What strangers and hostile tenants try, all of it.
  "test/routes/{allowed-values,badinput}.test.ts",
  "test/routes/{credential-limits,hardening,hostile-schema,sql-boundary,sql-hostile,strangers}.test.ts",
  "test/unit/server/wire/{listener,message-decoder}.test.ts",
  // Shares of a machine, which want it for themselves.
  "test/routes/{fair-share,overload,tracing,weight}.test.ts",
  "test/unit/engine/database/slices.test.ts",
  "test/unit/server/idle-cost.test.ts",
  // Days of a clock, large transactions, long timelines, many vectors, byte after byte.
  "test/routes/{durability,erasure,erasure-residue,erasure-runs,linearizable,shipping,shutdown,tls}.test.ts",
  "test/routes/{watch,webhooks}.test.ts",
  "test/unit/engine/compaction/compactor.test.ts",
  "test/unit/engine/database/transaction-bytes.test.ts",
  "test/unit/engine/erasure/erasure-runner.test.ts",
  "test/unit/engine/history/long-timelines.test.ts",
  "test/unit/engine/maintenance/{collection-races,garbage-collector}.test.ts",
  "test/unit/engine/segments/segment-maker.test.ts",
  "test/unit/engine/shipping/{log-folding,shipper}.test.ts",
  "test/unit/engine/threads/ann.test.ts",
  "test/unit/engine/writer/clocks.test.ts",
  "test/unit/service/jobs/idle-database-sweeper.test.ts",
  "test/unit/sqlite/pages/page-walk.test.ts",
];

/** Under `unit`, what takes more than a second or two and so is no part of `npm run test:unit`. */
export const slowUnitTests = [
  // They start processes, threads or nodes.
  "test/unit/launcher.test.ts",
  "test/unit/server/observability/health.test.ts",
  "test/unit/support/link-proxy.test.ts",
  "test/unit/ai/{assistant,embedder,local-embedder}.test.ts",
  "test/unit/embed-local/{model,small-stores}.test.ts",
  "test/unit/engine/{thread,threads/threads,processes/sql-turn}.test.ts",
  "test/unit/server/cli/{command-line,inspect-command,inspect-store,scan-command,verify-command}.test.ts",
  "test/unit/server/rest/{rest,rest-bodies}.test.ts",
  "test/unit/server/rpc/connect.test.ts",
  // They wait for sockets that time out, or for links that break.
  "test/unit/server/{cluster/{peer-calls,peer-faults,peer-links},node-wire/{peer-messages,value-wire}}.test.ts",
  "test/unit/server/wire/listener-bounds.test.ts",
  // Whole databases go through an engine, fault after fault.
  "test/unit/engine/api/missing-objects.test.ts",
  "test/unit/engine/branches/*.test.ts",
  "test/unit/engine/compaction/{compacted-database,compaction,timeline-length}.test.ts",
  "test/unit/engine/database/{close-faults,faults,retention,stopping}.test.ts",
  "test/unit/engine/engine.test.ts",
  "test/unit/engine/erasure/{erase-live-rows,erasure-blockers,erasure-runner-races,erasure-verifier}.test.ts",
  "test/unit/engine/erasure/{history-truncation,secret-scan}.test.ts",
  "test/unit/engine/history/{catalogs,branch-history,manifest-writer}.test.ts",
  "test/unit/engine/local/*.test.ts",
  "test/unit/engine/opening/restored-files.test.ts",
  "test/unit/engine/pool/ownership-transfer.test.ts",
  "test/unit/engine/replica/*.test.ts",
  "test/unit/engine/segments/{restore,restored-histories}.test.ts",
  "test/unit/engine/shipping/commit-ages.test.ts",
  "test/unit/engine/writer/overtaken.test.ts",
  "test/unit/control/databases/erasure-coupons.test.ts",
  "test/unit/service/erasure/*.test.ts",
  "test/unit/service/jobs/replica-remover.test.ts",
  "test/unit/service/placement/{placement,takeover}.test.ts",
  // Many rows, pages or bytes, one after the other.
  "test/unit/format/history/pages.test.ts",
  "test/unit/model/{erasure,erasure-residue,recall}.test.ts",
  "test/unit/model/docs/{docs,docs-filter,memory-metadata}.test.ts",
  "test/unit/model/memory/{keyword,memory-list}.test.ts",
  "test/unit/model/transcript/turn-batches.test.ts",
  "test/unit/model/vectors/vectors.test.ts",
  "test/unit/sqlite/{sql-authorizer-bounds,wal/wal-reader}.test.ts",
];

/** Where a test is quick unless it is named above. */
export const quickTests = ["test/unit/**/*.test.ts"];

/** Where a test is one that a change needs unless it is named among the long ones. */
export const changeTests = ["test/*.test.ts", "test/!(unit)/**/*.test.ts", ...slowUnitTests];
