/**
 * What differs between two states of a database, which one connection sees: the later one as `main`, the earlier one as
 * `past`.
 *
 * By names, ids and counts, never content: what is stored is compared inside SQLite. Always true: a step looks at a
 * bounded number of rows on each side, and all steps from the first position on give every difference once, in one
 * order. Must not know: which states they are, who asks.
 */
import type { Connection, SqlValue } from "../../sqlite/connection/connection.ts";

/** Rows of each side that one step looks at, and sessions, each of which is counted. */
const rowsPerStep = 1_000;
const sessionsPerStep = 100;
/** A table of user SQL is counted so far. */
const diffRowsCountedMax = 1_000_000;

type DiffKind = "memory" | "file" | "key" | "turns" | "vector" | "document" | "table";

/** One difference: of what kind, where, under which name, and what became of it. */
export interface Difference {
  readonly kind: DiffKind;
  readonly change: string;
  /** The namespace of a key, the collection of a document or a vector; undefined for the others. */
  readonly within?: string | undefined;
  readonly name: string;
  /** Where a file was moved to. */
  readonly movedTo?: string | undefined;
  /** Of a session's turns and of a table's rows, how many there were and are. */
  readonly before?: number | undefined;
  readonly after?: number | undefined;
}

/** Where a step begins: behind these keys of a section; undefined keys: at its beginning. */
export interface DiffPosition {
  readonly section: string;
  readonly after?: readonly string[] | undefined;
}

/** What a step has found, and where the next one begins; undefined when all was compared. */
export interface DiffStep {
  readonly differences: readonly Difference[];
  readonly next: DiffPosition | undefined;
}

type Side = "main" | "past";

interface Row {
  readonly k0: string;
  readonly k1: string | null;
  readonly inMain: number;
  readonly inPast: number;
  /** What of the two rows the section's kind tells a change by. */
  readonly m: SqlValue;
  readonly p: SqlValue;
}

/** One kind of rows, or those of one collection. */
interface Section {
  readonly name: string;
  readonly kind: DiffKind;
  readonly keys: 1 | 2;
  /** The rows of a side: `k0`, `k1`, whatever is compared, and `told`. Undefined where the side has no such table. */
  readonly from: (side: Side) => string | undefined;
  readonly compared: readonly string[];
  readonly tell: (row: Row) => Omit<Difference, "kind"> | undefined;
}

const presence = ({ inMain, inPast }: Row): string => (!inPast ? "added" : !inMain ? "removed" : "changed");

function hasTable(connection: Connection, side: Side, name: string): boolean {
  const sql = `SELECT 1 AS there FROM ${side}.sqlite_schema WHERE type = 'table' AND name = ?`;
  return connection.get(sql, name) !== undefined;
}

function memorySection(connection: Connection): Section {
  // Details of a memory have tables that are made when they are first needed.
  const detail = (side: Side, table: string, column: string): string =>
    hasTable(connection, side, table) ? `(SELECT ${column} FROM ${side}.${table} AS d WHERE d.memory = m.row)` : "NULL";
  return {
    name: "memory",
    kind: "memory",
    keys: 1,
    from: (side) =>
      `SELECT m.id AS k0, m.superseded_by AS told, m.superseded_by AS v0, m.expires_at AS v1, m.keywords AS v2,
         m.summary AS v3, m.content AS v4, ${detail(side, "__service_memory_metadata", "metadata")} AS v5,
         ${detail(side, "__service_memory_pin", "1")} AS v6
       FROM ${side}.__service_memory AS m`,
    compared: ["v0", "v1", "v2", "v3", "v4", "v5", "v6"],
    tell: (row) => ({ name: row.k0, change: memoryChange(row) }),
  };
}

function memoryChange(row: Row): string {
  if (!row.inMain) return "forgotten";
  if (!row.inPast) return "added";
  // A mark of a state, which is no id, stands in the place of a superseder too.
  const isSuperseded = row.p === null && typeof row.m === "string" && row.m.startsWith("mem_");
  return isSuperseded ? "superseded" : "changed";
}

