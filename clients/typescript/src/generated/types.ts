// Generated from the OpenAPI document by `npm run clients`; do not edit.

/** Any JSON. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;

/** A JSON object. */
export interface JsonObject {
  readonly [member: string]: Json | undefined;
}

/** What ControlService.CreateDatabase takes. */
export interface CreateDatabaseRequest {
  /** 1 to 64 characters of `a-z`, `0-9`, `_` and `-`, starting with a letter or digit, without `--` (profiles own that). Must be 1 to 64 characters of a-z, 0-9, _ and -, start with a letter or digit, and not contain -- (that form belongs to profiles). */
  readonly name: string;
}

/** A database. */
export interface DatabaseInfo {
  /** Its name. A profile's database is named `{ns}--{profile}`. */
  readonly name: string;
  /** Its identity: a database that is deleted and created again has another. */
  readonly uuid: string;
  /** When it was created, in Unix milliseconds. */
  readonly createdAt: number;
}

/** What ControlService.ListDatabases gives. */
export interface ListDatabasesResponse {
  /** All databases, by name. */
  readonly databases: readonly DatabaseInfo[];
}

/** What ControlService.MintDatabaseToken takes. */
export interface MintDatabaseTokenRequest {
  /** `read`, `write` or `admin`; each includes the one before. */
  readonly scope: "read" | "write" | "admin";
  /** Lifetime in seconds, at most 2592000 (30 days). */
  readonly expiresIn?: number | null | undefined;
}

/** A minted token. */
export interface TokenResponse {
  /** The token: a JWT signed with Ed25519, verifiable with the keys at `/.well-known/jwks.json`. */
  readonly token: string;
  /** Its lifetime in seconds. */
  readonly expiresIn: number;
  /** Its id, the claim `jti`, by which it can be revoked. */
  readonly jti: string;
}

/** What ControlService.MintNamespaceToken takes. */
export interface MintNamespaceTokenRequest {
  /** `read`, `write` or `admin`; each includes the one before. */
  readonly scope: "read" | "write" | "admin";
  /** Lifetime in seconds, at most 2592000 (30 days). */
  readonly expiresIn?: number | null | undefined;
}

/** The policy of a namespace. */
export interface NamespacePolicy {
  /** The namespace. */
  readonly namespace: string;
  /** Counts the changes, from 1. */
  readonly revision: number;
  /** When it was last changed, in Unix milliseconds. */
  readonly updatedAt: number;
  /** The policy document; null when it was cleared. */
  readonly policy: JsonObject | null;
  /** What the document says that means nothing to this node: fields that it does not know, and so does not enforce. In the answer to a change only, and absent when there is nothing. */
  readonly warnings?: readonly string[] | undefined;
}

/** What ControlService.PutNamespacePolicy takes. */
export interface PutNamespacePolicyRequest {
  /** The whole policy document, or null to clear it. Fields: `retention.pitr_secs`, `retention.pitr_snapshot_secs`, `memory.task_ttl_max_secs`, `memory.event_max_age_secs`, `memory.superseded_max_age_secs`, `memory.superseded_max_count`, `memory.trusted_sources` (a list of at most 100 sources: memories of any other source, or of none, are proposed and wait for a review), `ai_egress.extract`, `ai_egress.ask` and `ai_egress.embed` (each `allow`, `self_hosted_only` or `deny`), `egress.webhooks` (likewise), `audit.enabled`, `audit.include_reads`, `audit.include_data` (writes of SQL, documents, keys, vectors and turns too), `audit.retention_secs`, `erasure.grace_secs`, `erasure.purge_on_forget` (of memories that are forgotten or rejected; ending a session, and deleting turns and other records, stay plain). Durations are seconds, at least 60 (`erasure.grace_secs` may be 0); counts are at least 1. Unknown fields are kept and given back; unknown values are refused. */
  readonly policy: JsonObject | null;
}

/** What ControlService.ReadAudit gives. */
export interface ReadAuditResponse {
  /** The events, oldest first. */
  readonly events: readonly AuditEvent[];
  /** Where the next page begins; null on the last page. */
  readonly nextCursor: string | null;
  /** Whether the page holds every matching event of its window that has been flushed. The node that answers flushes its own events first; those of other nodes come within their `SERVICE_AUDIT_FLUSH_MS`. */
  readonly complete: boolean;
  /** The names (`SERVICE_NODE_ID`) of the nodes that recorded these events, by their identities, as far as they are known. */
  readonly nodes?: JsonObject | undefined;
}

/** One thing that happened in a namespace: metadata, never content. */
export interface AuditEvent {
  /** The version of the event's form. */
  readonly v: number;
  /** The event's id, unique. */
  readonly id: string;
  /** When it happened, in Unix milliseconds. */
  readonly ts: number;
  /** The identity of the node that recorded it: a ULID that is made with its data directory. */
  readonly node: string;
  /** The namespace. */
  readonly ns: string;
  /** The profile, where one is concerned. */
  readonly profile?: string | undefined;
  /** The branch, where one is concerned. */
  readonly branch?: string | undefined;
  /** What was done: `memory.ingest`, `memory.extract`, `memory.forget`, `memory.session_end`, `memory.recall`, `memory.get`, `memory.ask`, `ai.extract`, `ai.ask`, `ai.embed`, `token.mint`, `policy.update`, `db.delete`, `erasure.requested`, `erasure.completed`, `memory.list`, `memory.review`, `memory.history`, `token.revoke`, `branch.create`, `branch.delete`, `branch.rewind`, `branch.checkpoint`, `branch.checkpoint_delete`, `branch.undo`, `changes.watch`, `db.export`, `db.import`; with `audit.include_data` also `sql.write`, `kv.put`, `kv.delete`, `docs.insert`, `docs.put`, `docs.update`, `docs.delete`, `docs.index`, `vectors.upsert`, `vectors.delete`, `turns.append`, `turns.delete`, `turns.replace`, `files.put`, `files.edit`, `files.move` and `files.delete`; or `audit.dropped` where events are missing. */
  readonly action: string;
  /** What is concerned: the id of a memory or a coupon (never an erasure's target), the name of a database, or the level of a policy, `namespace` or `profile`, or `embedder` where the floor of the profile's embedder was set. */
  readonly resource?: string | undefined;
  /** `ok`, `denied` or `error`. */
  readonly outcome: string;
  /** The transaction id of the change. */
  readonly txid?: number | undefined;
  /** How many records were changed or given; of `audit.dropped`, how many events are missing. */
  readonly count?: number | undefined;
  /** Who did it. */
  readonly actor?: AuditActor | undefined;
  /** What left for an outside model. */
  readonly egress?: AuditEgress | undefined;
  /** The error code of a failure or denial. */
  readonly error?: string | undefined;
  /** The token that was minted or revoked; on `token.mint` and `token.revoke` only. */
  readonly grant?: AuditGrant | undefined;
  /** Of the event before of the same node in this stream, the SHA-256 in hexadecimal of its JSON as REST gives it, so that a removed event shows; 64 zeros in a node's first (docs/verifying.md). */
  readonly prev: string;
}

/** Who acted, told by the credential and never by the credential itself. */
export interface AuditActor {
  /** `token`, `platform`, `internal` or `anonymous`. */
  readonly kind: string;
  /** 16 hexadecimal digits of a keyed hash of the credential. */
  readonly tokenHash?: string | undefined;
  /** The credential's scope. */
  readonly scope?: string | undefined;
  /** The database that a per-database token names. */
  readonly claimDb?: string | undefined;
  /** The namespace that a namespace token names. */
  readonly claimNs?: string | undefined;
  /** When the token was minted, in Unix seconds, as in its claim. */
  readonly iat?: number | undefined;
}

/** What left for an outside model, in sizes. */
export interface AuditEgress {
  /** The provider. */
  readonly provider: string;
  /** The model. */
  readonly model: string;
  /** The host that received it. */
  readonly endpointHost: string;
  /** Whether that host counts as self-hosted. */
  readonly selfHosted: boolean;
  /** Items sent. */
  readonly inputItems: number;
  /** Bytes of text sent. */
  readonly inputBytes: number;
  /** Items received. */
  readonly outputItems: number;
  /** How long it took, in milliseconds. */
  readonly durationMs: number;
}

/** A token, told by its claims and never by itself. */
export interface AuditGrant {
  /** The token's id, its claim `jti`. */
  readonly jti: string;
  /** Its scope; on `token.mint` only. */
  readonly scope?: string | undefined;
  /** Its lifetime in seconds; on `token.mint` only. */
  readonly expiresIn?: number | undefined;
  /** The database that it covers, or */
  readonly db?: string | undefined;
  /** the namespace that it covers. */
  readonly ns?: string | undefined;
}

/** What ControlService.GetNamespaceUsage gives. */
export interface GetNamespaceUsageResponse {
  /** The namespace. */
  readonly namespace: string;
  /** How many databases the page has. */
  readonly databases: number;
  /** Bytes of their objects together. */
  readonly objectBytes: number;
  /** Whether that is less than all, as a database has more objects than are counted. */
  readonly approximate: boolean;
  /** The profiles of the page, by name. */
  readonly profiles: readonly ProfileUsage[];
  /** Where the next page begins; null on the last page. */
  readonly nextCursor: string | null;
}

/** What one profile takes. */
export interface ProfileUsage {
  /** Its name. */
  readonly profile: string;
  /** Bytes of its objects in object storage: all branches, their history, and what waits to be collected. */
  readonly objectBytes: number;
  /** How many objects these are. */
  readonly objects: number;
  /** Whether there are more: a database's first 20,000 objects are counted. */
  readonly approximate: boolean;
  /** When its branch `main` was last written, in Unix milliseconds, as far as object storage has it; absent while nothing was ever written. */
  readonly lastActiveAt?: number | undefined;
  /** Bytes of the database file of `main`, in the same state. */
  readonly bytes?: number | undefined;
}

/** What MemoryService.ListProfiles gives. */
export interface ListProfilesResponse {
  /** The namespace. */
  readonly namespace: string;
  /** The profiles, by name. */
  readonly profiles: readonly Profile[];
  /** Where the next page begins; absent on the last page. */
  readonly nextCursor?: string | undefined;
}

/** A profile of a namespace. */
export interface Profile {
  /** Its name. */
  readonly profile: string;
  /** When it was created, in Unix milliseconds. */
  readonly createdAt: number;
  /** When its branch `main` was last written, in Unix milliseconds, as far as object storage has it: a second late, or more where shipping waits. There with `include` only, and absent while nothing was ever written. */
  readonly lastActiveAt?: number | undefined;
  /** Bytes of the database file of `main`, in the same state. There with `last_active_at`. */
  readonly bytes?: number | undefined;
}

/** A memory to be stored. */
export interface MemoryInput {
  /** `fact`, `event`, `instruction` or `task`. */
  readonly type: "fact" | "event" | "instruction" | "task";
  /** A one-line gist, found by its words; not blank, at most 8 KiB. Must be 1 to 8192 bytes of UTF-8 text. */
  readonly summary: string;
  /** The full payload: any JSON, at most 1 MiB; null is a value like any other. */
  readonly content: Json;
  /** The topic on which a `fact` or `instruction` supersedes the one before; refused on other types. Must be 1 to 512 bytes of UTF-8 text. */
  readonly topicKey?: string | null | undefined;
  /** Further words to be found by, separated by spaces. Must be at most 8192 bytes of UTF-8 text. */
  readonly keywords?: string | null | undefined;
  /** The memory's vector. Absent: the node makes one where an embedder is configured (not for tasks). */
  readonly embedding?: readonly number[] | null | undefined;
  /** The session it comes from, 1 to 128 bytes. Must be 1 to 128 bytes of UTF-8 text. */
  readonly sessionId?: string | null | undefined;
  /** The agent it comes from; provenance, not identity. Must be 1 to 256 bytes of UTF-8 text. */
  readonly source?: string | null | undefined;
  /** Lifetime in seconds of a `task`, clamped by the policy's `memory.task_ttl_max_secs`; refused on other types. */
  readonly ttl?: number | null | undefined;
  /** What else is to be known of it, for filters: an object of any JSON, at most 16 KiB, no field name at its top beginning with `$`. It is no part of what makes two memories the same: that of a duplicate is passed over. */
  readonly metadata?: JsonObject | null | undefined;
  /** Pin it: it comes first in context blocks. It is no part of what makes two memories the same, and pins the existing one of a duplicate; what it supersedes loses nothing, and hands nothing on. */
  readonly pinned?: boolean | null | undefined;
  /** `proposed`: it waits for ReviewMemory, and is not recalled, shown in context blocks or the same as another until it is approved. `active`, or absent: it is taken in, unless the policy's `memory.trusted_sources` leaves its source out; then it is proposed all the same. */
  readonly status?: "active" | "proposed" | null | undefined;
  /** Whom the record is about, such as `user-7`, 1 to 256 bytes: what an erasure by subject finds it by. Memories of different subjects are different memories. Must be 1 to 256 bytes of UTF-8 text. */
  readonly subject?: string | null | undefined;
  /** From when on it holds in the world, in Unix milliseconds, which may be before 1970; absent: from ever. It is a part of what makes two memories the same, as is `valid_until`. */
  readonly validFrom?: number | null | undefined;
  /** Until when it holds in the world, and not at that time any more; must be later than `valid_from`. Absent: without end. */
  readonly validUntil?: number | null | undefined;
  /** The turns and memories that it was derived from, at most 32, each of which must be there. They are no part of what makes two memories the same; those of a duplicate are added to what the existing one has, as far as 32 hold them. */
  readonly derivedFrom?: readonly MemoryLinkInput[] | null | undefined;
}

/** What a memory was derived from: `memory_id`, or a turn of `session_id` by its `seq` or its `turn_id`. */
export interface MemoryLinkInput {
  /** A memory of the branch. Must be 1 to 64 bytes of UTF-8 text. */
  readonly memoryId?: string | null | undefined;
  /** A session. Must be 1 to 128 bytes of UTF-8 text. */
  readonly sessionId?: string | null | undefined;
  /** The number of a turn of the session, from 1. */
  readonly seq?: number | null | undefined;
  /** The id that a turn of the session was appended with, in the place of its number. Must be 1 to 128 bytes of UTF-8 text. */
  readonly turnId?: string | null | undefined;
}

/** What MemoryService.Ingest takes. */
export interface IngestRequest {
  /** The memories, 1 to 1000. One that is not valid fails them all. */
  readonly memories: readonly MemoryInput[];
}

/** What MemoryService.Ingest gives. */
export interface IngestResponse {
  /** What became of each memory, in the order given. */
  readonly results: readonly IngestItem[];
  /** The database's transaction id after the ingest. */
  readonly txid: number;
}

/** What became of one memory of an ingest. */
export interface IngestItem {
  /** The memory's id; that of the existing one for a duplicate. */
  readonly id: string;
  /** `created`, `duplicate` of an active memory, or `proposed`: it waits for a review, as it was asked or as the policy demands. The same proposal again is the one that waits. */
  readonly status: string;
  /** The ids of the memories that this one superseded. */
  readonly superseded: readonly string[];
  /** Why the vector was left out; the memory is found by its words and topic. `skipped_dimension`: its dimension is not that of the profile's vectors. `skipped_model`: the node made none, as the profile's vectors are another model's or brought by callers (see Reembed). Absent otherwise, also while the embedder does not answer: then it is made later. */
  readonly embedding?: string | undefined;
  /** When the memory expires, in Unix milliseconds; on tasks only. That of an existing one stays as it was: a duplicate changes no lifetime. */
  readonly expiresAt?: number | undefined;
}

