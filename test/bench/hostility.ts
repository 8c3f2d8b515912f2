/**
 * One tenant at full load, with the worst that he may ask for, as a process of its own: what it takes to make his calls
 * must not hold up the one who measures. Entry of that process, and what begins and ends it.
 */
import { fork } from "node:child_process";
import { openClient, type Request } from "./raw-client.ts";
import { buildSentences } from "./writes.ts";

/** Connections of the hostile tenant, and the databases that he spreads them over. */
export const hostileClients = 8;
export const hostileDatabases = 4;

const endlessRead = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s) SELECT count(*) FROM s";
const longWrite =
  "INSERT INTO burden WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 20000000) " +
  "SELECT hex(n) FROM s WHERE n % 100000 = 0";

export const formatDatabaseName = (client: number): string => `hostile--p${client % hostileDatabases}`;

/** A filter with so many conditions that each needs a look into an array. */
function wideFilter(conditions: number): object {
  return { $or: Array.from({ length: conditions }, (_, n) => ({ [`tags.${n % 7}.name`]: { $eq: `none ${n}` } })) };
}

/** What the hostile tenant sends, again and again. */
interface Hostility {
  readonly what: string;
  next(client: number, step: number): Request;
}

interface HostileCounts {
  readonly answered: number;
  readonly refused: number;
}

function makeHostilities(sentences: readonly string[]): readonly Hostility[] {
  const sentence = (n: number): string => sentences[n % sentences.length]!;
  const sql = (client: number, q: string): Request => [
    "POST",
    `/v1/db/${formatDatabaseName(client)}/sql`,
    JSON.stringify({ stmts: [{ q }] }),
  ];
  const find = JSON.stringify({ filter: wideFilter(400), limit: 10 });
  const filter = wideFilter(400);
  return [
    { what: "SQL writes", next: (client) => sql(client, longWrite) },
    { what: "SQL reads", next: (client) => sql(client, endlessRead) },
    {
      what: "wide filters of documents",
      next: (client) => ["POST", `/v1/db/${formatDatabaseName(client)}/docs/d/find`, find],
    },
    {
      what: "ingests of 1,000 memories",
      next: (client, step) => {
        const memories = Array.from({ length: 1_000 }, (_, n) => ({
          type: "event",
          summary: `${sentence(n)} ${step} ${client}`,
          content: { text: sentence(n + step) },
        }));
        return ["POST", `/v1/memory/hostile/p${client % hostileDatabases}/memories`, JSON.stringify({ memories })];
      },
    },
    {
      what: "recalls with hundreds of conditions",
      next: (client, step) => [
        "POST",
        `/v1/memory/hostile/p${client % hostileDatabases}/recall`,
        JSON.stringify({ query: sentence(step), k: 1_000, filter }),
      ],
    },
  ];
}

export const hostilities = makeHostilities(buildSentences(4_096));

/** The connections of the tenant, each sending one call after the other until `isEnded`. */
async function load(port: number, { next }: Hostility, isEnded: () => boolean): Promise<HostileCounts> {
  const counts = { answered: 0, refused: 0 };
  const clients = await Promise.all(Array.from({ length: hostileClients }, async () => openClient("node", port)));
  const running = clients.map(async (connection, client) => {
    for (let step = 0; !isEnded(); step++) {
      const { status } = await connection.send(...next(client, step)).catch(() => ({ status: 0 }));
      if (status >= 200 && status < 300) counts.answered++;
      else counts.refused++;
    }
    connection.close();
  });
  await Promise.all(running);
  return counts;
}

/** Begins the load of that kind; `end` gives what came of it. */
export function beginHostility(port: number, kind: number): { end(): Promise<HostileCounts> } {
  const child = fork(import.meta.filename, [String(port), String(kind)], { execArgv: [] });
  const told = new Promise<HostileCounts>((resolve, reject) => {
    child.once("message", (counts) => resolve(counts as HostileCounts));
    child.once("exit", (code) => reject(new Error(`the hostile load ended with ${code}`)));
  });
  // Whoever fails in between has an error of his own.
  told.catch(() => {});
  return {
    end: async () => {
      child.send("end");
      return told;
    },
  };
}

if (process.argv[1] === import.meta.filename) {
  const [port, kind] = process.argv.slice(2).map(Number) as [number, number];
  let isEnded = false;
  process.once("message", () => (isEnded = true));
  process.once("disconnect", () => process.exit(1));
  const counts = await load(port, hostilities[kind]!, () => isEnded);
  process.send?.(counts, () => process.exit(0));
}