/** The section of files: a text that is under another path now was moved there. */
function fileSection(connection: Connection): Section {
  const has = (side: Side): boolean => hasTable(connection, side, "__service_file");
  const both = has("main") && has("past");
  // Where it went is told by the version that says so, if the file is still gone.
  const movedTo = (side: Side): string =>
    side === "main" || !both
      ? "NULL"
      : `(SELECT t.path
            FROM past.__service_file_version AS v, main.__service_file_version AS t, main.__service_file AS n
            WHERE v.row = f.row AND t.text = v.text AND n.row = t.row AND t.hash = v.hash
              AND NOT EXISTS (SELECT 1 FROM past.__service_file AS o WHERE o.path = t.path)
            ORDER BY t.path LIMIT 1)`;
  return {
    name: "file",
    kind: "file",
    keys: 1,
    from: (side) =>
      has(side)
        ? `SELECT f.path AS k0, (SELECT v.hash FROM ${side}.__service_file_version AS v WHERE v.row = f.row) AS v0,
             ${movedTo(side)} AS told FROM ${side}.__service_file AS f`
        : undefined,
    compared: ["v0"],
    tell: (row) => {
      if (row.inMain) return { name: row.k0, change: "put" };
      return typeof row.p === "string"
        ? { name: row.k0, change: "moved", movedTo: row.p }
        : { name: row.k0, change: "deleted" };
    },
  };
}

const keySection: Section = {
  name: "key",
  kind: "key",
  keys: 2,
  from: (side) => `SELECT ns AS k0, key AS k1, value AS v0, expires_at AS v1, NULL AS told FROM ${side}.__service_kv`,
  compared: ["v0", "v1"],
  tell: (row) => ({ within: row.k0, name: row.k1!, change: presence(row) }),
};

function vectorSection(connection: Connection, collection: string): Section {
  const find = (side: Side): number | undefined =>
    connection.get<{ n: number }>(
      `SELECT space AS n FROM ${side}.__service_vector_space WHERE kind = 'collection' AND name = ?`,
      collection,
    )?.n;
  const metadata = (side: Side): string =>
    hasTable(connection, side, "__service_vector_detail")
      ? `(SELECT d.length || ' ' || ifnull(d.metadata, '') FROM ${side}.__service_vector_detail AS d
            WHERE d.owner = i.owner)`
      : "NULL";
  return {
    name: `vector/${collection}`,
    kind: "vector",
    keys: 1,
    from: (side) => {
      const space = find(side);
      return space === undefined
        ? undefined
        : `SELECT i.id AS k0, (SELECT v.embedding FROM ${side}.__service_vector AS v
               WHERE v.space = i.space AND v.owner = i.owner) AS v0, ${metadata(side)} AS v1, NULL AS told
             FROM ${side}.__service_vector_item AS i WHERE i.space = ${space}`;
    },
    compared: ["v0", "v1"],
    tell: (row) => ({ within: collection, name: row.k0, change: presence(row) }),
  };
}

function documentSection(connection: Connection, collection: string): Section {
  const find = (side: Side): number | undefined =>
    connection.get<{ n: number }>(
      `SELECT collection AS n FROM ${side}.__service_doc_collections WHERE name = ?`,
      collection,
    )?.n;
  return {
    name: `document/${collection}`,
    kind: "document",
    keys: 1,
    from: (side) => {
      const number = find(side);
      return number === undefined
        ? undefined
        : `SELECT id AS k0, doc AS v0, NULL AS told FROM ${side}.__service_doc_${number}`;
    },
    compared: ["v0"],
    tell: (row) => ({ within: collection, name: row.k0, change: presence(row) }),
  };
}

function listSections(connection: Connection): readonly string[] {
  const names = (kind: string, sql: (side: Side) => string): string[] =>
    connection
      .all<{ name: string }>(`${sql("main")} UNION ${sql("past")} ORDER BY name`)
      .map(({ name }) => `${kind}/${name}`);
  return [
    "memory",
    "file",
    "key",
    "turns",
    ...names("vector", (side) => `SELECT name FROM ${side}.__service_vector_space WHERE kind = 'collection'`),
    ...names("document", (side) => `SELECT name FROM ${side}.__service_doc_collections`),
    "table",
  ];
}

