/** A real database on a temporary file for tests of the models: commands run in real commit groups. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { limits } from "../../src/base/limits.ts";
import type { Tx, View } from "../../src/model/core/transaction.ts";
import { createSchema } from "../../src/model/schema.ts";
import { VectorCache } from "../../src/model/index/vector-index.ts";
import { Connection } from "../../src/sqlite/connection/connection.ts";
import { runGroup, type CommandOutcome, type Deferred } from "../../src/sqlite/group.ts";

export class ModelDatabase {
  readonly directory = mkdtempSync(join(tmpdir(), "palimpsest-model-"));
  readonly connection = new Connection(join(this.directory, "main.db"), {
    readonly: false,
    pageCacheKiB: limits.pageCacheKiB,
  });
  readonly vectors: VectorCache;
  /** The clock of the next command, in Unix ms. */
  nowMs = 1_700_000_000_000;
  /** What the next group is told of its transaction id; nothing here counts it. */
  txid = 1;
  #ids = 0;

  /** Of the format, by default the newest. */
  constructor(vectors = new VectorCache(), format?: number) {
    createSchema(this.connection, format);
    this.vectors = vectors;
  }

  view(): View {
    return { connection: this.connection, nowMs: this.nowMs, vectors: this.vectors };
  }

  /** Runs the commands as one commit group. */
  group<Result>(...commands: readonly ((tx: Tx) => Result)[]): readonly CommandOutcome<Result>[] {
    const run = commands.map(
      (command) => (deferred: Deferred) =>
        command({
          ...this.view(),
          notes: deferred.notes,
          txid: this.txid,
          newId: () => `id-${String(this.#ids++).padStart(8, "0")}`,
          atGroupEnd: (act) => deferred.atGroupEnd.push(act),
          afterCommit: (act) => deferred.afterCommit.push(act),
        }),
    );
    const { outcomes, afterCommit } = runGroup(this.connection, run, () => {});
    for (const act of afterCommit) act();
    return outcomes;
  }

  /** Runs one command and gives its result, or throws what it threw. */
  write<Result>(command: (tx: Tx) => Result): Result {
    const outcome = this.group(command)[0]!;
    if (outcome.kind === "failed") throw outcome.error;
    return outcome.result;
  }

  close(): void {
    this.connection.close();
    rmSync(this.directory, { recursive: true });
  }
}