/** What MemoryService.ListMemories gives. */
export interface ListMemoriesResponse {
  /** The memories. */
  readonly memories: readonly Memory[];
  /** Where the next page begins; null when there is none. */
  readonly nextCursor: string | null;
  /** The transaction id of the state that was read; 0 for an unknown profile. */
  readonly txid: number;
}

/** A memory. */
export interface Memory {
  /** Its id: `mem_` and a ULID; opaque. */
  readonly id: string;
  /** `fact`, `event`, `instruction` or `task`. */
  readonly type: string;
  /** The topic, or null. */
  readonly topicKey: string | null;
  /** The one-line gist. */
  readonly summary: string;
  /** The full payload: any JSON. */
  readonly content: Json;
  /** The further words, or null. */
  readonly keywords: string | null;
  /** The session it first came from, or null. */
  readonly sessionId: string | null;
  /** The agent it first came from, or null. */
  readonly source: string | null;
  /** When it was stored, in Unix milliseconds. */
  readonly createdAt: number;
  /** The id of the memory that replaced it, or null for an active one. */
  readonly supersededBy: string | null;
  /** When it expires, in Unix milliseconds; on tasks only. */
  readonly expiresAt?: number | undefined;
  /** Fused relevance; on recall only. Comparable within one answer. */
  readonly score?: number | undefined;
  /** Which channels found it: `topic`, `keyword`, `vector`; on recall only. */
  readonly channels?: readonly string[] | undefined;
  /** The ids that it superseded itself, oldest first; on a single get only. */
  readonly supersedes?: readonly string[] | undefined;
  /** Why it was found; on a recall with `explain` only. */
  readonly explain?: MemoryExplanation | undefined;
  /** The metadata that it was stored with; absent when there was none. */
  readonly metadata?: JsonObject | undefined;
  /** Of a superseded memory, the id of the one that holds now on its topic, at the end of the chain; absent when that one was forgotten, and on memories that hold themselves. On recall only. */
  readonly currentId?: string | undefined;
  /** True where it is pinned; absent otherwise. */
  readonly pinned?: boolean | undefined;
  /** `proposed`: it waits for a review. `completed`: a task that is done. Absent otherwise: then it is active, or superseded where `superseded_by` says so. */
  readonly status?: string | undefined;
  /** When the task was completed, in Unix milliseconds; on completed tasks only. */
  readonly completedAt?: number | undefined;
  /** Whom the record is about; absent where that was not said. */
  readonly subject?: string | undefined;
  /** From when on it holds in the world, in Unix milliseconds; where it says so. */
  readonly validFrom?: number | undefined;
  /** Until when it holds in the world, likewise. */
  readonly validUntil?: number | undefined;
  /** What it was derived from, in the order in which it was said; on a single get or change only, absent where nothing is. */
  readonly derivedFrom?: readonly MemoryLink[] | undefined;
}

/** Why a memory was found. */
export interface MemoryExplanation {
  /** One entry per channel that found it, in the order of `channels`. */
  readonly channels: readonly ChannelExplanation[];
  /** The words of the query that it holds, as they are asked. */
  readonly matchedTerms: readonly string[];
  /** The share of the query's words that one passage of it covers, with its topic and summary, weighted by how telling each is, from 0 to 1; where words were asked. A memory of at most 60 words is one passage. */
  readonly coverage?: number | undefined;
}

/** How one channel saw a memory. */
export interface ChannelExplanation {
  /** `topic`, `keyword` or `vector`. */
  readonly channel: string;
  /** Its rank there, from 1. */
  readonly rank: number;
  /** The channel's own score: for words BM25 with what stands together and beside it (larger is better), cosine similarity for vectors, 1 for a topic. */
  readonly score: number;
  /** Whether the channel's search was approximate, so that another node may rank differently. */
  readonly approximate: boolean;
}

/** What a memory was derived from: a memory, or the turn `seq` of a session. It may have been forgotten since. */
export interface MemoryLink {
  /** A memory. */
  readonly memoryId?: string | undefined;
  /** A session. */
  readonly sessionId?: string | undefined;
  /** The number of a turn of the session. */
  readonly seq?: number | undefined;
}

/** What MemoryService.GetHistory gives. */
export interface GetHistoryResponse {
  /** The states, the oldest first. */
  readonly states: readonly MemoryState[];
  /** Where the next page begins; null when there is none. */
  readonly nextCursor: string | null;
  /** The transaction id of the state that was read; 0 for an unknown profile. */
  readonly txid: number;
}

/** A memory as one of what was held, one after the other. What it says in full is to be had from MemoryService.GetMemory. */
export interface MemoryState {
  /** The memory's id. */
  readonly id: string;
  /** Its type. */
  readonly type: string;
  /** Its topic, if it has one. */
  readonly topicKey?: string | undefined;
  /** Its one-line gist. */
  readonly summary: string;
  /** The agent it first came from, if one is known. */
  readonly source?: string | undefined;
  /** The session it first came from, if one is known. */
  readonly sessionId?: string | undefined;
  /** When it became active, in Unix milliseconds: when it was ingested, or approved. */
  readonly activeFrom: number;
  /** When it was superseded, in Unix milliseconds; absent while it is active. */
  readonly supersededAt?: number | undefined;
  /** The id of the memory that superseded it, which may have been forgotten since; absent while it is active. */
  readonly supersededBy?: string | undefined;
  /** When the task was completed, in Unix milliseconds. */
  readonly completedAt?: number | undefined;
  /** From when on it holds in the world, in Unix milliseconds, where it says so. */
  readonly validFrom?: number | undefined;
  /** Until when it holds in the world, likewise. */
  readonly validUntil?: number | undefined;
}

/** What MemoryService.UpdateMemory takes: what is to be changed, at least one field beside the address. */
export interface UpdateMemoryRequest {
  /** Whether it is pinned. Absent: as it was. */
  readonly pinned?: boolean | null | undefined;
  /** What else is to be known of it, in the place of all that was: an object as with Ingest. `{}` takes it away. Absent: as it was. */
  readonly metadata?: JsonObject | null | undefined;
  /** Further words to be found by, in the place of those that were. An empty text takes them away. Absent: as they were. Must be at most 8192 bytes of UTF-8 text. */
  readonly keywords?: string | null | undefined;
  /** Of a `task`: its lifetime in seconds from now on, clamped by the policy's `memory.task_ttl_max_secs`; 0 ends it at once. Refused on other types. Absent: as it was. */
  readonly ttl?: number | null | undefined;
  /** Of a `task`: whether it is done. A completed task is neither recalled nor shown in context blocks, and the same task can be ingested anew beside it; it is there for who asks for it until it expires. False opens it again: `conflict` (409) where the same task is open by now. Refused on other types. Absent: as it was. */
  readonly completed?: boolean | null | undefined;
}

/** What MemoryService.ReviewMemory takes. */
export interface ReviewMemoryRequest {
  /** The ids of proposals, 1 to 100, each once. ListMemories with `status` gives them. */
  readonly ids: readonly string[];
  /** `approve` or `reject`. */
  readonly verdict: "approve" | "reject";
}

/** What MemoryService.ReviewMemory gives. */
export interface ReviewMemoryResponse {
  /** What became of each proposal, in the order given. */
  readonly results: readonly ReviewItem[];
  /** The database's transaction id after the review. */
  readonly txid: number;
  /** The coupon of the erasure that the policy made of a rejection. */
  readonly erasureId?: string | undefined;
}

/** What became of one proposal. */
export interface ReviewItem {
  /** The id of the proposal. */
  readonly id: string;
  /** `approved`: it is active, under its id, since now. `duplicate`: it is the same as an active memory by now, which has taken in who said it, and the proposal is gone. `rejected`: it is forgotten. `unknown`: none of this id waits. */
  readonly status: string;
  /** The ids of the memories that it superseded. */
  readonly superseded: readonly string[];
  /** The active memory that it is a duplicate of. */
  readonly duplicateOf?: string | undefined;
}

/** What MemoryService.ForgetMemories takes: conditions as in ListMemories, at least one. */
export interface ForgetMemoriesRequest {
  /** Memories of these types only. Absent: all; an empty list matches nothing. */
  readonly types?: readonly ("fact" | "event" | "instruction" | "task")[] | null | undefined;
  /** Memories of exactly this topic only. Must be 1 to 512 bytes of UTF-8 text. */
  readonly topicKey?: string | null | undefined;
  /** Memories of this session only. Must be 1 to 128 bytes of UTF-8 text. */
  readonly sessionId?: string | null | undefined;
  /** Memories that this agent ingested only. Must be 1 to 256 bytes of UTF-8 text. */
  readonly source?: string | null | undefined;
  /** Memories stored at or after this time, in Unix milliseconds. Absent: from the first. */
  readonly since?: number | null | undefined;
  /** Memories stored before this time, in Unix milliseconds; must be later than `since`. Absent: to the last. */
  readonly until?: number | null | undefined;
  /** Memories whose metadata meets this filter only, in the language of DataService.FindDocs. */
  readonly filter?: JsonObject | null | undefined;
  /** Also memories that were superseded. */
  readonly includeSuperseded?: boolean | null | undefined;
  /** How many to forget at most, newest first; at most 1000, more are taken as 1000. */
  readonly limit?: number | null | undefined;
  /** `next_cursor` of the call before. */
  readonly cursor?: string | null | undefined;
  /** Memories in these states only, as with ListMemories. Absent: `active`, and what is included. Must be among active, superseded, completed and proposed, separated by commas. */
  readonly status?: string | null | undefined;
  /** Also tasks that were completed. */
  readonly includeCompleted?: boolean | null | undefined;
  /** Memories of this subject only. Must be 1 to 256 bytes of UTF-8 text. */
  readonly subject?: string | null | undefined;
  /** Memories that hold in the world at this time only, in Unix milliseconds. Absent: whenever they hold. */
  readonly validAt?: number | null | undefined;
  /** Memories that were derived from this memory only. Must be 1 to 64 bytes of UTF-8 text. */
  readonly derivedFromMemory?: string | null | undefined;
  /** Memories that were derived from turns of this session only. Must be 1 to 128 bytes of UTF-8 text. */
  readonly derivedFromSession?: string | null | undefined;
  /** With `derived_from_session`: from the turn of this number only. */
  readonly derivedFromSeq?: number | null | undefined;
}

/** What MemoryService.ForgetMemories gives. */
export interface ForgetMemoriesResponse {
  /** How many memories were forgotten. */
  readonly forgotten: number;
  /** Their ids, newest first. */
  readonly ids: readonly string[];
  /** Where to go on; null when no more memories meet the conditions. */
  readonly nextCursor: string | null;
  /** The database's transaction id after the deletion. */
  readonly txid: number;
}

/** Floors below which a channel alone does not make a memory relevant. */
export interface MinScore {
  /** For words: the least coverage, from 0 to 1 (see MemoryExplanation.coverage), instead of all that the node asks of words. */
  readonly keyword?: number | null | undefined;
  /** For vectors: the least cosine similarity, from -1 to 1. */
  readonly vector?: number | null | undefined;
}

/** How many memories of each type a recall gives at most. Each from 1 to 1000; more are given as 1000. */
export interface TypeCounts {
  /** Facts. */
  readonly fact?: number | null | undefined;
  /** Events. */
  readonly event?: number | null | undefined;
  /** Instructions. */
  readonly instruction?: number | null | undefined;
  /** Tasks. */
  readonly task?: number | null | undefined;
}

/** What MemoryService.Recall takes. At least one of `query`, `embedding` and `topic_key` must be given. */
export interface RecallRequest {
  /** Free text for the keyword channel; plain words, never a query language. Also embedded where the node can. Must be at most 16384 bytes of UTF-8 text. */
  readonly query?: string | null | undefined;
  /** The query's vector, for the vector channel. One of another dimension than the profile's vectors is passed over. */
  readonly embedding?: readonly number[] | null | undefined;
  /** An exact topic; weighs more than the other channels together. Must be 1 to 512 bytes of UTF-8 text. */
  readonly topicKey?: string | null | undefined;
  /** Memories of these types only. Absent: all; an empty list matches nothing. */
  readonly types?: readonly ("fact" | "event" | "instruction" | "task")[] | null | undefined;
  /** Memories of this session only. Must be 1 to 128 bytes of UTF-8 text. */
  readonly sessionId?: string | null | undefined;
  /** Memories that this agent ingested only. Must be 1 to 256 bytes of UTF-8 text. */
  readonly source?: string | null | undefined;
  /** How many memories, at most 1000; more are given as 1000. With `k_per_type` and without `k`, as many as that says. Turns are as many at most, 8 without `k`. */
  readonly k?: number | null | undefined;
  /** Also memories that were superseded; each says in `current_id` which memory holds now. */
  readonly includeSuperseded?: boolean | null | undefined;
  /** Also search the transcript: fills `turns`. Needs a vector, given or made by the node. */
  readonly includeTurns?: boolean | null | undefined;
  /** Floors of the channels, instead of the node's. */
  readonly minScore?: MinScore | null | undefined;
  /** Say of each memory why it was found, and in `near_misses` what came near and was left out. */
  readonly explain?: boolean | null | undefined;
  /** Memories whose metadata meets this filter only, in the language of DataService.FindDocs. A memory without metadata counts as one with an empty object. Turns are not filtered. */
  readonly filter?: JsonObject | null | undefined;
  /** Also search the transcript by the words of `query`: fills `turns` with those whose words, together with those of the turns around them, are about it, most relevant first; together with `include_turns` both ways are fused. `min_score.keyword` holds for turns too. Turns of files from before this search are not found by words. */
  readonly searchTurns?: boolean | null | undefined;
  /** Memories stored, and turns appended, at or after this time, in Unix milliseconds, on every channel. Absent: from the first. */
  readonly since?: number | null | undefined;
  /** Memories stored, and turns appended, before this time, in Unix milliseconds; must be later than `since`. Absent: to the last. */
  readonly until?: number | null | undefined;
  /** Memories and turns of this session, 1 to 128 bytes, count a quarter more by their words and their vector; an exact topic still comes first. It only moves what is found anyway: what is not relevant stays out, and other sessions stay in. Must be 1 to 128 bytes of UTF-8 text. */
  readonly preferSessionId?: string | null | undefined;
  /** So many memories of each type, as recalls of each type alone would find them, in one list, the most relevant first. Types that are not named are not given, nor those that `types` leaves out. At least one type must be named. With `k`, the first `k` of that list. */
  readonly kPerType?: TypeCounts | null | undefined;
  /** Also tasks that were completed. */
  readonly includeCompleted?: boolean | null | undefined;
  /** Memories of this subject only. Must be 1 to 256 bytes of UTF-8 text. */
  readonly subject?: string | null | undefined;
  /** Memories that hold in the world at this time, in Unix milliseconds. Absent: those that hold now. A superseded memory counts as active at a time at which nothing that followed it holds. */
  readonly validAt?: number | null | undefined;
  /** Also memories that do not hold in the world. Not together with `valid_at`. */
  readonly includeInvalid?: boolean | null | undefined;
}