function openSection(connection: Connection, section: string): Section {
  const [kind, collection = ""] = section.split("/");
  if (kind === "memory") return memorySection(connection);
  if (kind === "file") return fileSection(connection);
  if (kind === "key") return keySection;
  return kind === "vector" ? vectorSection(connection, collection) : documentSection(connection, collection);
}

/** The position of the first step. */
export const diffBegin: DiffPosition = { section: "memory" };

/** Whether a position can be one: of a known section, with keys of its kind. */
export function isDiffPosition(value: unknown): value is DiffPosition {
  const { section, after } = (value ?? {}) as Partial<DiffPosition>;
  const isSection =
    typeof section === "string" &&
    /^(?:memory|file|key|turns|table|(?:vector|document)\/[A-Za-z0-9_-]{1,64})$/.test(section);
  if (!isSection || after === undefined) return isSection;
  const keys = section === "key" ? 2 : 1;
  return Array.isArray(after) && after.length === keys && after.every((key) => typeof key === "string");
}

/** One step of the comparison, with at most `limit` differences. */
export function diffStep(connection: Connection, position: DiffPosition, limit: number): DiffStep {
  const sections = listSections(connection);
  const at = sections.indexOf(position.section);
  const following = sections[at + 1];
  const after = following === undefined ? undefined : { section: following };
  if (position.section === "table") return tableStep(connection, position);
  if (position.section === "turns") return turnStep(connection, position, limit, after!);
  // Of a collection that neither has: it was in a cursor that was made up.
  if (at < 0) return { differences: [], next: { section: "table" } };
  return rowStep(connection, openSection(connection, position.section), position, limit, after);
}

function rowStep(
  connection: Connection,
  section: Section,
  { after }: DiffPosition,
  limit: number,
  following: DiffPosition | undefined,
): DiffStep {
  const [main, past] = [section.from("main"), section.from("past")];
  if (main === undefined && past === undefined) return { differences: [], next: following };
  const keys = section.keys === 1 ? "k0" : "k0, k1";
  const marks = section.keys === 1 ? "?" : "?, ?";
  const begin = after ?? [];
  const above = after ? `(${keys}) > (${marks})` : "1";
  const until = findEnd(connection, section, [main, past], begin, above);
  const range = until ? `${above} AND (${keys}) <= (${marks})` : above;
  const columns = ["k0", "k1", "told", ...section.compared].map((column) => `NULL AS ${column}`);
  const nothing = `SELECT ${columns.join(", ")} WHERE 0`;
  const same = section.keys === 1 ? "s.k0 = k.k0" : "s.k0 = k.k0 AND s.k1 = k.k1";
  const onSide = (sql: string | undefined, name: string): string => {
    const rows = `SELECT 1 AS there, * FROM (${sql ?? nothing}) WHERE ${range}`;
    return `LEFT JOIN (${rows}) AS ${name} ON ${same.replaceAll("s.", `${name}.`)}`;
  };
  const differs = section.compared.map((v) => `m.${v} IS NOT p.${v}`).join(" OR ");
  const keysOf = (sql: string | undefined): string => `SELECT ${keys} FROM (${sql ?? nothing}) WHERE ${range}`;
  const parameters = [...begin, ...(until ?? [])];
  const rows = connection.all<Row>(
    `SELECT k.k0, ${section.keys === 1 ? "NULL" : "k.k1"} AS k1, m.there IS NOT NULL AS inMain,
       p.there IS NOT NULL AS inPast, m.told AS m, p.told AS p
     FROM (${keysOf(main)} UNION ${keysOf(past)}) AS k ${onSide(main, "m")} ${onSide(past, "p")}
     WHERE m.there IS NOT p.there OR ${differs}
     ORDER BY ${section.keys === 1 ? "k.k0" : "k.k0, k.k1"} LIMIT ?`,
    ...[parameters, parameters, parameters, parameters].flat(),
    BigInt(limit + 1),
  );
  const differences = rows.slice(0, limit).flatMap((row) => {
    const told = section.tell(row);
    return told ? [{ kind: section.kind, ...told }] : [];
  });
  const last = rows[limit - 1];
  if (rows.length > limit && last)
    return {
      differences,
      next: { section: section.name, after: section.keys === 1 ? [last.k0] : [last.k0, last.k1!] },
    };
  return { differences, next: until ? { section: section.name, after: until } : following };
}

