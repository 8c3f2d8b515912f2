/**
 * The endpoint tables of the interface specification as data, row by row, in its order and words.
 * What the specification leaves open and we settled is not here but in the test's own lists.
 */

/** A field: its type in the specification's words, and whether it must be given or what its absence means. */
export interface SpecField {
  readonly type: string;
  readonly required: boolean;
  readonly defaultValue?: number | boolean;
}

export interface SpecRoute {
  readonly method: string;
  readonly path: string;
  /** P, NS, DB, or "P or NS admin"; DB with the least scope. */
  readonly auth: string;
  readonly scope?: "read" | "write" | "admin";
  /** Fields of the body and of the query string. */
  readonly fields: { readonly [name: string]: SpecField };
  readonly status: number;
  /** Marked TX. */
  readonly tx: boolean;
  /** Members of the answer, or the record that it is. */
  readonly answer?: { readonly [name: string]: string } | string;
}

/** A field that must be given. */
export const must = (type: string): SpecField => ({ type, required: true });
/** A field that may be left out, and what that means. */
export const may = (type: string, defaultValue?: number | boolean): SpecField => ({
  type,
  required: false,
  ...(defaultValue === undefined ? {} : { defaultValue }),
});
const branch = { branch: may("string") };
const tokenRequest = { scope: must("string"), expires_in: may("integer", 3600) };

export const controlPlane: readonly SpecRoute[] = [
  {
    method: "POST",
    path: "/v1/databases",
    auth: "P",
    fields: { name: must("string") },
    status: 201,
    tx: false,
    answer: "DatabaseInfo",
  },
  {
    method: "GET",
    path: "/v1/databases",
    auth: "P",
    fields: {},
    status: 200,
    tx: false,
    answer: { databases: "array of DatabaseInfo" },
  },
  { method: "DELETE", path: "/v1/databases/{db}", auth: "P", fields: {}, status: 204, tx: false },
  {
    method: "POST",
    path: "/v1/databases/{db}/tokens",
    auth: "P",
    fields: tokenRequest,
    status: 200,
    tx: false,
    answer: "TokenResponse",
  },
  {
    method: "POST",
    path: "/v1/namespaces/{ns}/tokens",
    auth: "P",
    fields: tokenRequest,
    status: 200,
    tx: false,
    answer: "TokenResponse",
  },
  { method: "GET", path: "/v1/namespaces/{ns}/policy", auth: "P", fields: {}, status: 200, tx: false },
  {
    method: "PUT",
    path: "/v1/namespaces/{ns}/policy",
    auth: "P",
    fields: { policy: must("object or null") },
    status: 200,
    tx: false,
  },
  {
    method: "GET",
    path: "/v1/namespaces/{ns}/audit",
    auth: "P or NS admin",
    fields: {
      from: may("integer"),
      to: may("integer"),
      action: may("string"),
      profile: may("string"),
      outcome: may("string"),
      limit: may("integer", 100),
      cursor: may("string"),
    },
    status: 200,
    tx: false,
    answer: { events: "array of object", next_cursor: "string or null", complete: "boolean" },
  },
];

const profile = "/v1/memory/{ns}/{profile}";

export const agentMemory: readonly SpecRoute[] = [
  {
    method: "GET",
    path: "/v1/memory/{ns}",
    auth: "NS",
    fields: {},
    status: 200,
    tx: false,
    answer: { profiles: "array of object" },
  },
  {
    method: "POST",
    path: `${profile}/memories`,
    auth: "DB",
    scope: "write",
    fields: { memories: must("array of MemoryInput"), ...branch },
    status: 201,
    tx: true,
    answer: { results: "array of IngestItem" },
  },
  {
    method: "GET",
    path: `${profile}/memories/{id}`,
    auth: "DB",
    scope: "read",
    fields: branch,
    status: 200,
    tx: false,
    answer: "Memory",
  },
  {
    method: "DELETE",
    path: `${profile}/memories/{id}`,
    auth: "DB",
    scope: "write",
    fields: branch,
    status: 204,
    tx: false,
  },
  {
    method: "POST",
    path: `${profile}/recall`,
    auth: "DB",
    scope: "read",
    fields: {
      query: may("string"),
      embedding: may("array of number"),
      topic_key: may("string"),
      types: may("array of string"),
      session_id: may("string"),
      source: may("string"),
      k: may("integer", 8),
      include_superseded: may("boolean", false),
      include_turns: may("boolean", false),
      ...branch,
    },
    status: 200,
    tx: true,
    answer: { memories: "array of Memory", turns: "array of Turn" },
  },
  {
    method: "POST",
    path: `${profile}/ask`,
    auth: "DB",
    scope: "read",
    fields: {
      question: must("string"),
      types: may("array of string"),
      session_id: may("string"),
      source: may("string"),
      k: may("integer", 8),
      include_superseded: may("boolean", false),
      ...branch,
    },
    status: 200,
    tx: false,
    answer: { answer: "string or null", sources: "array of string", memories: "array of Memory" },
  },
  {
    method: "POST",
    path: `${profile}/extract`,
    auth: "DB",
    scope: "write",
    fields: {
      turns: must("array of object"),
      session_id: may("string"),
      source: may("string"),
      dry_run: may("boolean", false),
      ...branch,
    },
    status: 200,
    tx: false,
  },
  {
    method: "GET",
    path: `${profile}/sessions`,
    auth: "DB",
    scope: "read",
    fields: branch,
    status: 200,
    tx: false,
    answer: { sessions: "array of object" },
  },
  {
    method: "DELETE",
    path: `${profile}/sessions/{sid}`,
    auth: "DB",
    scope: "write",
    fields: { turns: may("boolean", false), ...branch },
    status: 204,
    tx: false,
  },
  {
    method: "POST",
    path: `${profile}/erasures`,
    auth: "DB",
    scope: "write",
    fields: {
      memory_id: may("string"),
      topic_key: may("string"),
      type: may("string"),
      session_id: may("string"),
      turns: may("boolean"),
      ...branch,
    },
    status: 200,
    tx: false,
    answer: "ErasureCoupon",
  },
  {
    method: "GET",
    path: `${profile}/erasures`,
    auth: "DB",
    scope: "read",
    fields: branch,
    status: 200,
    tx: false,
    answer: { erasures: "array of ErasureCoupon" },
  },
  {
    method: "GET",
    path: `${profile}/erasures/{id}`,
    auth: "DB",
    scope: "read",
    fields: branch,
    status: 200,
    tx: false,
    answer: "ErasureCoupon",
  },
  { method: "GET", path: `${profile}/policy`, auth: "DB", scope: "read", fields: {}, status: 200, tx: false },
  {
    method: "PUT",
    path: `${profile}/policy`,
    auth: "DB",
    scope: "admin",
    fields: { policy: must("object or null") },
    status: 200,
    tx: false,
  },
];

