/** Names that one file alone may use, or a few, and what the others do instead. */

/** A name that only some files may use. */
interface ReservedName {
  readonly pattern: RegExp;
  readonly name: string;
  readonly allowedIn: readonly string[];
  readonly remedy: string;
}

const world = ["base/world.ts"];
const takeTime = "take the time from World, View or Tx";
const takeTimer = "use World.after, World.soon or sleep";
/** Where files are written: there the counts are looked at, and what is written is synced. */
const disks = ["base/disk.ts", "store/file/file-system.ts"];
/** A pipe is no file: nothing of it stays. */
const pipes = ["engine/processes/sql-channel.ts"];
const throughDisk =
  "write through base/disk (writeWhole, placeFile, markFile), which leaves nothing half written and unsynced";
const takeChance = "use World.randomBytes or World.ulid";

export const reservedNames: readonly ReservedName[] = [
  { pattern: /\bDate\s*\.\s*now\b/g, name: "Date.now", allowedIn: world, remedy: takeTime },
  { pattern: /\bnew\s+Date\s*(?:\(\s*\)|(?![\s(]))/g, name: "new Date()", allowedIn: world, remedy: takeTime },
  { pattern: /(?<!new\s+)(?<![.\w])Date\s*\(/g, name: "Date()", allowedIn: world, remedy: takeTime },
  {
    pattern: /(?<![.\w])performance\s*\./g,
    name: "performance",
    allowedIn: [...world, "sqlite/idle-memory.ts"],
    remedy: takeTime,
  },
  { pattern: /\bprocess\s*\.\s*(?:hrtime|uptime)\b/g, name: "process.hrtime", allowedIn: world, remedy: takeTime },
  {
    pattern: /(?<!\.)\bset(?:Timeout|Interval|Immediate)\b/g,
    name: "setTimeout, setInterval or setImmediate",
    allowedIn: world,
    remedy: takeTimer,
  },
  { pattern: /\bAbortSignal\s*\.\s*timeout\b/g, name: "AbortSignal.timeout", allowedIn: world, remedy: takeTimer },
  { pattern: /\bMath\s*\.\s*random\b/g, name: "Math.random", allowedIn: world, remedy: takeChance },
  {
    pattern: /(?<![.\w])random(?:Bytes|UUID|Int|Fill|FillSync)\b/g,
    name: "the system's random source",
    allowedIn: world,
    remedy: takeChance,
  },
  {
    pattern: /\bcrypto\s*\.\s*(?:random\w+|getRandomValues)\b/g,
    name: "the system's random source",
    allowedIn: world,
    remedy: takeChance,
  },
  {
    pattern: /\bprocess\s*\.\s*env\b/g,
    name: "process.env",
    allowedIn: ["server/config/config.ts", "server/main.ts"],
    remedy: "add a row to the table in server/config/config.ts and hand the value down",
  },
  {
    pattern: /\bprocess\s*\.\s*argv\b/g,
    name: "process.argv",
    allowedIn: ["server/main.ts"],
    remedy: "add a setting to server/config/config.ts: its flag comes with it",
  },
  { pattern: /(?<![.\w])console\s*\./g, name: "console", allowedIn: [], remedy: "use the Log that is handed in" },
  {
    pattern: /\b(?:write|writev|writeFile|appendFile|pwrite|pwritev)Sync\b/g,
    name: "a write of node:fs",
    allowedIn: [...disks, ...pipes],
    remedy: throughDisk,
  },
  {
    pattern: /\b(?:writev|writeFile|appendFile|createWriteStream|pwrite)\s*\(/g,
    name: "a write of node:fs",
    allowedIn: disks,
    remedy: throughDisk,
  },
  {
    pattern: /\bnew\s+Worker\b/g,
    name: "new Worker",
    allowedIn: ["engine/threads/threads.ts"],
    remedy: "use startThread, which tells V8 what a thread of ours needs",
  },
];