/** What MemoryService.Recall gives. */
export interface RecallResponse {
  /** The memories, the most relevant first. The same request at the same txid gives the same. */
  readonly memories: readonly Memory[];
  /** Turns of the transcript, nearest first, or with `search_turns` most relevant first; empty unless asked for. */
  readonly turns: readonly Turn[];
  /** The transaction id of the state that was read; 0 for an unknown profile. */
  readonly txid: number;
  /** Why no vector was looked for among the memories, although the request has one or the node makes one of `query`: `skipped_dimension`, as it has another dimension than the profile's vectors, or `skipped_model`, as those are another model's or brought by callers (see Reembed). What words and topic find is given all the same. Absent otherwise, also while the embedder does not answer. */
  readonly embedding?: string | undefined;
  /** Why `memories` is empty; absent when it is not. `nothing_stored`: the profile holds no memory, or is unknown. `no_match`: nothing holds a word of the query, has the topic, or has a vector to compare. `filtered_out`: something does, but nothing that `types`, `session_id`, `source`, `filter`, `since`, `until` and `k_per_type` let through; superseded memories count as filtered out unless they are included. `below_gate`: something passed the filters, and was not relevant enough: its words below the gate, its vector below the floor, or either below `min_score`. `vetoed`: words were relevant enough, but the vectors of the profile's embedder are all far and speak against them. `vector_skipped`: only a vector was asked for, and `embedding` says why it was not looked for. */
  readonly emptyReason?: string | undefined;
  /** With `explain` only: the best 5 memories that were left out as not relevant enough, those of words first, the nearest to an answer first. They passed the filters. Those that were relevant and had no place in `k` are not among them. */
  readonly nearMisses?: readonly NearMiss[] | undefined;
}

/** One turn of a transcript. */
export interface Turn {
  /** The session it belongs to. */
  readonly sessionId: string;
  /** Its place in the session: 1, 2, 3, ... */
  readonly seq: number;
  /** Who spoke, as it was given. */
  readonly role: string;
  /** What was said: any JSON. */
  readonly content: Json;
  /** When it was appended, in Unix milliseconds. */
  readonly createdAt: number;
  /** Cosine distance to the query's vector; on searches only. */
  readonly distance?: number | undefined;
  /** The id that its caller gave it; absent when it has none. */
  readonly turnId?: string | undefined;
  /** What else is known of it; absent when it has none. */
  readonly metadata?: JsonObject | undefined;
  /** Whom the record is about; absent where that was not said. */
  readonly subject?: string | undefined;
}

/** A memory that came near and is no answer, and why. It is told by its id alone, as it is not about the question: what it says is to be had from MemoryService.GetMemory. */
export interface NearMiss {
  /** The memory's id. */
  readonly id: string;
  /** Why each channel that looked at it left it out; the words first, then the vector. */
  readonly reasons: readonly MissedBar[];
  /** The words of the query that it holds, as they are asked. */
  readonly matchedTerms: readonly string[];
}

/** What a channel asked of a memory that it left out, and what it met. */
export interface MissedBar {
  /** `keyword` or `vector`. */
  readonly channel: string;
  /** Of words: `below_gate`, as nothing at all was about the question and its coverage is below the gate; `below_floor`, as others were and its coverage is below the floor, the node's or `min_score.keyword`; `too_common`, as what it holds of the question is too common in this profile to tell anything; `drop_off`, as its words tell too little beside those of the best; `vetoed`, as the vectors of the profile's embedder are all far and speak against the words. Of vectors: `vector_below_floor`, as its cosine similarity is below the floor, the embedder's or `min_score.vector`. */
  readonly reason: string;
  /** What it has: coverage, from 0 to 1, for `below_gate` and `below_floor`; what its words tell, about 1 for each rare one, for `too_common` and `drop_off`; the cosine similarity for `vector_below_floor`, and of the nearest of all for `vetoed`. */
  readonly value: number;
  /** What it would have needed, in the same unit. */
  readonly needed: number;
}

/** A part of a context block, as it is asked for. */
export interface ContextSectionInput {
  /** `instructions`: active instructions, pinned ones first, then the newest; each whole or not at all. `facts`: pinned facts and events, then the newest active facts. `memories`: what a recall with the same question finds and no other section shows, the most relevant first. `turns`: the last turns of a session, oldest first. `tasks`: tasks that have not expired, pinned ones first, then those that expire soonest. */
  readonly name: "instructions" | "facts" | "memories" | "turns" | "tasks";
  /** Its share of the room, from 1 to 100, beside those of the other sections; what all of them leave goes to the first that has more to show, what that leaves to the next. Absent: 30 for `instructions`, 20 for `facts`, 30 for `memories`, 15 for `turns`, 5 for `tasks`. */
  readonly share?: number | null | undefined;
  /** At most so many lines, from 1 to 1000; `memories` has at most 32. Absent: 200 for `instructions`, 100 for `facts`, 16 for `memories`, 10 for `turns`, 100 for `tasks`. */
  readonly maxLines?: number | null | undefined;
}

/** What MemoryService.GetContext takes. */
export interface GetContextRequest {
  /** What the section `memories` is to be about, as Recall takes it; also embedded where the node can. Absent or blank, and without `embedding`: that section is empty. Must be at most 16384 bytes of UTF-8 text. */
  readonly query?: string | null | undefined;
  /** The query's vector, as Recall takes it. */
  readonly embedding?: readonly number[] | null | undefined;
  /** What the block may count at most, from 200 to 32000, with its tags and headings. Quarters of a token are counted for each character of it: one for a space or a letter from a to z, three for a letter from A to Z or a digit, two for any other up to U+07FF, four for any up to U+FFFF, eight beyond; the sum is rounded up to tokens. For prose that is more than common tokenizers need, but no count is exact for all of them. */
  readonly maxTokens?: number | null | undefined;
  /** `markdown` or `json`: what stands between the tags. Absent: `markdown`. */
  readonly format?: "markdown" | "json" | null | undefined;
  /** The sections in their order, each once. None: all five, in the order in which they are listed there. */
  readonly sections?: readonly ContextSectionInput[] | null | undefined;
  /** The session of `turns`. Absent: the one that was active last, of those that have turns among the 100 last active. Must be 1 to 128 bytes of UTF-8 text. */
  readonly sessionId?: string | null | undefined;
  /** The time that ages are measured against and at which memories hold in the world, in Unix milliseconds. Absent: the node's. What has expired by the node's own time is left out whatever is given here. */
  readonly now?: number | null | undefined;
}

/** What MemoryService.GetContext gives. */
export interface GetContextResponse {
  /** The block, from its opening tag to the line feed behind the closing one. */
  readonly text: string;
  /** What it counts; never more than `max_tokens`. */
  readonly tokens: number;
  /** What both tags end in: 24 letters that no one can know who has stored what stands between them. */
  readonly nonce: string;
  /** The sections, in the order in which they were asked for; the block has a heading for those with lines only. */
  readonly sections: readonly ContextSection[];
  /** The time that ages are measured against, in Unix milliseconds. */
  readonly now: number;
  /** The transaction id of the state that was read; 0 for an unknown profile. */
  readonly txid: number;
  /** Why the request's vector was not looked for, as RecallResponse says it. Absent otherwise. */
  readonly embedding?: string | undefined;
}

/** What a context block shows of a section, and what not. */
export interface ContextSection {
  /** Its name. */
  readonly name: string;
  /** The ids of its lines, in their order: of memories as everywhere, of turns `#` and their `seq`. */
  readonly ids: readonly string[];
  /** How many that were looked at have no line, for want of room. */
  readonly leftOut: number;
  /** Whether there may be more than were looked at (`max_lines`). */
  readonly more: boolean;
  /** How many of its lines are cut; they end in an ellipsis. */
  readonly cut: number;
  /** What it counts at most, heading and all. */
  readonly tokens: number;
  /** The session, of `turns`; absent where there is none. */
  readonly sessionId?: string | undefined;
}

/** What MemoryService.Ask takes. */
export interface AskRequest {
  /** The question; not blank. Must be at most 16384 bytes of UTF-8 text. */
  readonly question: string;
  /** Memories of these types only. Absent: all; an empty list matches nothing. */
  readonly types?: readonly ("fact" | "event" | "instruction" | "task")[] | null | undefined;
  /** Memories of this session only. Must be 1 to 128 bytes of UTF-8 text. */
  readonly sessionId?: string | null | undefined;
  /** Memories that this agent ingested only. Must be 1 to 256 bytes of UTF-8 text. */
  readonly source?: string | null | undefined;
  /** How many memories the model sees, at most 1000. */
  readonly k?: number | null | undefined;
  /** Also memories that were superseded. */
  readonly includeSuperseded?: boolean | null | undefined;
  /** Memories that hold in the world at this time, in Unix milliseconds, as with Recall. Absent: those that hold now. */
  readonly validAt?: number | null | undefined;
}

/** What MemoryService.Ask gives. */
export interface AskResponse {
  /** The answer; null when nothing relevant was found, or the model did not find it in what was. */
  readonly answer: string | null;
  /** The ids of the memories that the answer cites, all of them in `memories`. An answer without any has no grounds there. */
  readonly sources: readonly string[];
  /** The memories that the model saw: those that were recalled, from the most relevant on, up to 256 KiB. */
  readonly memories: readonly Memory[];
  /** The transaction id of the state that was read; 0 for an unknown profile. */
  readonly txid: number;
}

/** What MemoryService.Extract takes. */
export interface ExtractRequest {
  /** The turns, 1 to 500 in at most 256 KiB of JSON, each an object with `role` (string) and `content` (any JSON); other members are ignored and stay on the node. */
  readonly turns: readonly JsonObject[];
  /** The session that the memories will carry. Must be 1 to 128 bytes of UTF-8 text. */
  readonly sessionId?: string | null | undefined;
  /** The agent that the memories will carry. Must be 1 to 256 bytes of UTF-8 text. */
  readonly source?: string | null | undefined;
  /** Propose only; nothing is written. */
  readonly dryRun?: boolean | null | undefined;
  /** `proposed`: what is ingested waits for a review, as with MemoryInput. */
  readonly status?: "active" | "proposed" | null | undefined;
}

/** What MemoryService.Extract gives. */
export interface ExtractResponse {
  /** What became of each memory that was extracted; absent on a dry run. */
  readonly results?: readonly IngestItem[] | undefined;
  /** The memories that would be ingested; on a dry run only. */
  readonly proposed?: readonly MemoryInput[] | undefined;
  /** The database's transaction id after the ingest; absent on a dry run. */
  readonly txid?: number | undefined;
  /** How many turns were read. */
  readonly turns: number;
  /** How many of them yielded nothing. */
  readonly emptyTurns: number;
  /** How many proposals of the model broke a rule of memories and were left out; absent when none did. */
  readonly dropped?: number | undefined;
}

/** What MemoryService.ListSessions gives. */
export interface ListSessionsResponse {
  /** The sessions, the most recently active first. */
  readonly sessions: readonly Session[];
  /** The transaction id of the state that was read; 0 for an unknown profile. */
  readonly txid: number;
  /** Where the next page begins; absent on the last one. */
  readonly nextCursor?: string | undefined;
}

/** A session of a profile. It exists from its first memory or turn until it is ended. */
export interface Session {
  /** Its id. */
  readonly id: string;
  /** When it began, in Unix milliseconds. */
  readonly createdAt: number;
  /** When it last got a memory or turn, in Unix milliseconds. */
  readonly lastActiveAt: number;
  /** How many turns its transcript has; only with `include_turns`. */
  readonly turns?: number | undefined;
  /** When the first of them was appended, in Unix milliseconds; only with `include_turns`, absent when there is none. */
  readonly firstTurnAt?: number | undefined;
  /** When the last of them was appended, likewise. */
  readonly lastTurnAt?: number | undefined;
}

/** What MemoryService.CreateErasure takes: exactly one target. */
export interface CreateErasureRequest {
  /** Target: one memory. Unknown: `not_found` (404). */
  readonly memoryId?: string | null | undefined;
  /** Target: every memory of this topic and `type`, superseded ones included. Unknown: `not_found` (404). Must be 1 to 512 bytes of UTF-8 text. */
  readonly topicKey?: string | null | undefined;
  /** The type that goes with `topic_key`. */
  readonly type?: "fact" | "event" | "instruction" | "task" | null | undefined;
  /** Target: a session's provenance everywhere, and every memory whose last provenance that was. May be unknown. Must be 1 to 128 bytes of UTF-8 text. */
  readonly sessionId?: string | null | undefined;
  /** With `session_id`: also the session's transcript. */
  readonly turns?: boolean | null | undefined;
  /** Target, with `session_id`: only the turn of this number, from 1, with its words, vector and metadata; the session forgets the operations that it knows. Unknown: `not_found` (404). */
  readonly seq?: number | null | undefined;
  /** Target: the file at this path, or every file below it, each with all of its kept versions, 10,000 together at most. A text that was moved away lives on under its other path. Unknown: `not_found` (404). Must be a path such as notes/travel/tokyo.md: parts between slashes, none of them empty, . or .., without control characters and must be 1 to 1024 bytes of UTF-8 text. */
  readonly path?: string | null | undefined;
  /** Target: `key` in this namespace of keys. Unknown: `not_found` (404). Must be 1 to 64 characters of letters, digits, _ and -. */
  readonly kvNs?: string | null | undefined;
  /** The key that goes with `kv_ns`. Must be 1 to 512 bytes of UTF-8 text. */
  readonly key?: string | null | undefined;
  /** Target: the document `doc_id` of this collection. Unknown: `not_found` (404). Must be 1 to 64 characters of letters, digits, _ and -. */
  readonly collection?: string | null | undefined;
  /** The `_id` of the document that goes with `collection`. Must be 1 to 512 bytes of UTF-8 text. */
  readonly docId?: string | null | undefined;
  /** Target: the vector `vector_id` of this collection of vectors, with its metadata. Unknown: `not_found` (404). Must be 1 to 64 characters of letters, digits, _ and -. */
  readonly vectorCollection?: string | null | undefined;
  /** The id of the vector that goes with `vector_collection`. Must be 1 to 256 bytes of UTF-8 text. */
  readonly vectorId?: string | null | undefined;
  /** Target: every record of this subject, of all kinds: memories, turns, versions of files, documents, keys and vectors, 10,000 together at most. None: `not_found` (404). Must be 1 to 256 bytes of UTF-8 text. */
  readonly subject?: string | null | undefined;
}

/** The progress of an erasure. */
export interface ErasureCoupon {
  /** Its id: `ers_` and a ULID. */
  readonly id: string;
  /** `pending`: gone from the database, history not rewritten yet. `blocked`: something named in `blocked_by` still holds the data; goes back to `pending` when that is gone. `completed`: gone from history too, with a receipt. */
  readonly status: string;
  /** What was asked for. */
  readonly target: ErasureTarget;
  /** The ids of the memories that were erased. */
  readonly memoryIds: readonly string[];
  /** When it was asked for, in Unix milliseconds. */
  readonly requestedAt: number;
  /** Until when rewinding undoes it, in Unix milliseconds; history is rewritten after that, and never before. */
  readonly graceUntil: number;
  /** The erasure's transaction id, by the name of the branch that it was asked for on. */
  readonly erasedTxid: { readonly [name: string]: number };
  /** What stands in the way; on blocked coupons only. */
  readonly blockedBy?: ErasureBlockers | undefined;
  /** When it was completed, in Unix milliseconds, or null. */
  readonly completedAt: number | null;
  /** The proof; on completed coupons only. */
  readonly receipt?: ErasureReceipt | undefined;
  /** The same as `id`; in the answer to the request only. */
  readonly erasureId?: string | undefined;
  /** The database's transaction id after the erasure; in the answer to the request only. */
  readonly txid?: number | undefined;
  /** Why an erasure whose grace is over is not completed yet, in words for people, such as that old objects wait to be collected, that the grace of an earlier erasure is not over, or what the last attempt failed of; on blocked coupons where what is named does not simply hold the data as live content. */
  readonly waitingFor?: string | undefined;
  /** The names (`SERVICE_NODE_ID`) of the nodes that the receipt tells of, by their identities, as far as they are known. No part of what is signed. */
  readonly nodes?: JsonObject | undefined;
  /** How many records beside memories were erased: turns, versions of files, keys, documents or vectors; absent where only memories can have been. */
  readonly records?: number | undefined;
  /** Of an erasure by subject, how many of each kind were erased; absent on others. */
  readonly erased?: ErasedRecords | undefined;
  /** How many memories of the branch stay that were derived from what was erased; their links to it went with it. In the answer to the request that has erased it only, and absent where there are none. ListMemories with `derived_from_…` lists them before an erasure. */
  readonly derived?: number | undefined;
}

