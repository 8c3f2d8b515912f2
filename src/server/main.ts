#!/usr/bin/env node
/**
 * The entry of the command `palimpsest`: sets what must be set before anything is loaded, then hands over.
 *
 * Must stay free of static imports: the first fsync, DNS look-up or compression starts libuv's pool, whose size is
 * read then and never again (tried on Node 24: assigned here, a later import finds 16 workers; after a static import
 * that uses the pool it would find 4). Commits wait for fsync: 14,600 a second at 4 workers, 20,800 at 16.
 */
process.env["UV_THREADPOOL_SIZE"] ??= "16";

const { runCommandLine } = await import("./cli/command-line.ts");
const code = await runCommandLine(process);
// Everything is closed: whatever a library still holds open must not keep a stopped node alive.
process.exit(code);