/** The keys up to which a step goes: the lesser of where each side's rows of the step end; undefined for the rest. */
function findEnd(
  connection: Connection,
  { keys }: Section,
  sides: readonly (string | undefined)[],
  begin: readonly string[],
  above: string,
): readonly string[] | undefined {
  const columns = keys === 1 ? "k0" : "k0, k1";
  const ends = sides.flatMap((sql) => {
    if (sql === undefined) return [];
    const found = connection.get<{ k0: string; k1?: string }>(
      `SELECT ${columns} FROM (${sql}) WHERE ${above} ORDER BY ${columns} LIMIT 1 OFFSET ?`,
      ...begin,
      BigInt(rowsPerStep - 1),
    );
    return found ? [keys === 1 ? [found.k0] : [found.k0, found.k1!]] : [];
  });
  const [first, second] = ends;
  if (!first || !second) return first;
  const marks = keys === 1 ? "?" : "?, ?";
  const sql = `SELECT (${marks}) <= (${marks}) AS less`;
  return connection.get<{ less: number }>(sql, ...first, ...second)!.less ? first : second;
}

/** The sessions that come next on either side, each counted by itself. */
function turnStep(
  connection: Connection,
  { after = [""] }: DiffPosition,
  limit: number,
  following: DiffPosition,
): DiffStep {
  const differences: Difference[] = [];
  let [session] = after as [string];
  for (let looked = 0; looked < sessionsPerStep && differences.length < limit; looked++) {
    const least = (side: Side): string =>
      `SELECT min(session_id) AS id FROM ${side}.__service_turn WHERE session_id > ?`;
    const sql = `SELECT min(id) AS id FROM (${least("main")} UNION ALL ${least("past")})`;
    const { id } = connection.get<{ id: string | null }>(sql, session, session)!;
    if (id === null) return { differences, next: following };
    session = id;
    const count = (side: Side): { turns: number; last: number | null } =>
      connection.get(
        `SELECT count(*) AS turns, max(seq) AS last FROM ${side}.__service_turn WHERE session_id = ?`,
        id,
      )!;
    const [now, then] = [count("main"), count("past")];
    if (now.turns === then.turns && now.last === then.last) continue;
    const change = then.turns === 0 ? "added" : now.turns === 0 ? "removed" : "changed";
    differences.push({ kind: "turns", change, name: id, before: then.turns, after: now.turns });
  }
  return { differences, next: { section: "turns", after: [session] } };
}

/** Tables of user SQL, one in a step: each is counted. */
function tableStep(connection: Connection, { after = [""] }: DiffPosition): DiffStep {
  const names = (side: Side): string =>
    `SELECT name FROM ${side}.sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_\\_service\\_%' ESCAPE '\\'
       AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name > ? AND sql NOT LIKE 'CREATE VIRTUAL%'`;
  const found = connection.get<{ name: string }>(
    `SELECT name FROM (${names("main")} UNION ${names("past")}) ORDER BY name LIMIT 1`,
    after[0]!,
    after[0]!,
  );
  if (!found) return { differences: [], next: undefined };
  const { name } = found;
  const quoted = `"${name.replaceAll('"', '""')}"`;
  const count = (side: Side): number | undefined => {
    if (!hasTable(connection, side, name)) return undefined;
    return connection.get<{ n: number }>(
      `SELECT count(*) AS n FROM (SELECT 1 FROM ${side}.${quoted} LIMIT ${diffRowsCountedMax})`,
    )!.n;
  };
  const [now, then] = [count("main"), count("past")];
  const next = { section: "table", after: [name] };
  if (now === then) return { differences: [], next };
  const change = then === undefined ? "added" : now === undefined ? "removed" : "changed";
  return { differences: [{ kind: "table", change, name, before: then ?? 0, after: now ?? 0 }], next };
}