/** What an erasure was asked to remove. */
export interface ErasureTarget {
  /** One memory. */
  readonly memoryId?: string | undefined;
  /** A topic, with its type. */
  readonly topicKey?: string | undefined;
  /** The topic's type. */
  readonly type?: string | undefined;
  /** A session. */
  readonly sessionId?: string | undefined;
  /** Whether the session's transcript too. */
  readonly turns?: boolean | undefined;
  /** The number of a turn of `session_id`. */
  readonly seq?: number | undefined;
  /** A file or a folder. */
  readonly path?: string | undefined;
  /** The namespace of a key. */
  readonly kvNs?: string | undefined;
  /** A key. */
  readonly key?: string | undefined;
  /** The collection of a document. */
  readonly collection?: string | undefined;
  /** The `_id` of a document. */
  readonly docId?: string | undefined;
  /** The collection of a vector. */
  readonly vectorCollection?: string | undefined;
  /** The id of a vector. */
  readonly vectorId?: string | undefined;
  /** A subject. */
  readonly subject?: string | undefined;
}

/** What keeps erased data in history. */
export interface ErasureBlockers {
  /** Checkpoints that pin a state from before the erasure, as `branch/name`. */
  readonly checkpoints: readonly string[];
  /** Branches that hold the data as live content, or of which that cannot be ruled out: `waiting_for` says so then. */
  readonly branches: readonly string[];
}

/** A signed proof of erasure. It can be checked offline with the keys at `/.well-known/jwks.json`: docs/verifying.md. */
export interface ErasureReceipt {
  /** Database and uuid, erasure id, target, memory ids, erased txid per branch, times, method and verification evidence. */
  readonly payload: JsonObject;
  /** `EdDSA`. */
  readonly alg: string;
  /** The id of the key that signed. */
  readonly kid: string;
  /** The signature, base64url, over `palimpsest-erasure-receipt-v1` (`-v2` where the payload's `v` is 2), a NUL, and the canonical JSON (RFC 8785) of `payload`. */
  readonly sig: string;
}

/** How many records of a subject were erased, by kind; a kind of which there were none is absent. */
export interface ErasedRecords {
  /** Memories. */
  readonly memories?: number | undefined;
  /** Turns. */
  readonly turns?: number | undefined;
  /** Versions of files. */
  readonly fileVersions?: number | undefined;
  /** Documents. */
  readonly documents?: number | undefined;
  /** Keys. */
  readonly keys?: number | undefined;
  /** Vectors of collections. */
  readonly vectors?: number | undefined;
}

/** What MemoryService.ListErasures gives. */
export interface ListErasuresResponse {
  /** The coupons, newest first. */
  readonly erasures: readonly ErasureCoupon[];
}

/** What MemoryService.Reembed takes. */
export interface ReembedRequest {
  /** `next_cursor` of the step before. Absent: the first step. */
  readonly cursor?: string | null | undefined;
}

/** What MemoryService.Reembed gives. */
export interface ReembedResponse {
  /** How many memories and turns got a vector in this step. */
  readonly embedded: number;
  /** How many the model gave no vector for; they are passed over. */
  readonly left: number;
  /** Where the next step begins; null when there is none. */
  readonly nextCursor: string | null;
  /** The database's transaction id after the step. */
  readonly txid: number;
}

/** What MemoryService.Calibrate takes. */
export interface CalibrateRequest {
  /** The share of unrelated pairs that may reach the floor, above 0 and at most 0.5. Absent: 0.02. */
  readonly unrelatedShare?: number | null | undefined;
  /** What chooses the memories and pairs that are looked at, where there are more than 1,000 and 10,000: the same at the same txid gives the same answer. Absent: chosen by chance. */
  readonly seed?: number | null | undefined;
  /** Measure only; nothing is written. */
  readonly dryRun?: boolean | null | undefined;
}

/** What MemoryService.Calibrate gives. */
export interface CalibrateResponse {
  /** The embedder whose vectors they are. */
  readonly embedder: string;
  /** The floor that held before. */
  readonly floorBefore: number;
  /** The floor that was found, in steps of 0.001; it holds from now on unless it was a dry run. */
  readonly floor: number;
  /** The seed that was used. */
  readonly seed: number;
  /** How many memories with vectors were looked at. */
  readonly memories: number;
  /** Pairs that share no topic and no session. */
  readonly unrelated: PairSimilarities;
  /** Each memory with the next one of its topic and with the next one of its session. */
  readonly related: PairSimilarities;
  /** The database's transaction id after the change. */
  readonly txid: number;
}

/** How near the vectors of pairs of memories are; the figures are absent where there are no pairs. */
export interface PairSimilarities {
  /** How many pairs were compared. */
  readonly pairs: number;
  /** The cosine similarity in the middle. */
  readonly median?: number | undefined;
  /** The highest cosine similarity. */
  readonly highest?: number | undefined;
  /** The share, from 0 to 1, that reaches the floor that held before. */
  readonly shareBefore?: number | undefined;
  /** The share that reaches the floor that was found. */
  readonly share?: number | undefined;
}

/** The policy of a profile. */
export interface ProfilePolicy {
  /** The namespace. */
  readonly namespace: string;
  /** The profile. */
  readonly profile: string;
  /** The profile's own policy document, or null where it has none. */
  readonly override: JsonObject | null;
  /** Every value that is enforced, under its dotted path. */
  readonly effective: JsonObject;
  /** Counts the changes of the profile's own policy, from 1; 0 where it never had one. */
  readonly revision: number;
  /** What the profile's own policy says that means nothing to this node: fields that it does not know, and so does not enforce. In the answer to a change only, and absent when there is nothing. */
  readonly warnings?: readonly string[] | undefined;
}

/** What MemoryService.PutProfilePolicy takes. */
export interface PutProfilePolicyRequest {
  /** The profile's own policy document, or null to clear it. The fields of a namespace's policy but `audit`. */
  readonly policy: JsonObject | null;
}

/** What DataService.AppendTurn takes. */
export interface AppendTurnRequest {
  /** Who spoke, at most 64 bytes. Must be 1 to 64 bytes of UTF-8 text. */
  readonly role: string;
  /** What was said: any JSON, at most 1 MiB. */
  readonly content: Json;
  /** Makes the turn findable by SearchTurns and by recall's `include_turns`. */
  readonly embedding?: readonly number[] | null | undefined;
  /** Whom the record is about, such as `user-7`, 1 to 256 bytes: what an erasure by subject finds it by. Must be 1 to 256 bytes of UTF-8 text. */
  readonly subject?: string | null | undefined;
}

/** What DataService.AppendTurn gives. */
export interface AppendTurnResponse {
  /** The turn's place in its session. */
  readonly seq: number;
  /** The database's transaction id after the append. */
  readonly txid: number;
  /** Present when the embedding was not kept: `skipped_dimension`, as it has another dimension than the transcript's vectors. The turn itself is kept. */
  readonly embedding?: string | undefined;
}

/** A turn to be appended. */
export interface TurnInput {
  /** Who spoke, at most 64 bytes. Must be 1 to 64 bytes of UTF-8 text. */
  readonly role: string;
  /** What was said: any JSON, at most 1 MiB. */
  readonly content: Json;
  /** The caller's own id of the turn, at most 128 bytes, unique in its session while the turn is there. Must be 1 to 128 bytes of UTF-8 text. */
  readonly turnId?: string | null | undefined;
  /** What else is to be known of it, for filters: an object of any JSON, at most 16 KiB, no field name at its top beginning with `$`. */
  readonly metadata?: JsonObject | null | undefined;
  /** Makes the turn findable by SearchTurns and by recall's `include_turns`. Absent: the node's embedder makes it, where there is one and policy lets it. */
  readonly embedding?: readonly number[] | null | undefined;
  /** Whom the record is about, such as `user-7`, 1 to 256 bytes: what an erasure by subject finds it by. No part of what makes two turns the same. Must be 1 to 256 bytes of UTF-8 text. */
  readonly subject?: string | null | undefined;
}

/** What DataService.AppendTurns takes. */
export interface AppendTurnsRequest {
  /** The turns, 1 to 1000, in their order, with at most 16 MiB of content and metadata. One that is not valid fails them all. */
  readonly turns: readonly TurnInput[];
  /** Makes the call idempotent as a whole: at most 128 bytes, of one session. A call with the id of one that was carried out gives that one's answer and changes nothing; with other turns it is `conflict` (409). Kept for a day, the newest 10,000 of a database. Must be 1 to 128 bytes of UTF-8 text. */
  readonly operationId?: string | null | undefined;
}

/** What DataService.AppendTurns gives. */
export interface AppendTurnsResponse {
  /** One for each turn, in order. */
  readonly turns: readonly AppendedTurn[];
  /** The database's transaction id after the append. */
  readonly txid: number;
}

/** What became of one turn of AppendTurns or ReplaceTurns. */
export interface AppendedTurn {
  /** The turn's place in its session. */
  readonly seq: number;
  /** `created`, or `duplicate` when a turn of this `turn_id`, role, content and metadata is there already. */
  readonly status: string;
  /** Present when the embedding was not kept: `skipped_dimension`, as it has another dimension than the transcript's vectors. The turn itself is kept. */
  readonly embedding?: string | undefined;
}

/** What DataService.ListTurns gives. */
export interface ListTurnsResponse {
  /** The turns: the last ones oldest first, or a page in the order asked for. */
  readonly turns: readonly Turn[];
  /** The transaction id of the state that was read. */
  readonly txid: number;
  /** Where the next page begins; absent on the last page, and where the last turns were asked for. */
  readonly nextCursor?: string | undefined;
}

/** What DataService.DeleteTurns takes: exactly one of `last`, `from_seq`, `seq`, `turn_id` and `all`. */
export interface DeleteTurnsRequest {
  /** This many of the last turns, 1 to 10,000. */
  readonly last?: number | null | undefined;
  /** The turns with this number or a higher one. */
  readonly fromSeq?: number | null | undefined;
  /** The turn with this number. */
  readonly seq?: number | null | undefined;
  /** The turn with this id. Must be 1 to 128 bytes of UTF-8 text. */
  readonly turnId?: string | null | undefined;
  /** All turns of the session. */
  readonly all?: boolean | null | undefined;
  /** Makes the call idempotent, as of AppendTurns. Must be 1 to 128 bytes of UTF-8 text. */
  readonly operationId?: string | null | undefined;
}

/** What DataService.DeleteTurns gives. */
export interface DeleteTurnsResponse {
  /** How many turns were deleted. */
  readonly deleted: number;
  /** Whether `from_seq` or `all` mean more turns than one call deletes: ask again, with another `operation_id`. */
  readonly more: boolean;
  /** The database's transaction id after the deletion. */
  readonly txid: number;
}

/** A turn that a caller expects; what is absent is not compared. */
export interface ExpectedTurn {
  /** Its number. */
  readonly seq?: number | null | undefined;
  /** Its id. Must be 1 to 128 bytes of UTF-8 text. */
  readonly turnId?: string | null | undefined;
  /** SHA-256 in lower-case hex of its content's JSON in UTF-8, without spaces, members sorted by their names' UTF-16 code units, numbers in their shortest form (RFC 8785, but integers within 64 bits keep every digit). Must be a hash, 64 hexadecimal digits in lower case. */
  readonly contentSha256?: string | null | undefined;
}

/** What DataService.ReplaceTurns takes. */
export interface ReplaceTurnsRequest {
  /** The last turns of the session as the caller knows them, oldest first, at most 1000, each by one or more of its fields. Empty: nothing is expected and nothing goes. */
  readonly expected?: readonly ExpectedTurn[] | null | undefined;
  /** The turns in their place, as of AppendTurns, 0 to 1000. The id of a turn that stays is `conflict` (409). */
  readonly turns?: readonly TurnInput[] | null | undefined;
  /** Makes the call idempotent, as of AppendTurns. Must be 1 to 128 bytes of UTF-8 text. */
  readonly operationId?: string | null | undefined;
}

/** What DataService.ReplaceTurns gives. */
export interface ReplaceTurnsResponse {
  /** How many turns went. */
  readonly removed: number;
  /** One for each new turn, in order. */
  readonly turns: readonly AppendedTurn[];
  /** The database's transaction id after the change. */
  readonly txid: number;
}

/** What DataService.SearchTurns takes. */
export interface SearchTurnsRequest {
  /** The query's vector. */
  readonly vector: readonly number[];
  /** How many turns, at most 1000; more are given as 1000. */
  readonly k?: number | null | undefined;
}

/** What DataService.SearchTurns gives. */
export interface SearchTurnsResponse {
  /** The turns, nearest first, with `distance`. */
  readonly turns: readonly Turn[];
  /** The transaction id of the state that was read. */
  readonly txid: number;
}

/** One SQL statement. */
export interface SqlStatement {
  /** The statement, in SQLite's dialect; one statement only. Must be at most 1048576 bytes of UTF-8 text. */
  readonly q: string;
  /** An array binds by position, an object by name. Null, booleans (as 0 and 1), numbers and strings bind as themselves, `{"$base64": "..."}` as a blob, other objects and arrays as JSON text. */
  readonly params?: Json | undefined;
}

/** What DataService.ExecuteSql takes. */
export interface ExecuteSqlRequest {
  /** The statements, in order; 1 to 256. */
  readonly stmts: readonly SqlStatement[];
  /** Absent or true: all or nothing. False: each statement stands alone, and one that fails reports its own `error`. */
  readonly txn?: boolean | null | undefined;
}

/** What DataService.ExecuteSql gives. */
export interface ExecuteSqlResponse {
  /** One result per statement, in order. */
  readonly results: readonly SqlResult[];
  /** The database's transaction id after the batch. */
  readonly txid: number;
}

/** What one statement gave. All results together hold at most 10000 rows a statement and 16 MiB; more is `invalid_request` (400). */
export interface SqlResult {
  /** The names of the columns; empty for a statement that gives no rows. */
  readonly columns: readonly string[];
  /** The rows, each an array in the order of `columns`. Integers beyond 2^53 are strings, blobs `{"$base64": "..."}`. */
  readonly rows: readonly (readonly Json[])[];
  /** Rows that the statement inserted, updated or deleted. */
  readonly rowsAffected: number;
  /** The rowid of the connection's last successful insert. */
  readonly lastInsertRowid: number;
  /** Why the statement failed; only with `txn: false`. */
  readonly error?: SqlError | undefined;
}

/** Why one statement of a batch with `txn: false` failed. */
export interface SqlError {
  /** The stable error code. */
  readonly code: string;
  /** What is wrong. */
  readonly message: string;
}

/** What DataService.Sync takes. */
export interface SyncRequest {}

/** What DataService.Sync gives. */
export interface SyncResponse {
  /** The transaction id of the state that object storage holds now. */
  readonly txid: number;
}