const turns = "/v1/db/{db}/memory/{session}";
const docs = "/v1/db/{db}/docs/{coll}";
const value = "/v1/db/{db}/kv/{ns}/{key}";
const vectors = "/v1/db/{db}/vectors/{coll}";
const branches = "/v1/db/{db}/branches";

/** The tables under `/v1/db`, which have no auth column: their scopes are settled in the test. */
export const substrate: readonly Omit<SpecRoute, "auth">[] = [
  {
    method: "POST",
    path: `${turns}/turns`,
    fields: { role: must("string"), content: must("any JSON"), embedding: may("array of number") },
    status: 200,
    tx: true,
  },
  {
    method: "GET",
    path: `${turns}/turns`,
    fields: { last: may("integer", 20) },
    status: 200,
    tx: false,
    answer: { turns: "array of Turn" },
  },
  {
    method: "POST",
    path: `${turns}/search`,
    fields: { vector: must("array of number"), k: may("integer", 5) },
    status: 200,
    tx: false,
    answer: { turns: "array of Turn" },
  },
  {
    method: "POST",
    path: "/v1/db/{db}/sql",
    fields: { stmts: must("array of object"), txn: may("boolean") },
    status: 200,
    tx: true,
  },
  { method: "POST", path: "/v1/db/{db}/sync", fields: {}, status: 200, tx: true },
  {
    method: "GET",
    path: "/v1/db/{db}/kv/{ns}",
    fields: { prefix: may("string"), limit: may("integer", 100) },
    status: 200,
    tx: false,
    answer: { keys: "array of string" },
  },
  { method: "GET", path: value, fields: { consistency: may("string") }, status: 200, tx: false, answer: "raw" },
  { method: "PUT", path: value, fields: { value: must("raw"), ttl: may("integer") }, status: 200, tx: true },
  { method: "DELETE", path: value, fields: {}, status: 204, tx: false },
  { method: "POST", path: `${docs}/insert`, fields: { docs: must("array of object") }, status: 200, tx: true },
  {
    method: "POST",
    path: `${docs}/find`,
    fields: { filter: may("object"), sort: may("object"), limit: may("integer"), skip: may("integer") },
    status: 200,
    tx: false,
    answer: { docs: "array of object" },
  },
  {
    method: "POST",
    path: `${docs}/update`,
    fields: { filter: must("object"), update: must("object"), multi: may("boolean", false) },
    status: 200,
    tx: false,
  },
  {
    method: "POST",
    path: `${docs}/delete`,
    fields: { filter: must("object"), multi: may("boolean", false) },
    status: 200,
    tx: false,
  },
  { method: "POST", path: `${docs}/indexes`, fields: { path: must("string") }, status: 200, tx: false },
  {
    method: "POST",
    path: vectors,
    fields: { id: must("string"), embedding: must("array of number") },
    status: 200,
    tx: true,
  },
  {
    method: "POST",
    path: `${vectors}/search`,
    fields: { vector: must("array of number"), k: may("integer", 10) },
    status: 200,
    tx: false,
    answer: { hits: "array of object" },
  },
  {
    method: "POST",
    path: branches,
    fields: { name: must("string"), from: may("string"), ttl: may("integer") },
    status: 201,
    tx: false,
  },
  { method: "GET", path: branches, fields: {}, status: 200, tx: false, answer: { branches: "array of object" } },
  { method: "DELETE", path: `${branches}/{branch}`, fields: {}, status: 204, tx: false },
  { method: "POST", path: `${branches}/{branch}/checkpoint`, fields: { name: must("string") }, status: 200, tx: false },
  { method: "POST", path: `${branches}/{branch}/rewind`, fields: { to: must("string") }, status: 200, tx: false },
];