/** What DataService.ListFacets gives. */
export interface ListFacetsResponse {
  /** One group for each kind that there is something of, or the one that was asked for. */
  readonly groups: readonly FacetGroup[];
  /** The transaction id of the state that was read. */
  readonly txid: number;
}

/** The facets of one kind. */
export interface FacetGroup {
  /** The kind. */
  readonly kind: string;
  /** The facets, by name. */
  readonly facets: readonly Facet[];
  /** Where the next page begins; null on the last page. */
  readonly nextCursor: string | null;
  /** Whether facets may be missing: types, sources and paths of metadata are found among the newest 20,000 memories, or the newest 2,000 with metadata. */
  readonly approximate: boolean;
}

/** One thing that a database has. */
export interface Facet {
  /** Its name: a memory type, a topic, a source, a session id, a dot path of metadata, a namespace, a collection, a folder with its slash (empty for files in none), a table. */
  readonly name: string;
  /** How many there are: memories that are active (of a topic also those that it superseded), turns of a session, memories or turns whose metadata has the path, keys, documents, vectors, files, rows, records of a subject. Absent where they are not counted: rows of virtual tables. */
  readonly count?: number | undefined;
  /** Whether there are at least so many, or so many among the newest that were looked at. */
  readonly approximate: boolean;
  /** Of a topic, the type of its memories. */
  readonly type?: string | undefined;
  /** Of a path of metadata, the JSON types that were seen there: `array`, `boolean`, `null`, `number`, `object`, `string`. */
  readonly types: readonly string[];
  /** Of a collection of documents, the paths of its indexes. */
  readonly indexes: readonly string[];
  /** Of a collection of vectors, how many numbers each has. */
  readonly dimension?: number | undefined;
  /** Of a collection of vectors, the metric that it has declared. */
  readonly metric?: string | undefined;
}

/** What DataService.ListKeys gives. */
export interface ListKeysResponse {
  /** The keys, sorted by their UTF-8 bytes in the order asked for. */
  readonly keys: readonly string[];
  /** Where the next page begins; null on the last page. */
  readonly nextCursor: string | null;
  /** The transaction id of the state that was read. */
  readonly txid: number;
  /** One for each of the keys, in their order; absent where `include` does not ask for them. */
  readonly entries?: readonly ValueEntry[] | undefined;
}

/** A key of a namespace with what is stored under it. */
export interface ValueEntry {
  /** The key. */
  readonly key: string;
  /** Bytes of the value. */
  readonly size: number;
  /** When it expires, in Unix milliseconds; absent where it stays. */
  readonly expiresAt?: number | undefined;
  /** The value as text, where it is UTF-8; absent where values are not asked for. */
  readonly text?: string | undefined;
  /** The value where it is not UTF-8, in base64; absent where `text` is there or values are not asked for. */
  readonly bytes?: string | undefined;
  /** SHA-256 of the value's bytes, in hexadecimal: what `if_match` of a later write may be. There with the value. */
  readonly hash?: string | undefined;
  /** Whom the record is about; absent where that was not said. */
  readonly subject?: string | undefined;
}

/** What DataService.PutValue gives. */
export interface PutValueResponse {
  /** The database's transaction id after the write. */
  readonly txid: number;
}

/** What DataService.GetValues takes. */
export interface GetValuesRequest {
  /** The keys, 1 to 1000, each once. Must hold 1 to 1000 items, each must be 1 to 512 bytes of UTF-8 text. */
  readonly keys: readonly string[];
}

/** What DataService.GetValues gives. */
export interface GetValuesResponse {
  /** The values that are there, in the order of the keys, at most 4 MiB unless one alone has more. */
  readonly entries: readonly ValueEntry[];
  /** Keys of values that are there and had no room in this answer: to be asked for again. */
  readonly remaining: readonly string[];
  /** The transaction id of the state that was read. */
  readonly txid: number;
}

/** A value to be stored: either `text` or `bytes`. */
export interface ValueInput {
  /** The key: 1 to 512 bytes of UTF-8. Must be 1 to 512 bytes of UTF-8 text. */
  readonly key: string;
  /** The value as text; its UTF-8 is stored. */
  readonly text?: string | null | undefined;
  /** The value as bytes, in base64. */
  readonly bytes?: string | null | undefined;
  /** Lifetime in seconds; 0 expires at once. Absent: the value stays. */
  readonly ttl?: number | null | undefined;
  /** Only if the value that is there has this hash; `*`: only if there is one. Must be a hash, 64 hexadecimal digits in lower case, or *. */
  readonly ifMatch?: string | null | undefined;
  /** Only if there is no value under the key. */
  readonly ifAbsent?: boolean | null | undefined;
  /** Whom the record is about, such as `user-7`, at most 256 bytes: what an erasure by subject finds it by. Absent: the record keeps what it has; empty: it has none. Must be at most 256 bytes of UTF-8 text. */
  readonly subject?: string | null | undefined;
}

/** What DataService.PutValues takes. */
export interface PutValuesRequest {
  /** The values, 1 to 1000 of different keys. */
  readonly items: readonly ValueInput[];
}

/** What DataService.PutValues gives. */
export interface PutValuesResponse {
  /** SHA-256 of each value, in hexadecimal, in the order given: what `if_match` of a later write may be. */
  readonly hashes: readonly string[];
  /** The database's transaction id after the write. */
  readonly txid: number;
}

/** A key to be deleted. */
export interface ValueDeletion {
  /** The key: 1 to 512 bytes of UTF-8. Must be 1 to 512 bytes of UTF-8 text. */
  readonly key: string;
  /** Only if the value that is there has this hash; `*`: only if there is one. Must be a hash, 64 hexadecimal digits in lower case, or *. */
  readonly ifMatch?: string | null | undefined;
}

/** What DataService.DeleteValues takes. */
export interface DeleteValuesRequest {
  /** The keys, 1 to 1000 different ones. An absent one is no error. */
  readonly items: readonly ValueDeletion[];
}

/** What DataService.DeleteValues gives. */
export interface DeleteValuesResponse {
  /** How many keys were there. */
  readonly deleted: number;
  /** The database's transaction id after the deletion. */
  readonly txid: number;
}

/** What DataService.InsertDocs takes. */
export interface InsertDocsRequest {
  /** The documents, at most 1000 of at most 1 MiB each. `_id` is a string; without one a document gets a ULID. An `_id` that exists is `already_exists` (409). */
  readonly docs: readonly JsonObject[];
  /** Whom the documents are about, 1 to 256 bytes: what an erasure by subject finds them by. Must be 1 to 256 bytes of UTF-8 text. */
  readonly subject?: string | null | undefined;
}

/** What DataService.InsertDocs gives. */
export interface InsertDocsResponse {
  /** The `_id` of each document, in the order given. */
  readonly ids: readonly string[];
  /** The database's transaction id after the insert. */
  readonly txid: number;
}

/** What DataService.PutDoc takes. */
export interface PutDocRequest {
  /** The document, at most 1 MiB. Its `_id` is left out or the same. */
  readonly doc: JsonObject;
  /** Only if the document that is there has this hash; `*`: only if there is one. Otherwise `conflict` (412). Must be a hash, 64 hexadecimal digits in lower case, or *. */
  readonly ifMatch?: string | null | undefined;
  /** Only if there is no document with this `_id`. Otherwise `conflict` (412). */
  readonly ifAbsent?: boolean | null | undefined;
  /** Whom the record is about, such as `user-7`, at most 256 bytes: what an erasure by subject finds it by. Absent: the record keeps what it has; empty: it has none. Must be at most 256 bytes of UTF-8 text. */
  readonly subject?: string | null | undefined;
}

/** What DataService.PutDoc gives. */
export interface PutDocResponse {
  /** Whether there was no document with this `_id`. */
  readonly created: boolean;
  /** SHA-256 of the document's JSON text as it is stored, in hexadecimal: what `if_match` of a later write may be. */
  readonly hash: string;
  /** The database's transaction id after the write. */
  readonly txid: number;
}

/** What DataService.GetDoc gives. */
export interface GetDocResponse {
  /** The document with its `_id`. */
  readonly doc: JsonObject;
  /** SHA-256 of the document's JSON text as it is stored, in hexadecimal: what `if_match` of a later write may be. */
  readonly hash: string;
  /** The transaction id of the state that was read. */
  readonly txid: number;
  /** Whom the record is about; absent where that was not said. */
  readonly subject?: string | undefined;
}

/** What DataService.DeleteDoc gives. */
export interface DeleteDocResponse {
  /** Whether there was a document with this `_id`. */
  readonly deleted: boolean;
  /** The database's transaction id after the deletion. */
  readonly txid: number;
}

/** What DataService.FindDocs takes. */
export interface FindDocsRequest {
  /** MongoDB's language (docs/documents.md): field equality by dot path, `$eq`, `$gt`, `$gte`, `$lt`, `$lte`, `$ne`, `$in` (at most 1000), `$nin`, `$all`, `$exists`, `$type`, `$size`, `$elemMatch`, `$regex` (RE2, with `$options`), `$and`, `$or`, `$nor`, `$not`, at most 32 deep. Absent or empty: every document. */
  readonly filter?: JsonObject | null | undefined;
  /** Paths and directions, the first key first. On REST an object: `{"age": -1, "name": 1}`. */
  readonly sort?: { readonly [name: string]: number } | null | undefined;
  /** How many documents, at most 1000. */
  readonly limit?: number | null | undefined;
  /** How many to pass over first. */
  readonly skip?: number | null | undefined;
  /** Which fields to give: dot paths that are all 1 or true, or all 0 or false, as MongoDB's. `_id` is given unless it is 0 itself; an object in the place of a number has paths of its own. Absent or empty: every field. */
  readonly projection?: JsonObject | null | undefined;
}

/** What DataService.FindDocs gives. */
export interface FindDocsResponse {
  /** The documents, each with its `_id`. */
  readonly docs: readonly JsonObject[];
  /** The transaction id of the state that was read. */
  readonly txid: number;
}

/** What DataService.UpdateDocs takes. */
export interface UpdateDocsRequest {
  /** Which documents, as in FindDocs; `{}` is every document. */
  readonly filter: JsonObject;
  /** MongoDB's operators by dot path: `$set`, `$unset`, `$inc`, `$mul`, `$min`, `$max`, `$rename`, `$setOnInsert`, `$push` (with `$each`, `$position`, `$slice`, `$sort`), `$addToSet`, `$pop`, `$pull`, `$pullAll`. `_id` cannot change; `$inc` on a missing field starts at 0. */
  readonly update: JsonObject;
  /** All documents that match instead of the first. */
  readonly multi?: boolean | null | undefined;
  /** Where no document matches, one is made of what the filter says that fields equal, and the update. */
  readonly upsert?: boolean | null | undefined;
}

/** What DataService.UpdateDocs gives. */
export interface UpdateDocsResponse {
  /** Documents that matched. */
  readonly matched: number;
  /** Documents that are different now. */
  readonly modified: number;
  /** The database's transaction id after the update. */
  readonly txid: number;
  /** The `_id` of the document that was made, where `upsert` made one. */
  readonly upsertedId?: string | undefined;
}

/** What DataService.DeleteDocs takes. */
export interface DeleteDocsRequest {
  /** Which documents, as in FindDocs; `{}` is every document. */
  readonly filter: JsonObject;
  /** All documents that match instead of the first. */
  readonly multi?: boolean | null | undefined;
}

/** What DataService.DeleteDocs gives. */
export interface DeleteDocsResponse {
  /** Documents that were deleted. */
  readonly deleted: number;
  /** The database's transaction id after the deletion. */
  readonly txid: number;
}

/** What DataService.CreateDocIndex takes. */
export interface CreateDocIndexRequest {
  /** The dot path to index, at most 256 characters; a collection has at most 32 indexes. */
  readonly path: string;
}

/** What DataService.CreateDocIndex gives. */
export interface CreateDocIndexResponse {
  /** The path that is indexed now. */
  readonly indexed: string;
  /** The database's transaction id after the change. */
  readonly txid: number;
}

/** What DataService.ListDocIndexes gives. */
export interface ListDocIndexesResponse {
  /** The indexes, at most 32. That of `_id`, which every collection has, is not listed. */
  readonly indexes: readonly DocIndex[];
  /** The transaction id of the state that was read. */
  readonly txid: number;
}

/** One index of a collection. */
export interface DocIndex {
  /** The dot path. */
  readonly path: string;
  /** Whether a document has, or had, several values there. */
  readonly multikey: boolean;
}

/** What DataService.DropDocIndex gives. */
export interface DropDocIndexResponse {
  /** Whether there was an index on this path. */
  readonly dropped: boolean;
  /** The database's transaction id after the call. */
  readonly txid: number;
}

/** What DataService.ListDocCollections gives. */
export interface ListDocCollectionsResponse {
  /** The collections, by name. Fewer than asked for: these are all. */
  readonly collections: readonly DocCollection[];
  /** The transaction id of the state that was read. */
  readonly txid: number;
}

/** A collection of documents. */
export interface DocCollection {
  /** Its name. */
  readonly name: string;
  /** Its documents; one that has more than 100000 is said to have 100001. */
  readonly count: number;
  /** Its indexes, without that of `_id`. */
  readonly indexes: number;
}

/** What DataService.CountDocs takes. */
export interface CountDocsRequest {
  /** Which documents, as in FindDocs. Absent or empty: every document. */
  readonly filter?: JsonObject | null | undefined;
  /** Where to stop counting, at most 1000000. */
  readonly limit?: number | null | undefined;
}

/** What DataService.CountDocs gives. */
export interface CountDocsResponse {
  /** The documents that match, at most `limit`. */
  readonly count: number;
  /** Whether there are more than `limit`. */
  readonly more: boolean;
  /** The transaction id of the state that was read. */
  readonly txid: number;
}

/** What DataService.GroupDocs takes. */
export interface GroupDocsRequest {
  /** Which documents, as in FindDocs. Absent or empty: every document. */
  readonly filter?: JsonObject | null | undefined;
  /** The dot path whose values are counted. */
  readonly path: string;
  /** How many values, at most 1000. */
  readonly limit?: number | null | undefined;
}

/** What DataService.GroupDocs gives. */
export interface GroupDocsResponse {
  /** The commonest values first, and of equally many those that sort first. */
  readonly groups: readonly DocGroup[];
  /** How many different values there are; more than 100000, or than 16 MiB of them, are `invalid_request`. */
  readonly distinct: number;
  /** The transaction id of the state that was read. */
  readonly txid: number;
}

/** One value, and how many documents have it. */
export interface DocGroup {
  /** The value: elements of an array count each by itself, once a document. Null is also a missing field. */
  readonly value: Json;
  /** The documents that have it: of what is no array, as many as match `{path: value}` beside the filter. */
  readonly count: number;
}

/** What DataService.UpsertVector takes. */
export interface UpsertVectorRequest {
  /** The vector's id, at most 256 bytes. Must be 1 to 256 bytes of UTF-8 text. */
  readonly id: string;
  /** The vector, of the collection's dimension. */
  readonly embedding: readonly number[];
  /** What else is to be known of it, for filters: an object of any JSON, at most 16 KiB, no field name at its top beginning with `$`. Absent: none, also where the vector before it had some. */
  readonly metadata?: JsonObject | null | undefined;
  /** Declares the collection's metric with its first vector: `cosine`, `dot` or `euclid`. Later it may be given again, and another one is refused. A collection without a declared one takes `cosine`, which its searches mean when they name none. */
  readonly metric?: "cosine" | "dot" | "euclid" | null | undefined;
  /** Whom the record is about, such as `user-7`, at most 256 bytes: what an erasure by subject finds it by. Absent: the record keeps what it has; empty: it has none. Must be at most 256 bytes of UTF-8 text. */
  readonly subject?: string | null | undefined;
}

/** What DataService.UpsertVector gives. */
export interface UpsertVectorResponse {
  /** The database's transaction id after the write. */
  readonly txid: number;
}

/** A vector to be stored. */
export interface VectorInput {
  /** Its id, at most 256 bytes. Must be 1 to 256 bytes of UTF-8 text. */
  readonly id: string;
  /** Its numbers. */
  readonly embedding: readonly number[];
  /** Its metadata, as of UpsertVector. */
  readonly metadata?: JsonObject | null | undefined;
  /** Whom the record is about, such as `user-7`, at most 256 bytes: what an erasure by subject finds it by. Absent: the record keeps what it has; empty: it has none. Must be at most 256 bytes of UTF-8 text. */
  readonly subject?: string | null | undefined;
}

/** What DataService.UpsertVectors takes. */
export interface UpsertVectorsRequest {
  /** The vectors, 1 to 1000. One that is not valid fails them all; of two with one id the later stays. */
  readonly vectors: readonly VectorInput[];
  /** The collection's metric, as of UpsertVector. */
  readonly metric?: "cosine" | "dot" | "euclid" | null | undefined;
}

/** What DataService.UpsertVectors gives. */
export interface UpsertVectorsResponse {
  /** How many vectors were given. */
  readonly upserted: number;
  /** The database's transaction id after the write. */
  readonly txid: number;
}

/** What DataService.ListVectors gives. */
export interface ListVectorsResponse {
  /** The vectors, by id in the order of its bytes. */
  readonly vectors: readonly VectorItem[];
  /** Where the next page begins; null on the last page. */
  readonly nextCursor: string | null;
  /** The transaction id of the state that was read. */
  readonly txid: number;
}

/** A vector of a list. */
export interface VectorItem {
  /** Its id. */
  readonly id: string;
  /** The metadata that it was stored with; absent when there was none. */
  readonly metadata?: JsonObject | undefined;
  /** Its numbers, as of GetVector; absent where they are not asked for. */
  readonly embedding?: readonly number[] | undefined;
  /** Whom the record is about; absent where that was not said. */
  readonly subject?: string | undefined;
}

/** What DataService.GetVector gives. */
export interface GetVectorResponse {
  /** Its id. */
  readonly id: string;
  /** Its numbers, to within the rounding of 32-bit floats: direction and length are kept apart. */
  readonly embedding: readonly number[];
  /** The metadata that it was stored with; absent when there was none. */
  readonly metadata?: JsonObject | undefined;
  /** The transaction id of the state that was read. */
  readonly txid: number;
  /** Whom the record is about; absent where that was not said. */
  readonly subject?: string | undefined;
}

/** What DataService.DeleteVectors takes: either `ids` or `filter`. */
export interface DeleteVectorsRequest {
  /** Ids of the vectors, at most 1000. Must hold at most 1000 items, each must be 1 to 256 bytes of UTF-8 text. */
  readonly ids?: readonly string[] | null | undefined;
  /** A filter over metadata in the language of DataService.FindDocs; one that holds of nothing but a vector without metadata deletes those, `{}` all. */
  readonly filter?: JsonObject | null | undefined;
  /** `next_cursor` of the call before, with the same filter. */
  readonly cursor?: string | null | undefined;
}

/** What DataService.DeleteVectors gives. */
export interface DeleteVectorsResponse {
  /** How many vectors were deleted. */
  readonly deleted: number;
  /** Where to go on; null when no more vectors meet the filter. A call may delete few or none and have more before it. */
  readonly nextCursor: string | null;
  /** The database's transaction id after the delete. */
  readonly txid: number;
}

/** What DataService.SearchVectors takes. */
export interface SearchVectorsRequest {
  /** The query's vector, of the collection's dimension. Either it or `id`. */
  readonly vector?: readonly number[] | null | undefined;
  /** How many hits, at most 1000; more are given as 1000. */
  readonly k?: number | null | undefined;
  /** Only vectors whose metadata meets this filter, in the language of DataService.FindDocs; a vector without metadata counts as `{}`. It narrows before the nearest are chosen, so it never starves an answer. */
  readonly filter?: JsonObject | null | undefined;
  /** `cosine`, `dot` or `euclid`. Absent: the collection's, or `cosine` where none was declared; a declared one is the only one that is taken. The lengths of vectors that were stored before these metrics came count as 1. */
  readonly metric?: "cosine" | "dot" | "euclid" | null | undefined;
  /** Searches for what is near to the vector of this id, which is no hit itself; one that is not there is `not_found` (404). Must be 1 to 256 bytes of UTF-8 text. */
  readonly id?: string | null | undefined;
  /** Whether hits have their numbers, as of GetVector: at most 262,144 numbers, so with 1,024 dimensions `k` up to 256. */
  readonly includeVectors?: boolean | null | undefined;
  /** Whether hits have their metadata. Absent: they have. */
  readonly includeMetadata?: boolean | null | undefined;
}

/** What DataService.SearchVectors gives. */
export interface SearchVectorsResponse {
  /** The hits, nearest first. */
  readonly hits: readonly VectorHit[];
  /** The transaction id of the state that was read. */
  readonly txid: number;
  /** The metric that the collection has declared; absent where it has declared none. */
  readonly metric?: string | undefined;
}

/** One vector found. */
export interface VectorHit {
  /** Its id. */
  readonly id: string;
  /** How far it is: by `cosine` from 0, the same direction, to 2, the opposite; by `euclid` the Euclidean distance; by `dot` the negative of the inner product, so that less is nearer throughout. */
  readonly distance: number;
  /** The metadata that it was stored with; absent when there was none. */
  readonly metadata?: JsonObject | undefined;
  /** Its numbers; absent where they are not asked for. */
  readonly embedding?: readonly number[] | undefined;
  /** Whom the record is about; absent where that was not said. */
  readonly subject?: string | undefined;
}

/** What FileService.PutFile takes. */
export interface PutFileRequest {
  /** The text: at most 1 MiB of UTF-8, without U+0000; it may be empty. Must be at most 1048576 bytes of UTF-8 text. */
  readonly text: string;
  /** Only if the file has this hash; `*`: only if there is a file. Must be a hash, 64 hexadecimal digits in lower case, or *. */
  readonly ifMatch?: string | null | undefined;
  /** Only if there is no file at the path. */
  readonly ifAbsent?: boolean | null | undefined;
  /** Whom the text is about, such as `user-7`, at most 256 bytes: what an erasure by subject finds it by, version by version. Absent: the version has the subject of the one before it; empty: it has none. Must be at most 256 bytes of UTF-8 text. */
  readonly subject?: string | null | undefined;
}

/** A version of a file that a write has made, or that was there already. */
export interface FileWritten {
  /** The path in the form NFC. */
  readonly path: string;
  /** The number of the version: 1 for the first of a path. */
  readonly version: number;
  /** SHA-256 of the text's UTF-8 bytes, in hexadecimal. */
  readonly hash: string;
  /** Bytes of UTF-8. */
  readonly size: number;
  /** Whether there was no file at the path. */
  readonly created: boolean;
  /** The database's transaction id after the write. */
  readonly txid: number;
}

/** What FileService.GetFile gives. */
export interface GetFileResponse {
  /** The path in the form NFC. */
  readonly path: string;
  /** The text, or the lines that were asked for, with their line feeds. */
  readonly text: string;
  /** The number of the version. */
  readonly version: number;
  /** SHA-256 of the whole text, in hexadecimal. */
  readonly hash: string;
  /** Bytes of the whole text. */
  readonly size: number;
  /** Lines of the whole text. */
  readonly lines: number;
  /** When the version was written, Unix milliseconds. */
  readonly updatedAt: number;
  /** The transaction id of the state that was read. */
  readonly txid: number;
  /** Whom the version is about; absent where that was not said. */
  readonly subject?: string | undefined;
}

/** One change of a text: `old_text`, `after_line`, or `first_line` and `last_line` say where, `text` what is to be there. */
export interface FileEdit {
  /** Replaces this text, which must occur exactly once. Must be 1 to 1048576 bytes of UTF-8 text. */
  readonly oldText?: string | null | undefined;
  /** With `old_text`: replaces it wherever it occurs, once or more often. */
  readonly replaceAll?: boolean | null | undefined;
  /** Inserts `text` as lines of its own after this line; 0: before the first. */
  readonly afterLine?: number | null | undefined;
  /** Replaces the lines from this one on, counted from 1, */
  readonly firstLine?: number | null | undefined;
  /** to this one; an empty `text` deletes them. */
  readonly lastLine?: number | null | undefined;
  /** The new text. Must be at most 1048576 bytes of UTF-8 text. */
  readonly text?: string | null | undefined;
}

/** What FileService.EditFile takes. */
export interface EditFileRequest {
  /** The changes, 1 to 100, each of what the ones before it left. */
  readonly edits: readonly FileEdit[];
  /** Only if the file has this hash, as for PutFile. Must be a hash, 64 hexadecimal digits in lower case, or *. */
  readonly ifMatch?: string | null | undefined;
}

/** What FileService.ListFiles gives. */
export interface ListFilesResponse {
  /** The entries, by path in the order of its bytes. */
  readonly entries: readonly FileEntry[];
  /** Where the next page begins; null on the last page. */
  readonly nextCursor: string | null;
  /** The transaction id of the state that was read. */
  readonly txid: number;
}

/** A file or a folder of a list. */
export interface FileEntry {
  /** The whole path. */
  readonly path: string;
  /** `file` or `folder`; the fields below are a file's. */
  readonly kind: string;
  /** The number of the present version. */
  readonly version?: number | undefined;
  /** SHA-256 of the text, in hexadecimal. */
  readonly hash?: string | undefined;
  /** Bytes of UTF-8. */
  readonly size?: number | undefined;
  /** When the present version was written, Unix milliseconds. */
  readonly updatedAt?: number | undefined;
}

/** What FileService.MoveFiles takes. */
export interface MoveFilesRequest {
  /** The path that it is to have; not within itself. Must be a path such as notes/travel/tokyo.md: parts between slashes, none of them empty, . or .., without control characters and must be 1 to 1024 bytes of UTF-8 text. */
  readonly to: string;
  /** Whether files that are in the way are replaced. */
  readonly overwrite?: boolean | null | undefined;
}

/** What FileService.MoveFiles gives. */
export interface MoveFilesResponse {
  /** How many files were moved. */
  readonly moved: number;
  /** The database's transaction id after the change. */
  readonly txid: number;
}

/** What FileService.DeleteFiles gives. */
export interface DeleteFilesResponse {
  /** How many files were deleted. */
  readonly deleted: number;
  /** How many versions were removed with them. */
  readonly purgedVersions: number;
  /** The database's transaction id after the change. */
  readonly txid: number;
}

/** What FileService.ListFileVersions gives. */
export interface ListFileVersionsResponse {
  /** The versions, newest first; none where the path never had a file. */
  readonly versions: readonly FileVersion[];
  /** The transaction id of the state that was read. */
  readonly txid: number;
}

/** One version of a path. */
export interface FileVersion {
  /** Its number. */
  readonly version: number;
  /** `written`, `moved_here`, `moved_away` or `deleted`. */
  readonly change: string;
  /** The path that it was moved from or to. */
  readonly otherPath?: string | undefined;
  /** The transaction that made it. */
  readonly writtenTxid: number;
  /** When, Unix milliseconds. */
  readonly writtenAt: number;
  /** SHA-256 of the text, in hexadecimal; absent where the file was moved away or deleted. */
  readonly hash?: string | undefined;
  /** Bytes of UTF-8; absent as the hash. */
  readonly size?: number | undefined;
}

/** What FileService.SearchFiles takes. */
export interface SearchFilesRequest {
  /** What is looked for, in words: 1 byte to 16 KiB. Must be 1 to 16384 bytes of UTF-8 text. */
  readonly query: string;
  /** Only files below this folder. Must be a path such as notes/travel/tokyo.md: parts between slashes, none of them empty, . or .., without control characters and must be at most 1024 bytes of UTF-8 text, or empty. */
  readonly folder?: Json | null | undefined;
  /** How many files at most, 1 to 100. */
  readonly k?: number | null | undefined;
}

/** What FileService.SearchFiles gives. */
export interface SearchFilesResponse {
  /** The files, best first. */
  readonly hits: readonly FileHit[];
  /** The transaction id of the state that was read. */
  readonly txid: number;
}

/** A file that was found. */
export interface FileHit {
  /** Its path. */
  readonly path: string;
  /** Larger is better; not comparable between questions. */
  readonly score: number;
  /** SHA-256 of the whole text, in hexadecimal. */
  readonly hash: string;
  /** The lines that say most of what was asked; absent where only the path does. */
  readonly passage?: FilePassage | undefined;
}

/** Some lines of a text. */
export interface FilePassage {
  /** The first of them, counted from 1. */
  readonly firstLine: number;
  /** The last of them. */
  readonly lastLine: number;
  /** What they say, at most 1000 characters, beginning within a line where the line is longer. */
  readonly text: string;
}

/** What BranchService.CreateBranch takes. */
export interface CreateBranchRequest {
  /** The new branch. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly name: string;
  /** The branch to fork. Absent: the branch that the database's address names, `main` where it names none. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly from?: string | null | undefined;
  /** Lifetime in seconds, after which the branch is gone (`branch_not_found`). Absent: it stays. */
  readonly ttl?: number | null | undefined;
  /** The state to fork: a checkpoint's name of the branch that is forked, a transaction id in decimal (on REST a JSON number too), or a time such as `2026-01-31T12:00:00Z`. Unknown, or outside the window that can be restored: `not_found` (404). Absent: the state it has now. Must be a transaction id, the name of a checkpoint, or a time such as 2026-01-31T12:00:00Z (in a query, + is written %2B). */
  readonly at?: string | number | null | undefined;
}

/** What BranchService.CreateBranch gives. */
export interface CreateBranchResponse {
  /** The new branch. */
  readonly branch: string;
  /** The branch it was forked from. */
  readonly parent: string;
  /** The parent's transaction id at the fork. */
  readonly forkTxid: number;
  /** When the branch ceases to exist, in Unix milliseconds; null without a lifetime. */
  readonly ttlAt: number | null;
  /** How to address it: `db@branch`. */
  readonly spec: string;
}

/** What BranchService.ListBranches gives. */
export interface ListBranchesResponse {
  /** The branches: `main`, then by name. */
  readonly branches: readonly Branch[];
}

/** A branch. */
export interface Branch {
  /** Its name. */
  readonly name: string;
  /** The branch it was forked from; null for `main`. */
  readonly parent: string | null;
  /** The parent's transaction id at the fork; null for `main`. */
  readonly forkTxid: number | null;
  /** The branch's current transaction id. */
  readonly txid: number;
  /** When it was created, in Unix milliseconds. */
  readonly createdAt: number;
  /** When it ceases to exist, in Unix milliseconds; null for a branch without a lifetime. */
  readonly ttlAt: number | null;
}

/** What BranchService.DiffStates gives. */
export interface DiffStatesResponse {
  /** The transaction id of the earlier state, in its own branch. */
  readonly from: number;
  /** The transaction id of the later state. */
  readonly to: number;
  /** What differs. */
  readonly differences: readonly StateDifference[];
  /** Where the next page begins; null on the last page. */
  readonly nextCursor: string | null;
  /** The transaction id of the later state. */
  readonly txid: number;
}

/** One difference between two states. */
export interface StateDifference {
  /** `memory`, `file`, `key`, `turns`, `vector`, `document` or `table`. */
  readonly kind: string;
  /** Of a memory `added`, `superseded`, `forgotten` or `changed` (its state, time of expiry, keywords, metadata or pin); of a file `put`, `moved` or `deleted`; of the others `added`, `removed` or `changed`. */
  readonly change: string;
  /** The namespace of a key, or the collection of a vector or a document. */
  readonly within?: string | undefined;
  /** The memory's id, the file's path, the key, the session of turns, the id of the vector or document, or the table. */
  readonly name: string;
  /** Where a file was moved to. */
  readonly movedTo?: string | undefined;
  /** How many turns the session had, or rows the table had, counted to 1,000,000. A table of as many rows as before is not told. */
  readonly before?: number | undefined;
  /** How many it has. */
  readonly after?: number | undefined;
}

/** What BranchService.CreateCheckpoint takes. */
export interface CreateCheckpointRequest {
  /** The checkpoint's name. Must be 1 to 64 characters of letters, digits, ., _ and -, not start with ., and hold something besides digits, as a rewind takes digits for a transaction id. */
  readonly name: string;
}

/** What BranchService.CreateCheckpoint gives. */
export interface CreateCheckpointResponse {
  /** The checkpoint's name. */
  readonly checkpoint: string;
  /** The transaction id of the state. */
  readonly txid: number;
}

/** What BranchService.ListCheckpoints gives. */
export interface ListCheckpointsResponse {
  /** The checkpoints, oldest state first. */
  readonly checkpoints: readonly Checkpoint[];
}

/** A named state of a branch. */
export interface Checkpoint {
  /** Its name. */
  readonly checkpoint: string;
  /** The transaction id of the state. */
  readonly txid: number;
  /** When the name was given, in Unix milliseconds. */
  readonly createdAt: number;
}

/** What BranchService.RewindBranch takes. */
export interface RewindBranchRequest {
  /** A checkpoint's name, a transaction id in decimal (on REST a JSON number too), or a time such as `2026-01-31T12:00:00Z`. Unknown, or outside the window that can be restored: `not_found` (404). Must be a transaction id, the name of a checkpoint, or a time such as 2026-01-31T12:00:00Z (in a query, + is written %2B). */
  readonly to: string | number;
}

/** What BranchService.RewindBranch gives. */
export interface RewindBranchResponse {
  /** The transaction id whose state is back. */
  readonly rewoundTo: number;
  /** The transaction id of the rewind itself, larger than any before. */
  readonly txid: number;
}

/** What TransferService.Import gives. */
export interface ImportResponse {
  /** Whether the trailer was there, and right: the import is whole. */
  readonly complete: boolean;
  /** Give this back with the next lines; null when the import is complete. */
  readonly cursor: string | null;
  /** The number of the next line: less than what was sent where the call had no time for all of it. */
  readonly nextLine: number;
  /** What became of the records, from the first line on; of a dry run, what would become of them. */
  readonly counts: readonly ImportCounts[];
  /** Records of this call that were left out, the first 20. */
  readonly left: readonly ImportLeft[];
  /** Of a dry run, what is wrong with these lines, the first 20. */
  readonly errors: readonly ImportError[];
  /** The checkpoint from before the import; absent while nothing was to be written. */
  readonly checkpoint?: string | undefined;
  /** The database's transaction id after these lines. */
  readonly txid: number;
}

/** How many records of a kind came to which outcome. */
export interface ImportCounts {
  /** The kind of the records, such as `memory`. */
  readonly kind: string;
  /** Written. */
  readonly created: number;
  /** Written in the place of something else under their names. */
  readonly replaced: number;
  /** There already, the same. */
  readonly unchanged: number;
  /** Left out: something else is there under their names, or in their way. */
  readonly conflicts: number;
  /** Left out: memories that an active one says under another id. */
  readonly duplicates: number;
  /** Left out: their time is over. */
  readonly expired: number;
  /** Left out: they were erased for good. */
  readonly erased: number;
}

/** A record that was left out. */
export interface ImportLeft {
  /** Its line, the header being line 1; marks count as lines. */
  readonly line: number;
  /** Its kind. */
  readonly kind: string;
  /** `conflict`, `duplicate`, `expired` or `erased`. */
  readonly outcome: string;
}

/** A line that would be refused. */
export interface ImportError {
  /** Its number, the header being line 1. */
  readonly line: number;
  /** What is wrong with it. */
  readonly message: string;
}

/** An event of ChangeService.Watch. */
export interface WatchResponse {
  /** `changes`: a transaction. `rewound`: a transaction that put the branch back to the state of `after_txid`; what was told of the transactions between the two is undone. `position`: no transaction, the branch is at `txid`. */
  readonly kind: string;
  /** The transaction; where to go on after. */
  readonly txid: number;
  /** The state before it; of a rewind, the state that holds again; of a position, `txid` itself. */
  readonly afterTxid: number;
  /** When it was committed, in Unix milliseconds; of a position absent. */
  readonly at?: number | undefined;
  /** What it changed, in the order in which it did; none where it changed nothing that has a name, such as vectors that were made later. */
  readonly changes: readonly Change[];
  /** Whether it changed more than is listed: 1000 changes and 256 KiB of one transaction are. */
  readonly partial: boolean;
}

/** One change of a transaction. Which names are there follows from the kind. */
export interface Change {
  /** `memory` (`id`), `session` (`session_id`), `turn` (`session_id`, `seq`), `kv` (`namespace`, `key`), `doc` and `vector` (`collection`, `id`), `file` (`path`), `sql` (`table`), `erasure` (`id`). */
  readonly kind: string;
  /** What happened to it. A memory is `proposed`, `reviewed` (approved, which `created` follows, or rejected), `created`, `superseded`, `updated`, `forgotten` or `expired`; a session `ended`; a turn `created` or `deleted`; a value `put`, `deleted` or `expired`; a document `created`, `updated` or `deleted`; a vector `put` or `deleted`; a file `written`, `moved_here`, `moved_away`, `deleted` or `purged`; a table `written` (or made, altered or dropped); an erasure `erased`. */
  readonly op: string;
  /** The id of a memory (`mem_…`), a document, a vector, or of the coupon of an erasure (`ers_…`), which says what was erased: the feed does not, and forgets what it has told of it. */
  readonly id?: string | undefined;
  /** The namespace of a key. */
  readonly namespace?: string | undefined;
  /** The key of a value. */
  readonly key?: string | undefined;
  /** The collection of a document or a vector. */
  readonly collection?: string | undefined;
  /** The session of a turn, or the one that ended. */
  readonly sessionId?: string | undefined;
  /** The number of a turn. */
  readonly seq?: number | undefined;
  /** The path of a file. */
  readonly path?: string | undefined;
  /** The table that a statement of SQL names as the one that it changes; what triggers and foreign keys change is not told. */
  readonly table?: string | undefined;
}

/** What ChangeService.Undo takes. */
export interface UndoRequest {
  /** The transaction to undo, as `Service-Txid` or the change feed told it. */
  readonly txid: number;
  /** Only says whether it can be undone and what that would change. */
  readonly dryRun?: boolean | null | undefined;
}

/** What ChangeService.Undo gives. */
export interface UndoResponse {
  /** The transaction that was undone. */
  readonly undone: number;
  /** What it had changed, as the change feed told it. */
  readonly changes: readonly Change[];
  /** The transaction of the undo; of a dry run the state that was looked at. */
  readonly txid: number;
}

/** What WebhookService.CreateWebhook takes. */
export interface CreateWebhookRequest {
  /** Where to post to: `https://…`, without credentials and without a fragment. `http://`, and hosts with addresses that no public network routes, only where the operator has listed the host in `SERVICE_WEBHOOK_HOSTS`. Must be 1 to 2048 bytes of UTF-8 text. */
  readonly url: string;
  /** Only changes of these kinds are posted; a transaction without one is not. Absent: all. */
  readonly kinds?:
    | readonly ("memory" | "session" | "turn" | "kv" | "doc" | "vector" | "file" | "sql" | "erasure")[]
    | null
    | undefined;
  /** The transaction behind which it begins; 0 is the beginning of the branch. Absent: the present state. */
  readonly after?: number | null | undefined;
  /** For people. Must be at most 256 bytes of UTF-8 text. */
  readonly description?: string | null | undefined;
}

/** A webhook. */
export interface Webhook {
  /** Its id, `whk_…`. */
  readonly id: string;
  /** The branch whose transactions it posts. */
  readonly branch: string;
  /** Where they are posted to. */
  readonly url: string;
  /** The kinds of changes that it tells of; absent: all. */
  readonly kinds?:
    readonly ("memory" | "session" | "turn" | "kv" | "doc" | "vector" | "file" | "sql" | "erasure")[] | undefined;
  /** What it was described as. */
  readonly description?: string | undefined;
  /** `active` or `paused`. */
  readonly state: string;
  /** Why it is paused: `asked`, or `gone` when the receiver answered 410. */
  readonly pausedBecause?: string | undefined;
  /** The last transaction that it is done with, as far as that is written down: some seconds behind what was posted. */
  readonly position: number;
  /** When it was made, in Unix milliseconds. */
  readonly createdAt: number;
  /** The transaction that the receiver did not take and that is posted again; absent while there is none. */
  readonly trying?: WebhookFailure | undefined;
  /** How many transactions are in its list of failures. */
  readonly failures: number;
}

/** A transaction that a receiver did not take. */
export interface WebhookFailure {
  /** The transaction. */
  readonly txid: number;
  /** When it was last tried, in Unix milliseconds. */
  readonly at: number;
  /** How often it was tried. */
  readonly tries: number;
  /** What came of the last try: `status` (the receiver answered something else than 2xx), `timeout`, `connection` (no connection, or one that broke), `tls` (the certificate was not good), `dns` (the host's name has no address), `address` (an address that no webhook may reach), or `policy` (the policy does not let webhooks out). */
  readonly reason: string;
  /** The HTTP status of the last answer, where there was one. */
  readonly status?: number | undefined;
  /** When it is tried again by itself, in Unix milliseconds; absent when it was given up. */
  readonly nextAt?: number | undefined;
  /** Whether it was given up and waits to be tried once more, as RedeliverWebhook asked. */
  readonly queued: boolean;
}

/** What WebhookService.ListWebhooks gives. */
export interface ListWebhooksResponse {
  /** All of them, oldest first. */
  readonly webhooks: readonly Webhook[];
}

/** What WebhookService.UpdateWebhook takes. */
export interface UpdateWebhookRequest {
  /** Another address, as in CreateWebhookRequest. Must be 1 to 2048 bytes of UTF-8 text. */
  readonly url?: string | null | undefined;
  /** Other kinds; an empty list: all. */
  readonly kinds?:
    | readonly ("memory" | "session" | "turn" | "kv" | "doc" | "vector" | "file" | "sql" | "erasure")[]
    | null
    | undefined;
  /** Another description; an empty one: none. Must be at most 256 bytes of UTF-8 text. */
  readonly description?: string | null | undefined;
  /** Whether it is to be paused, or to go on. */
  readonly paused?: boolean | null | undefined;
}

/** What WebhookService.TestWebhook takes. */
export interface TestWebhookRequest {}

/** What WebhookService.TestWebhook gives. */
export interface TestWebhookResponse {
  /** Whether the receiver answered 2xx. */
  readonly delivered: boolean;
  /** Why not, as in WebhookFailure.reason. */
  readonly reason?: string | undefined;
  /** The HTTP status of the answer, where there was one. */
  readonly status?: number | undefined;
  /** How long it took, in milliseconds. */
  readonly tookMs: number;
}

/** What WebhookService.ListWebhookFailures gives. */
export interface ListWebhookFailuresResponse {
  /** The newest first. */
  readonly failures: readonly WebhookFailure[];
  /** Where the next page begins; null on the last page. */
  readonly nextCursor: string | null;
}

/** What WebhookService.RedeliverWebhook takes. */
export interface RedeliverWebhookRequest {
  /** The transactions; none: all of the list. */
  readonly txids?: readonly number[] | null | undefined;
  /** Takes them off the list instead. */
  readonly drop?: boolean | null | undefined;
}

/** What WebhookService.RedeliverWebhook gives. */
export interface RedeliverWebhookResponse {
  /** How many of the list these were. */
  readonly count: number;
}

/** The query of GET /v1/namespaces/{ns}/audit. */
export interface ReadAuditQuery {
  /** Events at or after this time, in Unix milliseconds. Absent: 24 hours before `to`. */
  readonly from?: number | undefined;
  /** Events before this time, in Unix milliseconds. Absent: now. */
  readonly to?: number | undefined;
  /** An exact action, or a prefix that ends in a dot, such as `memory.`. Must be the name of an action, or the beginning of one that ends in a dot. */
  readonly action?: string | undefined;
  /** Events of this profile only. Must be 1 to 64 characters of a-z, 0-9, _ and -, start with a letter or digit, not end in -, and not contain --. */
  readonly profile?: string | undefined;
  /** `ok`, `denied` or `error`. */
  readonly outcome?: "ok" | "denied" | "error" | undefined;
  /** Events on a page, at most 1000; more are given as 1000. */
  readonly limit?: number | undefined;
  /** `next_cursor` of the page before. */
  readonly cursor?: string | undefined;
}

/** The query of GET /v1/namespaces/{ns}/usage. */
export interface GetNamespaceUsageQuery {
  /** Profiles whose names start with this only. */
  readonly prefix?: string | undefined;
  /** Profiles on a page, at most 100; more are given as 100. A page ends earlier once 100,000 objects were listed. */
  readonly limit?: number | undefined;
  /** `next_cursor` of the page before. */
  readonly cursor?: string | undefined;
}

/** The query of GET /v1/memory/{ns}. */
export interface ListProfilesQuery {
  /** Profiles whose names start with this only. */
  readonly prefix?: string | undefined;
  /** Profiles on a page, at most 1000, or 100 with `include`; more are given as so many. Absent: all, or 100 where a page is asked for. */
  readonly limit?: number | undefined;
  /** `next_cursor` of the page before, in the same order. */
  readonly cursor?: string | undefined;
  /** `asc` or `desc`, by name. Absent: `asc`. */
  readonly order?: "asc" | "desc" | undefined;
  /** `activity`: when each was last written and how large it is, as object storage has it. */
  readonly include?: "activity" | undefined;
}

/** The query of POST /v1/memory/{ns}/{profile}/memories. */
export interface IngestQuery {
  /** The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
}

/** The query of GET /v1/memory/{ns}/{profile}/memories. */
export interface ListMemoriesQuery {
  /** The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
  /** Memories of these types only, separated by commas. Absent: all. Must be among fact, event, instruction and task, separated by commas. */
  readonly types?: string | undefined;
  /** Memories of exactly this topic only. Must be 1 to 512 bytes of UTF-8 text. */
  readonly topicKey?: string | undefined;
  /** Memories of this session only. Must be 1 to 128 bytes of UTF-8 text. */
  readonly sessionId?: string | undefined;
  /** Memories that this agent ingested only. Must be 1 to 256 bytes of UTF-8 text. */
  readonly source?: string | undefined;
  /** Memories stored at or after this time, in Unix milliseconds. Absent: from the first. */
  readonly since?: number | undefined;
  /** Memories stored before this time, in Unix milliseconds; must be later than `since`. Absent: to the last. */
  readonly until?: number | undefined;
  /** Memories whose metadata meets this filter only: JSON in the language of DataService.FindDocs. A memory without metadata counts as one with an empty object. */
  readonly filter?: string | undefined;
  /** Also memories that were superseded. */
  readonly includeSuperseded?: boolean | undefined;
  /** `desc`, newest first, or `asc`, oldest first. Absent: `desc`. */
  readonly order?: "desc" | "asc" | undefined;
  /** Memories on a page, at most 1000; more are given as 1000. */
  readonly limit?: number | undefined;
  /** `next_cursor` of the page before, in the same order. */
  readonly cursor?: string | undefined;
  /** Memories in these states only, separated by commas: `active`, `superseded`, `completed` (tasks that are done) and `proposed` (waiting for a review). Absent: `active`, and what is included. Must be among active, superseded, completed and proposed, separated by commas. */
  readonly status?: string | undefined;
  /** Also tasks that were completed. */
  readonly includeCompleted?: boolean | undefined;
  /** Memories of this subject only. Must be 1 to 256 bytes of UTF-8 text. */
  readonly subject?: string | undefined;
  /** Memories that hold in the world at this time only, in Unix milliseconds. Absent: whenever they hold. */
  readonly validAt?: number | undefined;
  /** Memories that were derived from this memory only. Must be 1 to 64 bytes of UTF-8 text. */
  readonly derivedFromMemory?: string | undefined;
  /** Memories that were derived from turns of this session only. Must be 1 to 128 bytes of UTF-8 text. */
  readonly derivedFromSession?: string | undefined;
  /** With `derived_from_session`: from the turn of this number only. */
  readonly derivedFromSeq?: number | undefined;
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of GET /v1/memory/{ns}/{profile}/memories/{id}. */
export interface GetMemoryQuery {
  /** The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of PATCH /v1/memory/{ns}/{profile}/memories/{id}. */
export interface UpdateMemoryQuery {
  /** The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
}

/** The query of DELETE /v1/memory/{ns}/{profile}/memories/{id}. */
export interface ForgetMemoryQuery {
  /** The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
}

/** The query of GET /v1/memory/{ns}/{profile}/history. */
export interface GetHistoryQuery {
  /** The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
  /** The topic. Must be 1 to 512 bytes of UTF-8 text. */
  readonly topicKey?: string | undefined;
  /** Its type, `fact` or `instruction`: each has a history of its own. */
  readonly type?: "fact" | "event" | "instruction" | "task" | undefined;
  /** A memory, for the history of its topic. */
  readonly id?: string | undefined;
  /** States on a page, at most 200; more are given as 200. */
  readonly limit?: number | undefined;
  /** `next_cursor` of the page before. */
  readonly cursor?: string | undefined;
}

/** The query of POST /v1/memory/{ns}/{profile}/review. */
export interface ReviewMemoryQuery {
  /** The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
}

/** The query of POST /v1/memory/{ns}/{profile}/forget. */
export interface ForgetMemoriesQuery {
  /** The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
}

/** The query of POST /v1/memory/{ns}/{profile}/recall. */
export interface RecallQuery {
  /** The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of POST /v1/memory/{ns}/{profile}/context. */
export interface GetContextQuery {
  /** The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of POST /v1/memory/{ns}/{profile}/ask. */
export interface AskQuery {
  /** The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of POST /v1/memory/{ns}/{profile}/extract. */
export interface ExtractQuery {
  /** The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
}

/** The query of GET /v1/memory/{ns}/{profile}/sessions. */
export interface ListSessionsQuery {
  /** The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
  /** How many sessions, at most 1000. */
  readonly limit?: number | undefined;
  /** `next_cursor` of the page before. A session that is active meanwhile moves to the front, which a later page does not show. */
  readonly cursor?: string | undefined;
  /** Also count each session's turns and give the times of its first and last one. A page that counts ends early when it has counted 200,000 turns. */
  readonly includeTurns?: boolean | undefined;
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of DELETE /v1/memory/{ns}/{profile}/sessions/{sid}. */
export interface EndSessionQuery {
  /** Also drop the session's transcript. */
  readonly turns?: boolean | undefined;
  /** The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
}

/** The query of POST /v1/memory/{ns}/{profile}/erasures. */
export interface CreateErasureQuery {
  /** The branch. Absent: `main`. Other branches keep what they hold, and block the erasure until they are without it. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
}

/** The query of GET /v1/memory/{ns}/{profile}/erasures. */
export interface ListErasuresQuery {
  /** Only erasures that were asked for on this branch. Absent: those of all branches. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
}

/** The query of GET /v1/memory/{ns}/{profile}/erasures/{id}. */
export interface GetErasureQuery {
  /** The branch that it was asked for on; of another one it is `not_found`. Absent: any. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
}

/** The query of POST /v1/memory/{ns}/{profile}/reembed. */
export interface ReembedQuery {
  /** The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
}

/** The query of POST /v1/memory/{ns}/{profile}/calibrate. */
export interface CalibrateQuery {
  /** The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly branch?: string | undefined;
}

/** The query of GET /v1/db/{db}/memory/{session}/turns. */
export interface ListTurnsQuery {
  /** How many of the last turns, at most 1000; not beside the fields below. */
  readonly last?: number | undefined;
  /** `asc`, oldest first, or `desc`, newest first. Absent: `asc`. */
  readonly order?: "asc" | "desc" | undefined;
  /** How many turns on a page, at most 1000; more are given as 1000. */
  readonly limit?: number | undefined;
  /** `next_cursor` of the page before, in the same order. */
  readonly cursor?: string | undefined;
  /** Only turns with this number or a higher one. */
  readonly fromSeq?: number | undefined;
  /** Only turns with this number or a lower one. */
  readonly toSeq?: number | undefined;
  /** Only turns of this role. Must be 1 to 64 bytes of UTF-8 text. */
  readonly role?: string | undefined;
  /** Only turns whose metadata meets this filter, JSON in the language of DataService.FindDocs; a turn without metadata counts as `{}`. */
  readonly filter?: string | undefined;
  /** Only turns of this subject. Must be 1 to 256 bytes of UTF-8 text. */
  readonly subject?: string | undefined;
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of POST /v1/db/{db}/memory/{session}/search. */
export interface SearchTurnsQuery {
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of POST /v1/db/{db}/sql. */
export interface ExecuteSqlQuery {
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of GET /v1/db/{db}/facets. */
export interface ListFacetsQuery {
  /** `types`, `topics`, `sources`, `sessions`, `memory_metadata`, `turn_metadata`, `keys`, `documents`, `vectors`, `files`, `tables` or `subjects`. Absent: all of them. */
  readonly kind?:
    | "types"
    | "topics"
    | "sources"
    | "sessions"
    | "memory_metadata"
    | "turn_metadata"
    | "keys"
    | "documents"
    | "vectors"
    | "files"
    | "tables"
    | "subjects"
    | undefined;
  /** How many facets of a kind, at most 1000; more are given as 1000. */
  readonly limit?: number | undefined;
  /** `next_cursor` of the page before, of the same kind. */
  readonly cursor?: string | undefined;
}

/** The query of GET /v1/db/{db}/kv/{ns}. */
export interface ListKeysQuery {
  /** Keys that start with this only. Must be at most 512 bytes of UTF-8 text. */
  readonly prefix?: string | undefined;
  /** Keys on a page, at most 1000; more are given as 1000. */
  readonly limit?: number | undefined;
  /** `next_cursor` of the page before, in the same order. */
  readonly cursor?: string | undefined;
  /** Keys from this one on only, itself included. Must be at most 512 bytes of UTF-8 text. */
  readonly start?: string | undefined;
  /** Keys before this one only, itself left out. Must be at most 512 bytes of UTF-8 text. */
  readonly end?: string | undefined;
  /** `asc` or `desc`. Absent: `asc`. */
  readonly order?: "asc" | "desc" | undefined;
  /** What is given of each key in `entries`: `details`, its size and when it expires, or `values`, these and its value and hash; of values a page has at most 4 MiB, unless one alone has more. Absent: no entries. */
  readonly include?: "details" | "values" | undefined;
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of GET /v1/db/{db}/kv/{ns}/{key}. */
export interface GetValueQuery {
  /** `primary`: from the writer. `cached`: may be up to 30 seconds old. The same as the `Service-Consistency` header. */
  readonly consistency?: "primary" | "cached" | undefined;
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of PUT /v1/db/{db}/kv/{ns}/{key}. */
export interface PutValueQuery {
  /** Lifetime in seconds; 0 expires at once. Absent: the value stays. */
  readonly ttl?: number | undefined;
  /** Only if the value that is there has this hash; `*`: only if there is one. Otherwise `conflict` (412). Must be a hash, 64 hexadecimal digits in lower case, or *. */
  readonly ifMatch?: string | undefined;
  /** Only if there is no value under the key. Otherwise `conflict` (412). */
  readonly ifAbsent?: boolean | undefined;
  /** Whom the record is about, such as `user-7`, at most 256 bytes: what an erasure by subject finds it by. Absent: the record keeps what it has; empty: it has none. Must be at most 256 bytes of UTF-8 text. */
  readonly subject?: string | undefined;
}

/** The query of DELETE /v1/db/{db}/kv/{ns}/{key}. */
export interface DeleteValueQuery {
  /** Only if the value that is there has this hash; `*`: only if there is one. Otherwise `conflict` (412). Must be a hash, 64 hexadecimal digits in lower case, or *. */
  readonly ifMatch?: string | undefined;
}

/** The query of POST /v1/db/{db}/kv_batch/{ns}/get. */
export interface GetValuesQuery {
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of GET /v1/db/{db}/docs/{coll}/items/{id}. */
export interface GetDocQuery {
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of DELETE /v1/db/{db}/docs/{coll}/items/{id}. */
export interface DeleteDocQuery {
  /** Only if the document has this hash; `*`: only if there is one. Otherwise `conflict` (412). Must be a hash, 64 hexadecimal digits in lower case, or *. */
  readonly ifMatch?: string | undefined;
}

/** The query of POST /v1/db/{db}/docs/{coll}/find. */
export interface FindDocsQuery {
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of GET /v1/db/{db}/docs. */
export interface ListDocCollectionsQuery {
  /** How many collections, at most 1000. */
  readonly limit?: number | undefined;
  /** Only collections whose names come after this one. Must be 1 to 64 characters of letters, digits, _ and -. */
  readonly after?: string | undefined;
}

/** The query of GET /v1/db/{db}/vectors/{coll}. */
export interface ListVectorsQuery {
  /** Vectors on a page, at most 1000; more are given as 1000. */
  readonly limit?: number | undefined;
  /** `next_cursor` of the page before, with the same filter. */
  readonly cursor?: string | undefined;
  /** Only vectors whose metadata meets this filter, JSON in the language of DataService.FindDocs; a vector without metadata counts as `{}`. A page looks at 20,000 vectors at most, and may have few or none and more after it. */
  readonly filter?: string | undefined;
  /** Whether the numbers are given too: a page has at most 2 MiB of them, unless one vector has more. */
  readonly includeVectors?: boolean | undefined;
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of GET /v1/db/{db}/vectors/{coll}/items/{id}. */
export interface GetVectorQuery {
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of POST /v1/db/{db}/vectors/{coll}/search. */
export interface SearchVectorsQuery {
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of GET /v1/db/{db}/files/{path}. */
export interface GetFileQuery {
  /** An older version by its number; absent: the present one. */
  readonly version?: number | undefined;
  /** The first line to give, from 1; absent: from the beginning. */
  readonly firstLine?: number | undefined;
  /** The last line to give; absent, or behind the end: to the end. */
  readonly lastLine?: number | undefined;
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of DELETE /v1/db/{db}/files/{path}. */
export interface DeleteFilesQuery {
  /** Whether a folder may be deleted with all that is in it; without it, one is `conflict` (409). */
  readonly recursive?: boolean | undefined;
  /** Whether all versions go too, also those of files that were deleted or moved away before. History keeps what was there for the point-in-time window. */
  readonly purge?: boolean | undefined;
  /** Only if the file has this hash, as for PutFile. Must be a hash, 64 hexadecimal digits in lower case, or *. */
  readonly ifMatch?: string | undefined;
}

/** The query of GET /v1/db/{db}/files. */
export interface ListFilesQuery {
  /** The folder, without a slash at its end; absent or empty: the whole tree. Must be a path such as notes/travel/tokyo.md: parts between slashes, none of them empty, . or .., without control characters and must be at most 1024 bytes of UTF-8 text, or empty. */
  readonly folder?: Json | undefined;
  /** All files below the folder, at any depth; otherwise its own files and folders. */
  readonly recursive?: boolean | undefined;
  /** Entries on a page, at most 1000; more are given as 1000. */
  readonly limit?: number | undefined;
  /** `next_cursor` of the page before. */
  readonly cursor?: string | undefined;
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of GET /v1/db/{db}/files/{path}/versions. */
export interface ListFileVersionsQuery {
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of POST /v1/db/{db}/file_search. */
export interface SearchFilesQuery {
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of GET /v1/db/{db}/diff. */
export interface DiffStatesQuery {
  /** The earlier state: a transaction id, the name of a checkpoint, or a time such as `2026-01-31T12:00:00Z`. Absent: the newest state of `from_branch`. Must be a transaction id, the name of a checkpoint, or a time such as 2026-01-31T12:00:00Z (in a query, + is written %2B). */
  readonly from?: string | undefined;
  /** The branch of the earlier state. Absent: the branch of the later one; then `from` must be given. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .. */
  readonly fromBranch?: string | undefined;
  /** The later state, named as `from` is. Absent: the newest. Must be a transaction id, the name of a checkpoint, or a time such as 2026-01-31T12:00:00Z (in a query, + is written %2B). */
  readonly to?: string | undefined;
  /** How many differences on a page, at most 1000; more are given as 1000. */
  readonly limit?: number | undefined;
  /** `next_cursor` of the page before: the next page compares the very same two states. */
  readonly cursor?: string | undefined;
}

/** The query of GET /v1/db/{db}/export. */
export interface ExportQuery {
  /** The `cursor` of the mark that ended the part before. Absent: the first part. */
  readonly cursor?: string | undefined;
  /** The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query. */
  readonly at?: string | undefined;
}

/** The query of POST /v1/db/{db}/import. */
export interface ImportQuery {
  /** What is done with a record of whose names something else is there: `skip` (the default) leaves what is there, `replace` puts the record in its place, `fail` refuses the lines with `conflict` (409). */
  readonly mode?: "skip" | "replace" | "fail" | undefined;
  /** Says what would be done and writes nothing. Errors are given as a list. */
  readonly dryRun?: boolean | undefined;
  /** `cursor` of the answer before: these lines come next. */
  readonly cursor?: string | undefined;
  /** The name of the checkpoint that is made before the first record is written. One that is there is kept, and is what a rewind goes back to. Absent: `import-` and some digits of the header's hash. Must be 1 to 64 characters of letters, digits, ., _ and -, not start with ., and hold something besides digits, as a rewind takes digits for a transaction id. */
  readonly checkpoint?: string | undefined;
}

/** The query of GET /v1/db/{db}/changes. */
export interface WatchQuery {
  /** The transaction after which the stream begins; 0 is the beginning of the branch. Absent, and without `Last-Event-ID`: the present state, so that only what comes is told. */
  readonly after?: number | undefined;
}

/** The query of GET /v1/db/{db}/webhooks/{id}/failures. */
export interface ListWebhookFailuresQuery {
  /** Failures on a page, at most 1,000; more are given as 1,000. */
  readonly limit?: number | undefined;
  /** `next_cursor` of the page before. */
  readonly cursor?: string | undefined;
}
