# Generated from the OpenAPI document by `npm run generate`; do not edit.
"""What calls take and give, as the interface says it."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from typing_extensions import Required, TypedDict

Json = Any
"""Any JSON: None, bool, int, float, str, a list or a dict."""


class CreateDatabaseRequest(TypedDict, total=False):
    """What ControlService.CreateDatabase takes."""
    name: Required[str]
    """1 to 64 characters of `a-z`, `0-9`, `_` and `-`, starting with a letter or digit, without `--` (profiles own that). Must be 1 to 64 characters of a-z, 0-9, _ and -, start with a letter or digit, and not contain -- (that form belongs to profiles)."""


class MintDatabaseTokenRequest(TypedDict, total=False):
    """What ControlService.MintDatabaseToken takes."""
    scope: Required[str]
    """`read`, `write` or `admin`; each includes the one before."""
    expires_in: int | None
    """Lifetime in seconds, at most 2592000 (30 days)."""


class MintNamespaceTokenRequest(TypedDict, total=False):
    """What ControlService.MintNamespaceToken takes."""
    scope: Required[str]
    """`read`, `write` or `admin`; each includes the one before."""
    expires_in: int | None
    """Lifetime in seconds, at most 2592000 (30 days)."""


class PutNamespacePolicyRequest(TypedDict, total=False):
    """What ControlService.PutNamespacePolicy takes."""
    policy: Required[Mapping[str, Json] | None]
    """The whole policy document, or null to clear it. Fields: `retention.pitr_secs`, `retention.pitr_snapshot_secs`, `memory.task_ttl_max_secs`, `memory.event_max_age_secs`, `memory.superseded_max_age_secs`, `memory.superseded_max_count`, `memory.trusted_sources` (a list of at most 100 sources: memories of any other source, or of none, are proposed and wait for a review), `ai_egress.extract`, `ai_egress.ask` and `ai_egress.embed` (each `allow`, `self_hosted_only` or `deny`), `egress.webhooks` (likewise), `audit.enabled`, `audit.include_reads`, `audit.include_data` (writes of SQL, documents, keys, vectors and turns too), `audit.retention_secs`, `erasure.grace_secs`, `erasure.purge_on_forget` (of memories that are forgotten or rejected; ending a session, and deleting turns and other records, stay plain). Durations are seconds, at least 60 (`erasure.grace_secs` may be 0); counts are at least 1. Unknown fields are kept and given back; unknown values are refused."""


class MemoryInputDict(TypedDict, total=False):
    """A memory to be stored."""
    type: Required[str]
    """`fact`, `event`, `instruction` or `task`."""
    summary: Required[str]
    """A one-line gist, found by its words; not blank, at most 8 KiB. Must be 1 to 8192 bytes of UTF-8 text."""
    content: Required[Json]
    """The full payload: any JSON, at most 1 MiB; null is a value like any other."""
    topic_key: str | None
    """The topic on which a `fact` or `instruction` supersedes the one before; refused on other types. Must be 1 to 512 bytes of UTF-8 text."""
    keywords: str | None
    """Further words to be found by, separated by spaces. Must be at most 8192 bytes of UTF-8 text."""
    embedding: Sequence[float] | None
    """The memory's vector. Absent: the node makes one where an embedder is configured (not for tasks)."""
    session_id: str | None
    """The session it comes from, 1 to 128 bytes. Must be 1 to 128 bytes of UTF-8 text."""
    source: str | None
    """The agent it comes from; provenance, not identity. Must be 1 to 256 bytes of UTF-8 text."""
    ttl: int | None
    """Lifetime in seconds of a `task`, clamped by the policy's `memory.task_ttl_max_secs`; refused on other types."""
    metadata: Mapping[str, Json] | None
    """What else is to be known of it, for filters: an object of any JSON, at most 16 KiB, no field name at its top beginning with `$`. It is no part of what makes two memories the same: that of a duplicate is passed over."""
    pinned: bool | None
    """Pin it: it comes first in context blocks. It is no part of what makes two memories the same, and pins the existing one of a duplicate; what it supersedes loses nothing, and hands nothing on."""
    status: str | None
    """`proposed`: it waits for ReviewMemory, and is not recalled, shown in context blocks or the same as another until it is approved. `active`, or absent: it is taken in, unless the policy's `memory.trusted_sources` leaves its source out; then it is proposed all the same."""
    subject: str | None
    """Whom the record is about, such as `user-7`, 1 to 256 bytes: what an erasure by subject finds it by. Memories of different subjects are different memories. Must be 1 to 256 bytes of UTF-8 text."""
    valid_from: int | None
    """From when on it holds in the world, in Unix milliseconds, which may be before 1970; absent: from ever. It is a part of what makes two memories the same, as is `valid_until`."""
    valid_until: int | None
    """Until when it holds in the world, and not at that time any more; must be later than `valid_from`. Absent: without end."""
    derived_from: Sequence[MemoryLinkInputDict] | None
    """The turns and memories that it was derived from, at most 32, each of which must be there. They are no part of what makes two memories the same; those of a duplicate are added to what the existing one has, as far as 32 hold them."""


class MemoryLinkInputDict(TypedDict, total=False):
    """What a memory was derived from: `memory_id`, or a turn of `session_id` by its `seq` or its `turn_id`."""
    memory_id: str | None
    """A memory of the branch. Must be 1 to 64 bytes of UTF-8 text."""
    session_id: str | None
    """A session. Must be 1 to 128 bytes of UTF-8 text."""
    seq: int | None
    """The number of a turn of the session, from 1."""
    turn_id: str | None
    """The id that a turn of the session was appended with, in the place of its number. Must be 1 to 128 bytes of UTF-8 text."""


class IngestRequest(TypedDict, total=False):
    """What MemoryService.Ingest takes."""
    memories: Required[Sequence[MemoryInputDict]]
    """The memories, 1 to 1000. One that is not valid fails them all."""


class UpdateMemoryRequest(TypedDict, total=False):
    """What MemoryService.UpdateMemory takes: what is to be changed, at least one field beside the address."""
    pinned: bool | None
    """Whether it is pinned. Absent: as it was."""
    metadata: Mapping[str, Json] | None
    """What else is to be known of it, in the place of all that was: an object as with Ingest. `{}` takes it away. Absent: as it was."""
    keywords: str | None
    """Further words to be found by, in the place of those that were. An empty text takes them away. Absent: as they were. Must be at most 8192 bytes of UTF-8 text."""
    ttl: int | None
    """Of a `task`: its lifetime in seconds from now on, clamped by the policy's `memory.task_ttl_max_secs`; 0 ends it at once. Refused on other types. Absent: as it was."""
    completed: bool | None
    """Of a `task`: whether it is done. A completed task is neither recalled nor shown in context blocks, and the same task can be ingested anew beside it; it is there for who asks for it until it expires. False opens it again: `conflict` (409) where the same task is open by now. Refused on other types. Absent: as it was."""


class ReviewMemoryRequest(TypedDict, total=False):
    """What MemoryService.ReviewMemory takes."""
    ids: Required[Sequence[str]]
    """The ids of proposals, 1 to 100, each once. ListMemories with `status` gives them."""
    verdict: Required[str]
    """`approve` or `reject`."""


class ForgetMemoriesRequest(TypedDict, total=False):
    """What MemoryService.ForgetMemories takes: conditions as in ListMemories, at least one."""
    types: Sequence[str] | None
    """Memories of these types only. Absent: all; an empty list matches nothing."""
    topic_key: str | None
    """Memories of exactly this topic only. Must be 1 to 512 bytes of UTF-8 text."""
    session_id: str | None
    """Memories of this session only. Must be 1 to 128 bytes of UTF-8 text."""
    source: str | None
    """Memories that this agent ingested only. Must be 1 to 256 bytes of UTF-8 text."""
    since: int | None
    """Memories stored at or after this time, in Unix milliseconds. Absent: from the first."""
    until: int | None
    """Memories stored before this time, in Unix milliseconds; must be later than `since`. Absent: to the last."""
    filter: Mapping[str, Json] | None
    """Memories whose metadata meets this filter only, in the language of DataService.FindDocs."""
    include_superseded: bool | None
    """Also memories that were superseded."""
    limit: int | None
    """How many to forget at most, newest first; at most 1000, more are taken as 1000."""
    cursor: str | None
    """`next_cursor` of the call before."""
    status: str | None
    """Memories in these states only, as with ListMemories. Absent: `active`, and what is included. Must be among active, superseded, completed and proposed, separated by commas."""
    include_completed: bool | None
    """Also tasks that were completed."""
    subject: str | None
    """Memories of this subject only. Must be 1 to 256 bytes of UTF-8 text."""
    valid_at: int | None
    """Memories that hold in the world at this time only, in Unix milliseconds. Absent: whenever they hold."""
    derived_from_memory: str | None
    """Memories that were derived from this memory only. Must be 1 to 64 bytes of UTF-8 text."""
    derived_from_session: str | None
    """Memories that were derived from turns of this session only. Must be 1 to 128 bytes of UTF-8 text."""
    derived_from_seq: int | None
    """With `derived_from_session`: from the turn of this number only."""


class MinScore(TypedDict, total=False):
    """Floors below which a channel alone does not make a memory relevant."""
    keyword: float | None
    """For words: the least coverage, from 0 to 1 (see MemoryExplanation.coverage), instead of all that the node asks of words."""
    vector: float | None
    """For vectors: the least cosine similarity, from -1 to 1."""


class TypeCounts(TypedDict, total=False):
    """How many memories of each type a recall gives at most. Each from 1 to 1000; more are given as 1000."""
    fact: int | None
    """Facts."""
    event: int | None
    """Events."""
    instruction: int | None
    """Instructions."""
    task: int | None
    """Tasks."""


class RecallRequest(TypedDict, total=False):
    """What MemoryService.Recall takes. At least one of `query`, `embedding` and `topic_key` must be given."""
    query: str | None
    """Free text for the keyword channel; plain words, never a query language. Also embedded where the node can. Must be at most 16384 bytes of UTF-8 text."""
    embedding: Sequence[float] | None
    """The query's vector, for the vector channel. One of another dimension than the profile's vectors is passed over."""
    topic_key: str | None
    """An exact topic; weighs more than the other channels together. Must be 1 to 512 bytes of UTF-8 text."""
    types: Sequence[str] | None
    """Memories of these types only. Absent: all; an empty list matches nothing."""
    session_id: str | None
    """Memories of this session only. Must be 1 to 128 bytes of UTF-8 text."""
    source: str | None
    """Memories that this agent ingested only. Must be 1 to 256 bytes of UTF-8 text."""
    k: int | None
    """How many memories, at most 1000; more are given as 1000. With `k_per_type` and without `k`, as many as that says. Turns are as many at most, 8 without `k`."""
    include_superseded: bool | None
    """Also memories that were superseded; each says in `current_id` which memory holds now."""
    include_turns: bool | None
    """Also search the transcript: fills `turns`. Needs a vector, given or made by the node."""
    min_score: MinScore | None
    """Floors of the channels, instead of the node's."""
    explain: bool | None
    """Say of each memory why it was found, and in `near_misses` what came near and was left out."""
    filter: Mapping[str, Json] | None
    """Memories whose metadata meets this filter only, in the language of DataService.FindDocs. A memory without metadata counts as one with an empty object. Turns are not filtered."""
    search_turns: bool | None
    """Also search the transcript by the words of `query`: fills `turns` with those whose words, together with those of the turns around them, are about it, most relevant first; together with `include_turns` both ways are fused. `min_score.keyword` holds for turns too. Turns of files from before this search are not found by words."""
    since: int | None
    """Memories stored, and turns appended, at or after this time, in Unix milliseconds, on every channel. Absent: from the first."""
    until: int | None
    """Memories stored, and turns appended, before this time, in Unix milliseconds; must be later than `since`. Absent: to the last."""
    prefer_session_id: str | None
    """Memories and turns of this session, 1 to 128 bytes, count a quarter more by their words and their vector; an exact topic still comes first. It only moves what is found anyway: what is not relevant stays out, and other sessions stay in. Must be 1 to 128 bytes of UTF-8 text."""
    k_per_type: TypeCounts | None
    """So many memories of each type, as recalls of each type alone would find them, in one list, the most relevant first. Types that are not named are not given, nor those that `types` leaves out. At least one type must be named. With `k`, the first `k` of that list."""
    include_completed: bool | None
    """Also tasks that were completed."""
    subject: str | None
    """Memories of this subject only. Must be 1 to 256 bytes of UTF-8 text."""
    valid_at: int | None
    """Memories that hold in the world at this time, in Unix milliseconds. Absent: those that hold now. A superseded memory counts as active at a time at which nothing that followed it holds."""
    include_invalid: bool | None
    """Also memories that do not hold in the world. Not together with `valid_at`."""


class ContextSectionInput(TypedDict, total=False):
    """A part of a context block, as it is asked for."""
    name: Required[str]
    """`instructions`: active instructions, pinned ones first, then the newest; each whole or not at all. `facts`: pinned facts and events, then the newest active facts. `memories`: what a recall with the same question finds and no other section shows, the most relevant first. `turns`: the last turns of a session, oldest first. `tasks`: tasks that have not expired, pinned ones first, then those that expire soonest."""
    share: int | None
    """Its share of the room, from 1 to 100, beside those of the other sections; what all of them leave goes to the first that has more to show, what that leaves to the next. Absent: 30 for `instructions`, 20 for `facts`, 30 for `memories`, 15 for `turns`, 5 for `tasks`."""
    max_lines: int | None
    """At most so many lines, from 1 to 1000; `memories` has at most 32. Absent: 200 for `instructions`, 100 for `facts`, 16 for `memories`, 10 for `turns`, 100 for `tasks`."""


class GetContextRequest(TypedDict, total=False):
    """What MemoryService.GetContext takes."""
    query: str | None
    """What the section `memories` is to be about, as Recall takes it; also embedded where the node can. Absent or blank, and without `embedding`: that section is empty. Must be at most 16384 bytes of UTF-8 text."""
    embedding: Sequence[float] | None
    """The query's vector, as Recall takes it."""
    max_tokens: int | None
    """What the block may count at most, from 200 to 32000, with its tags and headings. Quarters of a token are counted for each character of it: one for a space or a letter from a to z, three for a letter from A to Z or a digit, two for any other up to U+07FF, four for any up to U+FFFF, eight beyond; the sum is rounded up to tokens. For prose that is more than common tokenizers need, but no count is exact for all of them."""
    format: str | None
    """`markdown` or `json`: what stands between the tags. Absent: `markdown`."""
    sections: Sequence[ContextSectionInput] | None
    """The sections in their order, each once. None: all five, in the order in which they are listed there."""
    session_id: str | None
    """The session of `turns`. Absent: the one that was active last, of those that have turns among the 100 last active. Must be 1 to 128 bytes of UTF-8 text."""
    now: int | None
    """The time that ages are measured against and at which memories hold in the world, in Unix milliseconds. Absent: the node's. What has expired by the node's own time is left out whatever is given here."""


class AskRequest(TypedDict, total=False):
    """What MemoryService.Ask takes."""
    question: Required[str]
    """The question; not blank. Must be at most 16384 bytes of UTF-8 text."""
    types: Sequence[str] | None
    """Memories of these types only. Absent: all; an empty list matches nothing."""
    session_id: str | None
    """Memories of this session only. Must be 1 to 128 bytes of UTF-8 text."""
    source: str | None
    """Memories that this agent ingested only. Must be 1 to 256 bytes of UTF-8 text."""
    k: int | None
    """How many memories the model sees, at most 1000."""
    include_superseded: bool | None
    """Also memories that were superseded."""
    valid_at: int | None
    """Memories that hold in the world at this time, in Unix milliseconds, as with Recall. Absent: those that hold now."""


class ExtractRequest(TypedDict, total=False):
    """What MemoryService.Extract takes."""
    turns: Required[Sequence[Mapping[str, Json]]]
    """The turns, 1 to 500 in at most 256 KiB of JSON, each an object with `role` (string) and `content` (any JSON); other members are ignored and stay on the node."""
    session_id: str | None
    """The session that the memories will carry. Must be 1 to 128 bytes of UTF-8 text."""
    source: str | None
    """The agent that the memories will carry. Must be 1 to 256 bytes of UTF-8 text."""
    dry_run: bool | None
    """Propose only; nothing is written."""
    status: str | None
    """`proposed`: what is ingested waits for a review, as with MemoryInput."""


class CreateErasureRequest(TypedDict, total=False):
    """What MemoryService.CreateErasure takes: exactly one target."""
    memory_id: str | None
    """Target: one memory. Unknown: `not_found` (404)."""
    topic_key: str | None
    """Target: every memory of this topic and `type`, superseded ones included. Unknown: `not_found` (404). Must be 1 to 512 bytes of UTF-8 text."""
    type: str | None
    """The type that goes with `topic_key`."""
    session_id: str | None
    """Target: a session's provenance everywhere, and every memory whose last provenance that was. May be unknown. Must be 1 to 128 bytes of UTF-8 text."""
    turns: bool | None
    """With `session_id`: also the session's transcript."""
    seq: int | None
    """Target, with `session_id`: only the turn of this number, from 1, with its words, vector and metadata; the session forgets the operations that it knows. Unknown: `not_found` (404)."""
    path: str | None
    """Target: the file at this path, or every file below it, each with all of its kept versions, 10,000 together at most. A text that was moved away lives on under its other path. Unknown: `not_found` (404). Must be a path such as notes/travel/tokyo.md: parts between slashes, none of them empty, . or .., without control characters and must be 1 to 1024 bytes of UTF-8 text."""
    kv_ns: str | None
    """Target: `key` in this namespace of keys. Unknown: `not_found` (404). Must be 1 to 64 characters of letters, digits, _ and -."""
    key: str | None
    """The key that goes with `kv_ns`. Must be 1 to 512 bytes of UTF-8 text."""
    collection: str | None
    """Target: the document `doc_id` of this collection. Unknown: `not_found` (404). Must be 1 to 64 characters of letters, digits, _ and -."""
    doc_id: str | None
    """The `_id` of the document that goes with `collection`. Must be 1 to 512 bytes of UTF-8 text."""
    vector_collection: str | None
    """Target: the vector `vector_id` of this collection of vectors, with its metadata. Unknown: `not_found` (404). Must be 1 to 64 characters of letters, digits, _ and -."""
    vector_id: str | None
    """The id of the vector that goes with `vector_collection`. Must be 1 to 256 bytes of UTF-8 text."""
    subject: str | None
    """Target: every record of this subject, of all kinds: memories, turns, versions of files, documents, keys and vectors, 10,000 together at most. None: `not_found` (404). Must be 1 to 256 bytes of UTF-8 text."""


class ReembedRequest(TypedDict, total=False):
    """What MemoryService.Reembed takes."""
    cursor: str | None
    """`next_cursor` of the step before. Absent: the first step."""


class CalibrateRequest(TypedDict, total=False):
    """What MemoryService.Calibrate takes."""
    unrelated_share: float | None
    """The share of unrelated pairs that may reach the floor, above 0 and at most 0.5. Absent: 0.02."""
    seed: int | None
    """What chooses the memories and pairs that are looked at, where there are more than 1,000 and 10,000: the same at the same txid gives the same answer. Absent: chosen by chance."""
    dry_run: bool | None
    """Measure only; nothing is written."""


class PutProfilePolicyRequest(TypedDict, total=False):
    """What MemoryService.PutProfilePolicy takes."""
    policy: Required[Mapping[str, Json] | None]
    """The profile's own policy document, or null to clear it. The fields of a namespace's policy but `audit`."""


class AppendTurnRequest(TypedDict, total=False):
    """What DataService.AppendTurn takes."""
    role: Required[str]
    """Who spoke, at most 64 bytes. Must be 1 to 64 bytes of UTF-8 text."""
    content: Required[Json]
    """What was said: any JSON, at most 1 MiB."""
    embedding: Sequence[float] | None
    """Makes the turn findable by SearchTurns and by recall's `include_turns`."""
    subject: str | None
    """Whom the record is about, such as `user-7`, 1 to 256 bytes: what an erasure by subject finds it by. Must be 1 to 256 bytes of UTF-8 text."""


class TurnInput(TypedDict, total=False):
    """A turn to be appended."""
    role: Required[str]
    """Who spoke, at most 64 bytes. Must be 1 to 64 bytes of UTF-8 text."""
    content: Required[Json]
    """What was said: any JSON, at most 1 MiB."""
    turn_id: str | None
    """The caller's own id of the turn, at most 128 bytes, unique in its session while the turn is there. Must be 1 to 128 bytes of UTF-8 text."""
    metadata: Mapping[str, Json] | None
    """What else is to be known of it, for filters: an object of any JSON, at most 16 KiB, no field name at its top beginning with `$`."""
    embedding: Sequence[float] | None
    """Makes the turn findable by SearchTurns and by recall's `include_turns`. Absent: the node's embedder makes it, where there is one and policy lets it."""
    subject: str | None
    """Whom the record is about, such as `user-7`, 1 to 256 bytes: what an erasure by subject finds it by. No part of what makes two turns the same. Must be 1 to 256 bytes of UTF-8 text."""


class AppendTurnsRequest(TypedDict, total=False):
    """What DataService.AppendTurns takes."""
    turns: Required[Sequence[TurnInput]]
    """The turns, 1 to 1000, in their order, with at most 16 MiB of content and metadata. One that is not valid fails them all."""
    operation_id: str | None
    """Makes the call idempotent as a whole: at most 128 bytes, of one session. A call with the id of one that was carried out gives that one's answer and changes nothing; with other turns it is `conflict` (409). Kept for a day, the newest 10,000 of a database. Must be 1 to 128 bytes of UTF-8 text."""


class DeleteTurnsRequest(TypedDict, total=False):
    """What DataService.DeleteTurns takes: exactly one of `last`, `from_seq`, `seq`, `turn_id` and `all`."""
    last: int | None
    """This many of the last turns, 1 to 10,000."""
    from_seq: int | None
    """The turns with this number or a higher one."""
    seq: int | None
    """The turn with this number."""
    turn_id: str | None
    """The turn with this id. Must be 1 to 128 bytes of UTF-8 text."""
    all: bool | None
    """All turns of the session."""
    operation_id: str | None
    """Makes the call idempotent, as of AppendTurns. Must be 1 to 128 bytes of UTF-8 text."""


class ExpectedTurn(TypedDict, total=False):
    """A turn that a caller expects; what is absent is not compared."""
    seq: int | None
    """Its number."""
    turn_id: str | None
    """Its id. Must be 1 to 128 bytes of UTF-8 text."""
    content_sha256: str | None
    """SHA-256 in lower-case hex of its content's JSON in UTF-8, without spaces, members sorted by their names' UTF-16 code units, numbers in their shortest form (RFC 8785, but integers within 64 bits keep every digit). Must be a hash, 64 hexadecimal digits in lower case."""


class ReplaceTurnsRequest(TypedDict, total=False):
    """What DataService.ReplaceTurns takes."""
    expected: Sequence[ExpectedTurn] | None
    """The last turns of the session as the caller knows them, oldest first, at most 1000, each by one or more of its fields. Empty: nothing is expected and nothing goes."""
    turns: Sequence[TurnInput] | None
    """The turns in their place, as of AppendTurns, 0 to 1000. The id of a turn that stays is `conflict` (409)."""
    operation_id: str | None
    """Makes the call idempotent, as of AppendTurns. Must be 1 to 128 bytes of UTF-8 text."""


class SearchTurnsRequest(TypedDict, total=False):
    """What DataService.SearchTurns takes."""
    vector: Required[Sequence[float]]
    """The query's vector."""
    k: int | None
    """How many turns, at most 1000; more are given as 1000."""


class SqlStatement(TypedDict, total=False):
    """One SQL statement."""
    q: Required[str]
    """The statement, in SQLite's dialect; one statement only. Must be at most 1048576 bytes of UTF-8 text."""
    params: Json
    """An array binds by position, an object by name. Null, booleans (as 0 and 1), numbers and strings bind as themselves, `{'$base64': '...'}` as a blob, other objects and arrays as JSON text."""


class ExecuteSqlRequest(TypedDict, total=False):
    """What DataService.ExecuteSql takes."""
    stmts: Required[Sequence[SqlStatement]]
    """The statements, in order; 1 to 256."""
    txn: bool | None
    """Absent or true: all or nothing. False: each statement stands alone, and one that fails reports its own `error`."""


class SyncRequest(TypedDict, total=False):
    """What DataService.Sync takes."""


class GetValuesRequest(TypedDict, total=False):
    """What DataService.GetValues takes."""
    keys: Required[Sequence[str]]
    """The keys, 1 to 1000, each once. Must hold 1 to 1000 items, each must be 1 to 512 bytes of UTF-8 text."""


class ValueInput(TypedDict, total=False):
    """A value to be stored: either `text` or `bytes`."""
    key: Required[str]
    """The key: 1 to 512 bytes of UTF-8. Must be 1 to 512 bytes of UTF-8 text."""
    text: str | None
    """The value as text; its UTF-8 is stored."""
    bytes: str | None
    """The value as bytes, in base64."""
    ttl: int | None
    """Lifetime in seconds; 0 expires at once. Absent: the value stays."""
    if_match: str | None
    """Only if the value that is there has this hash; `*`: only if there is one. Must be a hash, 64 hexadecimal digits in lower case, or *."""
    if_absent: bool | None
    """Only if there is no value under the key."""
    subject: str | None
    """Whom the record is about, such as `user-7`, at most 256 bytes: what an erasure by subject finds it by. Absent: the record keeps what it has; empty: it has none. Must be at most 256 bytes of UTF-8 text."""


class PutValuesRequest(TypedDict, total=False):
    """What DataService.PutValues takes."""
    items: Required[Sequence[ValueInput]]
    """The values, 1 to 1000 of different keys."""


class ValueDeletion(TypedDict, total=False):
    """A key to be deleted."""
    key: Required[str]
    """The key: 1 to 512 bytes of UTF-8. Must be 1 to 512 bytes of UTF-8 text."""
    if_match: str | None
    """Only if the value that is there has this hash; `*`: only if there is one. Must be a hash, 64 hexadecimal digits in lower case, or *."""


class DeleteValuesRequest(TypedDict, total=False):
    """What DataService.DeleteValues takes."""
    items: Required[Sequence[ValueDeletion]]
    """The keys, 1 to 1000 different ones. An absent one is no error."""


class InsertDocsRequest(TypedDict, total=False):
    """What DataService.InsertDocs takes."""
    docs: Required[Sequence[Mapping[str, Json]]]
    """The documents, at most 1000 of at most 1 MiB each. `_id` is a string; without one a document gets a ULID. An `_id` that exists is `already_exists` (409)."""
    subject: str | None
    """Whom the documents are about, 1 to 256 bytes: what an erasure by subject finds them by. Must be 1 to 256 bytes of UTF-8 text."""


class PutDocRequest(TypedDict, total=False):
    """What DataService.PutDoc takes."""
    doc: Required[Mapping[str, Json]]
    """The document, at most 1 MiB. Its `_id` is left out or the same."""
    if_match: str | None
    """Only if the document that is there has this hash; `*`: only if there is one. Otherwise `conflict` (412). Must be a hash, 64 hexadecimal digits in lower case, or *."""
    if_absent: bool | None
    """Only if there is no document with this `_id`. Otherwise `conflict` (412)."""
    subject: str | None
    """Whom the record is about, such as `user-7`, at most 256 bytes: what an erasure by subject finds it by. Absent: the record keeps what it has; empty: it has none. Must be at most 256 bytes of UTF-8 text."""


class FindDocsRequest(TypedDict, total=False):
    """What DataService.FindDocs takes."""
    filter: Mapping[str, Json] | None
    """MongoDB's language (docs/documents.md): field equality by dot path, `$eq`, `$gt`, `$gte`, `$lt`, `$lte`, `$ne`, `$in` (at most 1000), `$nin`, `$all`, `$exists`, `$type`, `$size`, `$elemMatch`, `$regex` (RE2, with `$options`), `$and`, `$or`, `$nor`, `$not`, at most 32 deep. Absent or empty: every document."""
    sort: Mapping[str, int] | None
    """Paths and directions, the first key first. On REST an object: `{'age': -1, 'name': 1}`."""
    limit: int | None
    """How many documents, at most 1000."""
    skip: int | None
    """How many to pass over first."""
    projection: Mapping[str, Json] | None
    """Which fields to give: dot paths that are all 1 or true, or all 0 or false, as MongoDB's. `_id` is given unless it is 0 itself; an object in the place of a number has paths of its own. Absent or empty: every field."""


class UpdateDocsRequest(TypedDict, total=False):
    """What DataService.UpdateDocs takes."""
    filter: Required[Mapping[str, Json]]
    """Which documents, as in FindDocs; `{}` is every document."""
    update: Required[Mapping[str, Json]]
    """MongoDB's operators by dot path: `$set`, `$unset`, `$inc`, `$mul`, `$min`, `$max`, `$rename`, `$setOnInsert`, `$push` (with `$each`, `$position`, `$slice`, `$sort`), `$addToSet`, `$pop`, `$pull`, `$pullAll`. `_id` cannot change; `$inc` on a missing field starts at 0."""
    multi: bool | None
    """All documents that match instead of the first."""
    upsert: bool | None
    """Where no document matches, one is made of what the filter says that fields equal, and the update."""


class DeleteDocsRequest(TypedDict, total=False):
    """What DataService.DeleteDocs takes."""
    filter: Required[Mapping[str, Json]]
    """Which documents, as in FindDocs; `{}` is every document."""
    multi: bool | None
    """All documents that match instead of the first."""


class CreateDocIndexRequest(TypedDict, total=False):
    """What DataService.CreateDocIndex takes."""
    path: Required[str]
    """The dot path to index, at most 256 characters; a collection has at most 32 indexes."""


class CountDocsRequest(TypedDict, total=False):
    """What DataService.CountDocs takes."""
    filter: Mapping[str, Json] | None
    """Which documents, as in FindDocs. Absent or empty: every document."""
    limit: int | None
    """Where to stop counting, at most 1000000."""


class GroupDocsRequest(TypedDict, total=False):
    """What DataService.GroupDocs takes."""
    filter: Mapping[str, Json] | None
    """Which documents, as in FindDocs. Absent or empty: every document."""
    path: Required[str]
    """The dot path whose values are counted."""
    limit: int | None
    """How many values, at most 1000."""


class UpsertVectorRequest(TypedDict, total=False):
    """What DataService.UpsertVector takes."""
    id: Required[str]
    """The vector's id, at most 256 bytes. Must be 1 to 256 bytes of UTF-8 text."""
    embedding: Required[Sequence[float]]
    """The vector, of the collection's dimension."""
    metadata: Mapping[str, Json] | None
    """What else is to be known of it, for filters: an object of any JSON, at most 16 KiB, no field name at its top beginning with `$`. Absent: none, also where the vector before it had some."""
    metric: str | None
    """Declares the collection's metric with its first vector: `cosine`, `dot` or `euclid`. Later it may be given again, and another one is refused. A collection without a declared one takes `cosine`, which its searches mean when they name none."""
    subject: str | None
    """Whom the record is about, such as `user-7`, at most 256 bytes: what an erasure by subject finds it by. Absent: the record keeps what it has; empty: it has none. Must be at most 256 bytes of UTF-8 text."""


class VectorInput(TypedDict, total=False):
    """A vector to be stored."""
    id: Required[str]
    """Its id, at most 256 bytes. Must be 1 to 256 bytes of UTF-8 text."""
    embedding: Required[Sequence[float]]
    """Its numbers."""
    metadata: Mapping[str, Json] | None
    """Its metadata, as of UpsertVector."""
    subject: str | None
    """Whom the record is about, such as `user-7`, at most 256 bytes: what an erasure by subject finds it by. Absent: the record keeps what it has; empty: it has none. Must be at most 256 bytes of UTF-8 text."""


class UpsertVectorsRequest(TypedDict, total=False):
    """What DataService.UpsertVectors takes."""
    vectors: Required[Sequence[VectorInput]]
    """The vectors, 1 to 1000. One that is not valid fails them all; of two with one id the later stays."""
    metric: str | None
    """The collection's metric, as of UpsertVector."""


class DeleteVectorsRequest(TypedDict, total=False):
    """What DataService.DeleteVectors takes: either `ids` or `filter`."""
    ids: Sequence[str] | None
    """Ids of the vectors, at most 1000. Must hold at most 1000 items, each must be 1 to 256 bytes of UTF-8 text."""
    filter: Mapping[str, Json] | None
    """A filter over metadata in the language of DataService.FindDocs; one that holds of nothing but a vector without metadata deletes those, `{}` all."""
    cursor: str | None
    """`next_cursor` of the call before, with the same filter."""


class SearchVectorsRequest(TypedDict, total=False):
    """What DataService.SearchVectors takes."""
    vector: Sequence[float] | None
    """The query's vector, of the collection's dimension. Either it or `id`."""
    k: int | None
    """How many hits, at most 1000; more are given as 1000."""
    filter: Mapping[str, Json] | None
    """Only vectors whose metadata meets this filter, in the language of DataService.FindDocs; a vector without metadata counts as `{}`. It narrows before the nearest are chosen, so it never starves an answer."""
    metric: str | None
    """`cosine`, `dot` or `euclid`. Absent: the collection's, or `cosine` where none was declared; a declared one is the only one that is taken. The lengths of vectors that were stored before these metrics came count as 1."""
    id: str | None
    """Searches for what is near to the vector of this id, which is no hit itself; one that is not there is `not_found` (404). Must be 1 to 256 bytes of UTF-8 text."""
    include_vectors: bool | None
    """Whether hits have their numbers, as of GetVector: at most 262,144 numbers, so with 1,024 dimensions `k` up to 256."""
    include_metadata: bool | None
    """Whether hits have their metadata. Absent: they have."""


class PutFileRequest(TypedDict, total=False):
    """What FileService.PutFile takes."""
    text: Required[str]
    """The text: at most 1 MiB of UTF-8, without U+0000; it may be empty. Must be at most 1048576 bytes of UTF-8 text."""
    if_match: str | None
    """Only if the file has this hash; `*`: only if there is a file. Must be a hash, 64 hexadecimal digits in lower case, or *."""
    if_absent: bool | None
    """Only if there is no file at the path."""
    subject: str | None
    """Whom the text is about, such as `user-7`, at most 256 bytes: what an erasure by subject finds it by, version by version. Absent: the version has the subject of the one before it; empty: it has none. Must be at most 256 bytes of UTF-8 text."""


class FileEdit(TypedDict, total=False):
    """One change of a text: `old_text`, `after_line`, or `first_line` and `last_line` say where, `text` what is to be there."""
    old_text: str | None
    """Replaces this text, which must occur exactly once. Must be 1 to 1048576 bytes of UTF-8 text."""
    replace_all: bool | None
    """With `old_text`: replaces it wherever it occurs, once or more often."""
    after_line: int | None
    """Inserts `text` as lines of its own after this line; 0: before the first."""
    first_line: int | None
    """Replaces the lines from this one on, counted from 1,"""
    last_line: int | None
    """to this one; an empty `text` deletes them."""
    text: str | None
    """The new text. Must be at most 1048576 bytes of UTF-8 text."""


class EditFileRequest(TypedDict, total=False):
    """What FileService.EditFile takes."""
    edits: Required[Sequence[FileEdit]]
    """The changes, 1 to 100, each of what the ones before it left."""
    if_match: str | None
    """Only if the file has this hash, as for PutFile. Must be a hash, 64 hexadecimal digits in lower case, or *."""


class MoveFilesRequest(TypedDict, total=False):
    """What FileService.MoveFiles takes."""
    to: Required[str]
    """The path that it is to have; not within itself. Must be a path such as notes/travel/tokyo.md: parts between slashes, none of them empty, . or .., without control characters and must be 1 to 1024 bytes of UTF-8 text."""
    overwrite: bool | None
    """Whether files that are in the way are replaced."""


class SearchFilesRequest(TypedDict, total=False):
    """What FileService.SearchFiles takes."""
    query: Required[str]
    """What is looked for, in words: 1 byte to 16 KiB. Must be 1 to 16384 bytes of UTF-8 text."""
    folder: Json | None
    """Only files below this folder. Must be a path such as notes/travel/tokyo.md: parts between slashes, none of them empty, . or .., without control characters and must be at most 1024 bytes of UTF-8 text, or empty."""
    k: int | None
    """How many files at most, 1 to 100."""


class CreateBranchRequest(TypedDict, total=False):
    """What BranchService.CreateBranch takes."""
    name: Required[str]
    """The new branch. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""
    from_: str | None
    """The branch to fork. Absent: the branch that the database's address names, `main` where it names none. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""
    ttl: int | None
    """Lifetime in seconds, after which the branch is gone (`branch_not_found`). Absent: it stays."""
    at: str | float | None
    """The state to fork: a checkpoint's name of the branch that is forked, a transaction id in decimal (on REST a JSON number too), or a time such as `2026-01-31T12:00:00Z`. Unknown, or outside the window that can be restored: `not_found` (404). Absent: the state it has now. Must be a transaction id, the name of a checkpoint, or a time such as 2026-01-31T12:00:00Z (in a query, + is written %2B)."""


class CreateCheckpointRequest(TypedDict, total=False):
    """What BranchService.CreateCheckpoint takes."""
    name: Required[str]
    """The checkpoint's name. Must be 1 to 64 characters of letters, digits, ., _ and -, not start with ., and hold something besides digits, as a rewind takes digits for a transaction id."""


class RewindBranchRequest(TypedDict, total=False):
    """What BranchService.RewindBranch takes."""
    to: Required[str | float]
    """A checkpoint's name, a transaction id in decimal (on REST a JSON number too), or a time such as `2026-01-31T12:00:00Z`. Unknown, or outside the window that can be restored: `not_found` (404). Must be a transaction id, the name of a checkpoint, or a time such as 2026-01-31T12:00:00Z (in a query, + is written %2B)."""


class UndoRequest(TypedDict, total=False):
    """What ChangeService.Undo takes."""
    txid: Required[int]
    """The transaction to undo, as `Service-Txid` or the change feed told it."""
    dry_run: bool | None
    """Only says whether it can be undone and what that would change."""


class CreateWebhookRequest(TypedDict, total=False):
    """What WebhookService.CreateWebhook takes."""
    url: Required[str]
    """Where to post to: `https://…`, without credentials and without a fragment. `http://`, and hosts with addresses that no public network routes, only where the operator has listed the host in `SERVICE_WEBHOOK_HOSTS`. Must be 1 to 2048 bytes of UTF-8 text."""
    kinds: Sequence[str] | None
    """Only changes of these kinds are posted; a transaction without one is not. Absent: all."""
    after: int | None
    """The transaction behind which it begins; 0 is the beginning of the branch. Absent: the present state."""
    description: str | None
    """For people. Must be at most 256 bytes of UTF-8 text."""


class UpdateWebhookRequest(TypedDict, total=False):
    """What WebhookService.UpdateWebhook takes."""
    url: str | None
    """Another address, as in CreateWebhookRequest. Must be 1 to 2048 bytes of UTF-8 text."""
    kinds: Sequence[str] | None
    """Other kinds; an empty list: all."""
    description: str | None
    """Another description; an empty one: none. Must be at most 256 bytes of UTF-8 text."""
    paused: bool | None
    """Whether it is to be paused, or to go on."""


class TestWebhookRequest(TypedDict, total=False):
    """What WebhookService.TestWebhook takes."""


class RedeliverWebhookRequest(TypedDict, total=False):
    """What WebhookService.RedeliverWebhook takes."""
    txids: Sequence[int] | None
    """The transactions; none: all of the list."""
    drop: bool | None
    """Takes them off the list instead."""


class ReadAuditQuery(TypedDict, total=False):
    """The query of GET /v1/namespaces/{ns}/audit."""
    from_: int
    """Events at or after this time, in Unix milliseconds. Absent: 24 hours before `to`."""
    to: int
    """Events before this time, in Unix milliseconds. Absent: now."""
    action: str
    """An exact action, or a prefix that ends in a dot, such as `memory.`. Must be the name of an action, or the beginning of one that ends in a dot."""
    profile: str
    """Events of this profile only. Must be 1 to 64 characters of a-z, 0-9, _ and -, start with a letter or digit, not end in -, and not contain --."""
    outcome: str
    """`ok`, `denied` or `error`."""
    limit: int
    """Events on a page, at most 1000; more are given as 1000."""
    cursor: str
    """`next_cursor` of the page before."""


class GetNamespaceUsageQuery(TypedDict, total=False):
    """The query of GET /v1/namespaces/{ns}/usage."""
    prefix: str
    """Profiles whose names start with this only."""
    limit: int
    """Profiles on a page, at most 100; more are given as 100. A page ends earlier once 100,000 objects were listed."""
    cursor: str
    """`next_cursor` of the page before."""


class ListProfilesQuery(TypedDict, total=False):
    """The query of GET /v1/memory/{ns}."""
    prefix: str
    """Profiles whose names start with this only."""
    limit: int
    """Profiles on a page, at most 1000, or 100 with `include`; more are given as so many. Absent: all, or 100 where a page is asked for."""
    cursor: str
    """`next_cursor` of the page before, in the same order."""
    order: str
    """`asc` or `desc`, by name. Absent: `asc`."""
    include: str
    """`activity`: when each was last written and how large it is, as object storage has it."""


class IngestQuery(TypedDict, total=False):
    """The query of POST /v1/memory/{ns}/{profile}/memories."""
    branch: str
    """The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""


class ListMemoriesQuery(TypedDict, total=False):
    """The query of GET /v1/memory/{ns}/{profile}/memories."""
    branch: str
    """The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""
    types: str
    """Memories of these types only, separated by commas. Absent: all. Must be among fact, event, instruction and task, separated by commas."""
    topic_key: str
    """Memories of exactly this topic only. Must be 1 to 512 bytes of UTF-8 text."""
    session_id: str
    """Memories of this session only. Must be 1 to 128 bytes of UTF-8 text."""
    source: str
    """Memories that this agent ingested only. Must be 1 to 256 bytes of UTF-8 text."""
    since: int
    """Memories stored at or after this time, in Unix milliseconds. Absent: from the first."""
    until: int
    """Memories stored before this time, in Unix milliseconds; must be later than `since`. Absent: to the last."""
    filter: str
    """Memories whose metadata meets this filter only: JSON in the language of DataService.FindDocs. A memory without metadata counts as one with an empty object."""
    include_superseded: bool
    """Also memories that were superseded."""
    order: str
    """`desc`, newest first, or `asc`, oldest first. Absent: `desc`."""
    limit: int
    """Memories on a page, at most 1000; more are given as 1000."""
    cursor: str
    """`next_cursor` of the page before, in the same order."""
    status: str
    """Memories in these states only, separated by commas: `active`, `superseded`, `completed` (tasks that are done) and `proposed` (waiting for a review). Absent: `active`, and what is included. Must be among active, superseded, completed and proposed, separated by commas."""
    include_completed: bool
    """Also tasks that were completed."""
    subject: str
    """Memories of this subject only. Must be 1 to 256 bytes of UTF-8 text."""
    valid_at: int
    """Memories that hold in the world at this time only, in Unix milliseconds. Absent: whenever they hold."""
    derived_from_memory: str
    """Memories that were derived from this memory only. Must be 1 to 64 bytes of UTF-8 text."""
    derived_from_session: str
    """Memories that were derived from turns of this session only. Must be 1 to 128 bytes of UTF-8 text."""
    derived_from_seq: int
    """With `derived_from_session`: from the turn of this number only."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class GetMemoryQuery(TypedDict, total=False):
    """The query of GET /v1/memory/{ns}/{profile}/memories/{id}."""
    branch: str
    """The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class UpdateMemoryQuery(TypedDict, total=False):
    """The query of PATCH /v1/memory/{ns}/{profile}/memories/{id}."""
    branch: str
    """The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""


class ForgetMemoryQuery(TypedDict, total=False):
    """The query of DELETE /v1/memory/{ns}/{profile}/memories/{id}."""
    branch: str
    """The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""


class GetHistoryQuery(TypedDict, total=False):
    """The query of GET /v1/memory/{ns}/{profile}/history."""
    branch: str
    """The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""
    topic_key: str
    """The topic. Must be 1 to 512 bytes of UTF-8 text."""
    type: str
    """Its type, `fact` or `instruction`: each has a history of its own."""
    id: str
    """A memory, for the history of its topic."""
    limit: int
    """States on a page, at most 200; more are given as 200."""
    cursor: str
    """`next_cursor` of the page before."""


class ReviewMemoryQuery(TypedDict, total=False):
    """The query of POST /v1/memory/{ns}/{profile}/review."""
    branch: str
    """The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""


class ForgetMemoriesQuery(TypedDict, total=False):
    """The query of POST /v1/memory/{ns}/{profile}/forget."""
    branch: str
    """The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""


class RecallQuery(TypedDict, total=False):
    """The query of POST /v1/memory/{ns}/{profile}/recall."""
    branch: str
    """The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class GetContextQuery(TypedDict, total=False):
    """The query of POST /v1/memory/{ns}/{profile}/context."""
    branch: str
    """The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class AskQuery(TypedDict, total=False):
    """The query of POST /v1/memory/{ns}/{profile}/ask."""
    branch: str
    """The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class ExtractQuery(TypedDict, total=False):
    """The query of POST /v1/memory/{ns}/{profile}/extract."""
    branch: str
    """The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""


class ListSessionsQuery(TypedDict, total=False):
    """The query of GET /v1/memory/{ns}/{profile}/sessions."""
    branch: str
    """The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""
    limit: int
    """How many sessions, at most 1000."""
    cursor: str
    """`next_cursor` of the page before. A session that is active meanwhile moves to the front, which a later page does not show."""
    include_turns: bool
    """Also count each session's turns and give the times of its first and last one. A page that counts ends early when it has counted 200,000 turns."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class EndSessionQuery(TypedDict, total=False):
    """The query of DELETE /v1/memory/{ns}/{profile}/sessions/{sid}."""
    turns: bool
    """Also drop the session's transcript."""
    branch: str
    """The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""


class CreateErasureQuery(TypedDict, total=False):
    """The query of POST /v1/memory/{ns}/{profile}/erasures."""
    branch: str
    """The branch. Absent: `main`. Other branches keep what they hold, and block the erasure until they are without it. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""


class ListErasuresQuery(TypedDict, total=False):
    """The query of GET /v1/memory/{ns}/{profile}/erasures."""
    branch: str
    """Only erasures that were asked for on this branch. Absent: those of all branches. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""


class GetErasureQuery(TypedDict, total=False):
    """The query of GET /v1/memory/{ns}/{profile}/erasures/{id}."""
    branch: str
    """The branch that it was asked for on; of another one it is `not_found`. Absent: any. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""


class ReembedQuery(TypedDict, total=False):
    """The query of POST /v1/memory/{ns}/{profile}/reembed."""
    branch: str
    """The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""


class CalibrateQuery(TypedDict, total=False):
    """The query of POST /v1/memory/{ns}/{profile}/calibrate."""
    branch: str
    """The branch. Absent: `main`. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""


class ListTurnsQuery(TypedDict, total=False):
    """The query of GET /v1/db/{db}/memory/{session}/turns."""
    last: int
    """How many of the last turns, at most 1000; not beside the fields below."""
    order: str
    """`asc`, oldest first, or `desc`, newest first. Absent: `asc`."""
    limit: int
    """How many turns on a page, at most 1000; more are given as 1000."""
    cursor: str
    """`next_cursor` of the page before, in the same order."""
    from_seq: int
    """Only turns with this number or a higher one."""
    to_seq: int
    """Only turns with this number or a lower one."""
    role: str
    """Only turns of this role. Must be 1 to 64 bytes of UTF-8 text."""
    filter: str
    """Only turns whose metadata meets this filter, JSON in the language of DataService.FindDocs; a turn without metadata counts as `{}`."""
    subject: str
    """Only turns of this subject. Must be 1 to 256 bytes of UTF-8 text."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class SearchTurnsQuery(TypedDict, total=False):
    """The query of POST /v1/db/{db}/memory/{session}/search."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class ExecuteSqlQuery(TypedDict, total=False):
    """The query of POST /v1/db/{db}/sql."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class ListFacetsQuery(TypedDict, total=False):
    """The query of GET /v1/db/{db}/facets."""
    kind: str
    """`types`, `topics`, `sources`, `sessions`, `memory_metadata`, `turn_metadata`, `keys`, `documents`, `vectors`, `files`, `tables` or `subjects`. Absent: all of them."""
    limit: int
    """How many facets of a kind, at most 1000; more are given as 1000."""
    cursor: str
    """`next_cursor` of the page before, of the same kind."""


class ListKeysQuery(TypedDict, total=False):
    """The query of GET /v1/db/{db}/kv/{ns}."""
    prefix: str
    """Keys that start with this only. Must be at most 512 bytes of UTF-8 text."""
    limit: int
    """Keys on a page, at most 1000; more are given as 1000."""
    cursor: str
    """`next_cursor` of the page before, in the same order."""
    start: str
    """Keys from this one on only, itself included. Must be at most 512 bytes of UTF-8 text."""
    end: str
    """Keys before this one only, itself left out. Must be at most 512 bytes of UTF-8 text."""
    order: str
    """`asc` or `desc`. Absent: `asc`."""
    include: str
    """What is given of each key in `entries`: `details`, its size and when it expires, or `values`, these and its value and hash; of values a page has at most 4 MiB, unless one alone has more. Absent: no entries."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class GetValueQuery(TypedDict, total=False):
    """The query of GET /v1/db/{db}/kv/{ns}/{key}."""
    consistency: str
    """`primary`: from the writer. `cached`: may be up to 30 seconds old. The same as the `Service-Consistency` header."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class PutValueQuery(TypedDict, total=False):
    """The query of PUT /v1/db/{db}/kv/{ns}/{key}."""
    ttl: int
    """Lifetime in seconds; 0 expires at once. Absent: the value stays."""
    if_match: str
    """Only if the value that is there has this hash; `*`: only if there is one. Otherwise `conflict` (412). Must be a hash, 64 hexadecimal digits in lower case, or *."""
    if_absent: bool
    """Only if there is no value under the key. Otherwise `conflict` (412)."""
    subject: str
    """Whom the record is about, such as `user-7`, at most 256 bytes: what an erasure by subject finds it by. Absent: the record keeps what it has; empty: it has none. Must be at most 256 bytes of UTF-8 text."""


class DeleteValueQuery(TypedDict, total=False):
    """The query of DELETE /v1/db/{db}/kv/{ns}/{key}."""
    if_match: str
    """Only if the value that is there has this hash; `*`: only if there is one. Otherwise `conflict` (412). Must be a hash, 64 hexadecimal digits in lower case, or *."""


class GetValuesQuery(TypedDict, total=False):
    """The query of POST /v1/db/{db}/kv_batch/{ns}/get."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class GetDocQuery(TypedDict, total=False):
    """The query of GET /v1/db/{db}/docs/{coll}/items/{id}."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class DeleteDocQuery(TypedDict, total=False):
    """The query of DELETE /v1/db/{db}/docs/{coll}/items/{id}."""
    if_match: str
    """Only if the document has this hash; `*`: only if there is one. Otherwise `conflict` (412). Must be a hash, 64 hexadecimal digits in lower case, or *."""


class FindDocsQuery(TypedDict, total=False):
    """The query of POST /v1/db/{db}/docs/{coll}/find."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class ListDocCollectionsQuery(TypedDict, total=False):
    """The query of GET /v1/db/{db}/docs."""
    limit: int
    """How many collections, at most 1000."""
    after: str
    """Only collections whose names come after this one. Must be 1 to 64 characters of letters, digits, _ and -."""


class ListVectorsQuery(TypedDict, total=False):
    """The query of GET /v1/db/{db}/vectors/{coll}."""
    limit: int
    """Vectors on a page, at most 1000; more are given as 1000."""
    cursor: str
    """`next_cursor` of the page before, with the same filter."""
    filter: str
    """Only vectors whose metadata meets this filter, JSON in the language of DataService.FindDocs; a vector without metadata counts as `{}`. A page looks at 20,000 vectors at most, and may have few or none and more after it."""
    include_vectors: bool
    """Whether the numbers are given too: a page has at most 2 MiB of them, unless one vector has more."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class GetVectorQuery(TypedDict, total=False):
    """The query of GET /v1/db/{db}/vectors/{coll}/items/{id}."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class SearchVectorsQuery(TypedDict, total=False):
    """The query of POST /v1/db/{db}/vectors/{coll}/search."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class GetFileQuery(TypedDict, total=False):
    """The query of GET /v1/db/{db}/files/{path}."""
    version: int
    """An older version by its number; absent: the present one."""
    first_line: int
    """The first line to give, from 1; absent: from the beginning."""
    last_line: int
    """The last line to give; absent, or behind the end: to the end."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class DeleteFilesQuery(TypedDict, total=False):
    """The query of DELETE /v1/db/{db}/files/{path}."""
    recursive: bool
    """Whether a folder may be deleted with all that is in it; without it, one is `conflict` (409)."""
    purge: bool
    """Whether all versions go too, also those of files that were deleted or moved away before. History keeps what was there for the point-in-time window."""
    if_match: str
    """Only if the file has this hash, as for PutFile. Must be a hash, 64 hexadecimal digits in lower case, or *."""


class ListFilesQuery(TypedDict, total=False):
    """The query of GET /v1/db/{db}/files."""
    folder: Json
    """The folder, without a slash at its end; absent or empty: the whole tree. Must be a path such as notes/travel/tokyo.md: parts between slashes, none of them empty, . or .., without control characters and must be at most 1024 bytes of UTF-8 text, or empty."""
    recursive: bool
    """All files below the folder, at any depth; otherwise its own files and folders."""
    limit: int
    """Entries on a page, at most 1000; more are given as 1000."""
    cursor: str
    """`next_cursor` of the page before."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class ListFileVersionsQuery(TypedDict, total=False):
    """The query of GET /v1/db/{db}/files/{path}/versions."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class SearchFilesQuery(TypedDict, total=False):
    """The query of POST /v1/db/{db}/file_search."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class DiffStatesQuery(TypedDict, total=False):
    """The query of GET /v1/db/{db}/diff."""
    from_: str
    """The earlier state: a transaction id, the name of a checkpoint, or a time such as `2026-01-31T12:00:00Z`. Absent: the newest state of `from_branch`. Must be a transaction id, the name of a checkpoint, or a time such as 2026-01-31T12:00:00Z (in a query, + is written %2B)."""
    from_branch: str
    """The branch of the earlier state. Absent: the branch of the later one; then `from` must be given. Must be 1 to 64 characters of letters, digits, ., _ and -, and not start with .."""
    to: str
    """The later state, named as `from` is. Absent: the newest. Must be a transaction id, the name of a checkpoint, or a time such as 2026-01-31T12:00:00Z (in a query, + is written %2B)."""
    limit: int
    """How many differences on a page, at most 1000; more are given as 1000."""
    cursor: str
    """`next_cursor` of the page before: the next page compares the very same two states."""


class ExportQuery(TypedDict, total=False):
    """The query of GET /v1/db/{db}/export."""
    cursor: str
    """The `cursor` of the mark that ended the part before. Absent: the first part."""
    at: str
    """The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query."""


class ImportQuery(TypedDict, total=False):
    """The query of POST /v1/db/{db}/import."""
    mode: str
    """What is done with a record of whose names something else is there: `skip` (the default) leaves what is there, `replace` puts the record in its place, `fail` refuses the lines with `conflict` (409)."""
    dry_run: bool
    """Says what would be done and writes nothing. Errors are given as a list."""
    cursor: str
    """`cursor` of the answer before: these lines come next."""
    checkpoint: str
    """The name of the checkpoint that is made before the first record is written. One that is there is kept, and is what a rewind goes back to. Absent: `import-` and some digits of the header's hash. Must be 1 to 64 characters of letters, digits, ., _ and -, not start with ., and hold something besides digits, as a rewind takes digits for a transaction id."""


class WatchQuery(TypedDict, total=False):
    """The query of GET /v1/db/{db}/changes."""
    after: int
    """The transaction after which the stream begins; 0 is the beginning of the branch. Absent, and without `Last-Event-ID`: the present state, so that only what comes is told."""


class ListWebhookFailuresQuery(TypedDict, total=False):
    """The query of GET /v1/db/{db}/webhooks/{id}/failures."""
    limit: int
    """Failures on a page, at most 1,000; more are given as 1,000."""
    cursor: str
    """`next_cursor` of the page before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseInfo:
    """A database."""
    name: str
    """Its name. A profile's database is named `{ns}--{profile}`."""
    uuid: str
    """Its identity: a database that is deleted and created again has another."""
    created_at: int
    """When it was created, in Unix milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListDatabasesResponse:
    """What ControlService.ListDatabases gives."""
    databases: Sequence[DatabaseInfo]
    """All databases, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenResponse:
    """A minted token."""
    token: str
    """The token: a JWT signed with Ed25519, verifiable with the keys at `/.well-known/jwks.json`."""
    expires_in: int
    """Its lifetime in seconds."""
    jti: str
    """Its id, the claim `jti`, by which it can be revoked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespacePolicy:
    """The policy of a namespace."""
    namespace: str
    """The namespace."""
    revision: int
    """Counts the changes, from 1."""
    updated_at: int
    """When it was last changed, in Unix milliseconds."""
    policy: Mapping[str, Json] | None
    """The policy document; null when it was cleared."""
    warnings: Sequence[str] | None = None
    """What the document says that means nothing to this node: fields that it does not know, and so does not enforce. In the answer to a change only, and absent when there is nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAuditResponse:
    """What ControlService.ReadAudit gives."""
    events: Sequence[AuditEvent]
    """The events, oldest first."""
    next_cursor: str | None
    """Where the next page begins; null on the last page."""
    complete: bool
    """Whether the page holds every matching event of its window that has been flushed. The node that answers flushes its own events first; those of other nodes come within their `SERVICE_AUDIT_FLUSH_MS`."""
    nodes: Mapping[str, Json] | None = None
    """The names (`SERVICE_NODE_ID`) of the nodes that recorded these events, by their identities, as far as they are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One thing that happened in a namespace: metadata, never content."""
    v: int
    """The version of the event's form."""
    id: str
    """The event's id, unique."""
    ts: int
    """When it happened, in Unix milliseconds."""
    node: str
    """The identity of the node that recorded it: a ULID that is made with its data directory."""
    ns: str
    """The namespace."""
    action: str
    """What was done: `memory.ingest`, `memory.extract`, `memory.forget`, `memory.session_end`, `memory.recall`, `memory.get`, `memory.ask`, `ai.extract`, `ai.ask`, `ai.embed`, `token.mint`, `policy.update`, `db.delete`, `erasure.requested`, `erasure.completed`, `memory.list`, `memory.review`, `memory.history`, `token.revoke`, `branch.create`, `branch.delete`, `branch.rewind`, `branch.checkpoint`, `branch.checkpoint_delete`, `branch.undo`, `changes.watch`, `db.export`, `db.import`; with `audit.include_data` also `sql.write`, `kv.put`, `kv.delete`, `docs.insert`, `docs.put`, `docs.update`, `docs.delete`, `docs.index`, `vectors.upsert`, `vectors.delete`, `turns.append`, `turns.delete`, `turns.replace`, `files.put`, `files.edit`, `files.move` and `files.delete`; or `audit.dropped` where events are missing."""
    outcome: str
    """`ok`, `denied` or `error`."""
    prev: str
    """Of the event before of the same node in this stream, the SHA-256 in hexadecimal of its JSON as REST gives it, so that a removed event shows; 64 zeros in a node's first (docs/verifying.md)."""
    profile: str | None = None
    """The profile, where one is concerned."""
    branch: str | None = None
    """The branch, where one is concerned."""
    resource: str | None = None
    """What is concerned: the id of a memory or a coupon (never an erasure's target), the name of a database, or the level of a policy, `namespace` or `profile`, or `embedder` where the floor of the profile's embedder was set."""
    txid: int | None = None
    """The transaction id of the change."""
    count: int | None = None
    """How many records were changed or given; of `audit.dropped`, how many events are missing."""
    actor: AuditActor | None = None
    """Who did it."""
    egress: AuditEgress | None = None
    """What left for an outside model."""
    error: str | None = None
    """The error code of a failure or denial."""
    grant: AuditGrant | None = None
    """The token that was minted or revoked; on `token.mint` and `token.revoke` only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditActor:
    """Who acted, told by the credential and never by the credential itself."""
    kind: str
    """`token`, `platform`, `internal` or `anonymous`."""
    token_hash: str | None = None
    """16 hexadecimal digits of a keyed hash of the credential."""
    scope: str | None = None
    """The credential's scope."""
    claim_db: str | None = None
    """The database that a per-database token names."""
    claim_ns: str | None = None
    """The namespace that a namespace token names."""
    iat: int | None = None
    """When the token was minted, in Unix seconds, as in its claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEgress:
    """What left for an outside model, in sizes."""
    provider: str
    """The provider."""
    model: str
    """The model."""
    endpoint_host: str
    """The host that received it."""
    self_hosted: bool
    """Whether that host counts as self-hosted."""
    input_items: int
    """Items sent."""
    input_bytes: int
    """Bytes of text sent."""
    output_items: int
    """Items received."""
    duration_ms: int
    """How long it took, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditGrant:
    """A token, told by its claims and never by itself."""
    jti: str
    """The token's id, its claim `jti`."""
    scope: str | None = None
    """Its scope; on `token.mint` only."""
    expires_in: int | None = None
    """Its lifetime in seconds; on `token.mint` only."""
    db: str | None = None
    """The database that it covers, or"""
    ns: str | None = None
    """the namespace that it covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetNamespaceUsageResponse:
    """What ControlService.GetNamespaceUsage gives."""
    namespace: str
    """The namespace."""
    databases: int
    """How many databases the page has."""
    object_bytes: int
    """Bytes of their objects together."""
    approximate: bool
    """Whether that is less than all, as a database has more objects than are counted."""
    profiles: Sequence[ProfileUsage]
    """The profiles of the page, by name."""
    next_cursor: str | None
    """Where the next page begins; null on the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileUsage:
    """What one profile takes."""
    profile: str
    """Its name."""
    object_bytes: int
    """Bytes of its objects in object storage: all branches, their history, and what waits to be collected."""
    objects: int
    """How many objects these are."""
    approximate: bool
    """Whether there are more: a database's first 20,000 objects are counted."""
    last_active_at: int | None = None
    """When its branch `main` was last written, in Unix milliseconds, as far as object storage has it; absent while nothing was ever written."""
    bytes: int | None = None
    """Bytes of the database file of `main`, in the same state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListProfilesResponse:
    """What MemoryService.ListProfiles gives."""
    namespace: str
    """The namespace."""
    profiles: Sequence[Profile]
    """The profiles, by name."""
    next_cursor: str | None = None
    """Where the next page begins; absent on the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A profile of a namespace."""
    profile: str
    """Its name."""
    created_at: int
    """When it was created, in Unix milliseconds."""
    last_active_at: int | None = None
    """When its branch `main` was last written, in Unix milliseconds, as far as object storage has it: a second late, or more where shipping waits. There with `include` only, and absent while nothing was ever written."""
    bytes: int | None = None
    """Bytes of the database file of `main`, in the same state. There with `last_active_at`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryInput:
    """A memory to be stored."""
    type: str
    """`fact`, `event`, `instruction` or `task`."""
    summary: str
    """A one-line gist, found by its words; not blank, at most 8 KiB. Must be 1 to 8192 bytes of UTF-8 text."""
    content: Json
    """The full payload: any JSON, at most 1 MiB; null is a value like any other."""
    topic_key: str | None = None
    """The topic on which a `fact` or `instruction` supersedes the one before; refused on other types. Must be 1 to 512 bytes of UTF-8 text."""
    keywords: str | None = None
    """Further words to be found by, separated by spaces. Must be at most 8192 bytes of UTF-8 text."""
    embedding: Sequence[float] | None = None
    """The memory's vector. Absent: the node makes one where an embedder is configured (not for tasks)."""
    session_id: str | None = None
    """The session it comes from, 1 to 128 bytes. Must be 1 to 128 bytes of UTF-8 text."""
    source: str | None = None
    """The agent it comes from; provenance, not identity. Must be 1 to 256 bytes of UTF-8 text."""
    ttl: int | None = None
    """Lifetime in seconds of a `task`, clamped by the policy's `memory.task_ttl_max_secs`; refused on other types."""
    metadata: Mapping[str, Json] | None = None
    """What else is to be known of it, for filters: an object of any JSON, at most 16 KiB, no field name at its top beginning with `$`. It is no part of what makes two memories the same: that of a duplicate is passed over."""
    pinned: bool | None = None
    """Pin it: it comes first in context blocks. It is no part of what makes two memories the same, and pins the existing one of a duplicate; what it supersedes loses nothing, and hands nothing on."""
    status: str | None = None
    """`proposed`: it waits for ReviewMemory, and is not recalled, shown in context blocks or the same as another until it is approved. `active`, or absent: it is taken in, unless the policy's `memory.trusted_sources` leaves its source out; then it is proposed all the same."""
    subject: str | None = None
    """Whom the record is about, such as `user-7`, 1 to 256 bytes: what an erasure by subject finds it by. Memories of different subjects are different memories. Must be 1 to 256 bytes of UTF-8 text."""
    valid_from: int | None = None
    """From when on it holds in the world, in Unix milliseconds, which may be before 1970; absent: from ever. It is a part of what makes two memories the same, as is `valid_until`."""
    valid_until: int | None = None
    """Until when it holds in the world, and not at that time any more; must be later than `valid_from`. Absent: without end."""
    derived_from: Sequence[MemoryLinkInput] | None = None
    """The turns and memories that it was derived from, at most 32, each of which must be there. They are no part of what makes two memories the same; those of a duplicate are added to what the existing one has, as far as 32 hold them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLinkInput:
    """What a memory was derived from: `memory_id`, or a turn of `session_id` by its `seq` or its `turn_id`."""
    memory_id: str | None = None
    """A memory of the branch. Must be 1 to 64 bytes of UTF-8 text."""
    session_id: str | None = None
    """A session. Must be 1 to 128 bytes of UTF-8 text."""
    seq: int | None = None
    """The number of a turn of the session, from 1."""
    turn_id: str | None = None
    """The id that a turn of the session was appended with, in the place of its number. Must be 1 to 128 bytes of UTF-8 text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResponse:
    """What MemoryService.Ingest gives."""
    results: Sequence[IngestItem]
    """What became of each memory, in the order given."""
    txid: int
    """The database's transaction id after the ingest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestItem:
    """What became of one memory of an ingest."""
    id: str
    """The memory's id; that of the existing one for a duplicate."""
    status: str
    """`created`, `duplicate` of an active memory, or `proposed`: it waits for a review, as it was asked or as the policy demands. The same proposal again is the one that waits."""
    superseded: Sequence[str]
    """The ids of the memories that this one superseded."""
    embedding: str | None = None
    """Why the vector was left out; the memory is found by its words and topic. `skipped_dimension`: its dimension is not that of the profile's vectors. `skipped_model`: the node made none, as the profile's vectors are another model's or brought by callers (see Reembed). Absent otherwise, also while the embedder does not answer: then it is made later."""
    expires_at: int | None = None
    """When the memory expires, in Unix milliseconds; on tasks only. That of an existing one stays as it was: a duplicate changes no lifetime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListMemoriesResponse:
    """What MemoryService.ListMemories gives."""
    memories: Sequence[Memory]
    """The memories."""
    next_cursor: str | None
    """Where the next page begins; null when there is none."""
    txid: int
    """The transaction id of the state that was read; 0 for an unknown profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A memory."""
    id: str
    """Its id: `mem_` and a ULID; opaque."""
    type: str
    """`fact`, `event`, `instruction` or `task`."""
    topic_key: str | None
    """The topic, or null."""
    summary: str
    """The one-line gist."""
    content: Json
    """The full payload: any JSON."""
    keywords: str | None
    """The further words, or null."""
    session_id: str | None
    """The session it first came from, or null."""
    source: str | None
    """The agent it first came from, or null."""
    created_at: int
    """When it was stored, in Unix milliseconds."""
    superseded_by: str | None
    """The id of the memory that replaced it, or null for an active one."""
    expires_at: int | None = None
    """When it expires, in Unix milliseconds; on tasks only."""
    score: float | None = None
    """Fused relevance; on recall only. Comparable within one answer."""
    channels: Sequence[str] | None = None
    """Which channels found it: `topic`, `keyword`, `vector`; on recall only."""
    supersedes: Sequence[str] | None = None
    """The ids that it superseded itself, oldest first; on a single get only."""
    explain: MemoryExplanation | None = None
    """Why it was found; on a recall with `explain` only."""
    metadata: Mapping[str, Json] | None = None
    """The metadata that it was stored with; absent when there was none."""
    current_id: str | None = None
    """Of a superseded memory, the id of the one that holds now on its topic, at the end of the chain; absent when that one was forgotten, and on memories that hold themselves. On recall only."""
    pinned: bool | None = None
    """True where it is pinned; absent otherwise."""
    status: str | None = None
    """`proposed`: it waits for a review. `completed`: a task that is done. Absent otherwise: then it is active, or superseded where `superseded_by` says so."""
    completed_at: int | None = None
    """When the task was completed, in Unix milliseconds; on completed tasks only."""
    subject: str | None = None
    """Whom the record is about; absent where that was not said."""
    valid_from: int | None = None
    """From when on it holds in the world, in Unix milliseconds; where it says so."""
    valid_until: int | None = None
    """Until when it holds in the world, likewise."""
    derived_from: Sequence[MemoryLink] | None = None
    """What it was derived from, in the order in which it was said; on a single get or change only, absent where nothing is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryExplanation:
    """Why a memory was found."""
    channels: Sequence[ChannelExplanation]
    """One entry per channel that found it, in the order of `channels`."""
    matched_terms: Sequence[str]
    """The words of the query that it holds, as they are asked."""
    coverage: float | None = None
    """The share of the query's words that one passage of it covers, with its topic and summary, weighted by how telling each is, from 0 to 1; where words were asked. A memory of at most 60 words is one passage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelExplanation:
    """How one channel saw a memory."""
    channel: str
    """`topic`, `keyword` or `vector`."""
    rank: int
    """Its rank there, from 1."""
    score: float
    """The channel's own score: for words BM25 with what stands together and beside it (larger is better), cosine similarity for vectors, 1 for a topic."""
    approximate: bool
    """Whether the channel's search was approximate, so that another node may rank differently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLink:
    """What a memory was derived from: a memory, or the turn `seq` of a session. It may have been forgotten since."""
    memory_id: str | None = None
    """A memory."""
    session_id: str | None = None
    """A session."""
    seq: int | None = None
    """The number of a turn of the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetHistoryResponse:
    """What MemoryService.GetHistory gives."""
    states: Sequence[MemoryState]
    """The states, the oldest first."""
    next_cursor: str | None
    """Where the next page begins; null when there is none."""
    txid: int
    """The transaction id of the state that was read; 0 for an unknown profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """A memory as one of what was held, one after the other. What it says in full is to be had from MemoryService.GetMemory."""
    id: str
    """The memory's id."""
    type: str
    """Its type."""
    summary: str
    """Its one-line gist."""
    active_from: int
    """When it became active, in Unix milliseconds: when it was ingested, or approved."""
    topic_key: str | None = None
    """Its topic, if it has one."""
    source: str | None = None
    """The agent it first came from, if one is known."""
    session_id: str | None = None
    """The session it first came from, if one is known."""
    superseded_at: int | None = None
    """When it was superseded, in Unix milliseconds; absent while it is active."""
    superseded_by: str | None = None
    """The id of the memory that superseded it, which may have been forgotten since; absent while it is active."""
    completed_at: int | None = None
    """When the task was completed, in Unix milliseconds."""
    valid_from: int | None = None
    """From when on it holds in the world, in Unix milliseconds, where it says so."""
    valid_until: int | None = None
    """Until when it holds in the world, likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewMemoryResponse:
    """What MemoryService.ReviewMemory gives."""
    results: Sequence[ReviewItem]
    """What became of each proposal, in the order given."""
    txid: int
    """The database's transaction id after the review."""
    erasure_id: str | None = None
    """The coupon of the erasure that the policy made of a rejection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewItem:
    """What became of one proposal."""
    id: str
    """The id of the proposal."""
    status: str
    """`approved`: it is active, under its id, since now. `duplicate`: it is the same as an active memory by now, which has taken in who said it, and the proposal is gone. `rejected`: it is forgotten. `unknown`: none of this id waits."""
    superseded: Sequence[str]
    """The ids of the memories that it superseded."""
    duplicate_of: str | None = None
    """The active memory that it is a duplicate of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetMemoriesResponse:
    """What MemoryService.ForgetMemories gives."""
    forgotten: int
    """How many memories were forgotten."""
    ids: Sequence[str]
    """Their ids, newest first."""
    next_cursor: str | None
    """Where to go on; null when no more memories meet the conditions."""
    txid: int
    """The database's transaction id after the deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallResponse:
    """What MemoryService.Recall gives."""
    memories: Sequence[Memory]
    """The memories, the most relevant first. The same request at the same txid gives the same."""
    turns: Sequence[Turn]
    """Turns of the transcript, nearest first, or with `search_turns` most relevant first; empty unless asked for."""
    txid: int
    """The transaction id of the state that was read; 0 for an unknown profile."""
    embedding: str | None = None
    """Why no vector was looked for among the memories, although the request has one or the node makes one of `query`: `skipped_dimension`, as it has another dimension than the profile's vectors, or `skipped_model`, as those are another model's or brought by callers (see Reembed). What words and topic find is given all the same. Absent otherwise, also while the embedder does not answer."""
    empty_reason: str | None = None
    """Why `memories` is empty; absent when it is not. `nothing_stored`: the profile holds no memory, or is unknown. `no_match`: nothing holds a word of the query, has the topic, or has a vector to compare. `filtered_out`: something does, but nothing that `types`, `session_id`, `source`, `filter`, `since`, `until` and `k_per_type` let through; superseded memories count as filtered out unless they are included. `below_gate`: something passed the filters, and was not relevant enough: its words below the gate, its vector below the floor, or either below `min_score`. `vetoed`: words were relevant enough, but the vectors of the profile's embedder are all far and speak against them. `vector_skipped`: only a vector was asked for, and `embedding` says why it was not looked for."""
    near_misses: Sequence[NearMiss] | None = None
    """With `explain` only: the best 5 memories that were left out as not relevant enough, those of words first, the nearest to an answer first. They passed the filters. Those that were relevant and had no place in `k` are not among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a transcript."""
    session_id: str
    """The session it belongs to."""
    seq: int
    """Its place in the session: 1, 2, 3, ..."""
    role: str
    """Who spoke, as it was given."""
    content: Json
    """What was said: any JSON."""
    created_at: int
    """When it was appended, in Unix milliseconds."""
    distance: float | None = None
    """Cosine distance to the query's vector; on searches only."""
    turn_id: str | None = None
    """The id that its caller gave it; absent when it has none."""
    metadata: Mapping[str, Json] | None = None
    """What else is known of it; absent when it has none."""
    subject: str | None = None
    """Whom the record is about; absent where that was not said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NearMiss:
    """A memory that came near and is no answer, and why. It is told by its id alone, as it is not about the question: what it says is to be had from MemoryService.GetMemory."""
    id: str
    """The memory's id."""
    reasons: Sequence[MissedBar]
    """Why each channel that looked at it left it out; the words first, then the vector."""
    matched_terms: Sequence[str]
    """The words of the query that it holds, as they are asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedBar:
    """What a channel asked of a memory that it left out, and what it met."""
    channel: str
    """`keyword` or `vector`."""
    reason: str
    """Of words: `below_gate`, as nothing at all was about the question and its coverage is below the gate; `below_floor`, as others were and its coverage is below the floor, the node's or `min_score.keyword`; `too_common`, as what it holds of the question is too common in this profile to tell anything; `drop_off`, as its words tell too little beside those of the best; `vetoed`, as the vectors of the profile's embedder are all far and speak against the words. Of vectors: `vector_below_floor`, as its cosine similarity is below the floor, the embedder's or `min_score.vector`."""
    value: float
    """What it has: coverage, from 0 to 1, for `below_gate` and `below_floor`; what its words tell, about 1 for each rare one, for `too_common` and `drop_off`; the cosine similarity for `vector_below_floor`, and of the nearest of all for `vetoed`."""
    needed: float
    """What it would have needed, in the same unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetContextResponse:
    """What MemoryService.GetContext gives."""
    text: str
    """The block, from its opening tag to the line feed behind the closing one."""
    tokens: int
    """What it counts; never more than `max_tokens`."""
    nonce: str
    """What both tags end in: 24 letters that no one can know who has stored what stands between them."""
    sections: Sequence[ContextSection]
    """The sections, in the order in which they were asked for; the block has a heading for those with lines only."""
    now: int
    """The time that ages are measured against, in Unix milliseconds."""
    txid: int
    """The transaction id of the state that was read; 0 for an unknown profile."""
    embedding: str | None = None
    """Why the request's vector was not looked for, as RecallResponse says it. Absent otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSection:
    """What a context block shows of a section, and what not."""
    name: str
    """Its name."""
    ids: Sequence[str]
    """The ids of its lines, in their order: of memories as everywhere, of turns `#` and their `seq`."""
    left_out: int
    """How many that were looked at have no line, for want of room."""
    more: bool
    """Whether there may be more than were looked at (`max_lines`)."""
    cut: int
    """How many of its lines are cut; they end in an ellipsis."""
    tokens: int
    """What it counts at most, heading and all."""
    session_id: str | None = None
    """The session, of `turns`; absent where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskResponse:
    """What MemoryService.Ask gives."""
    answer: str | None
    """The answer; null when nothing relevant was found, or the model did not find it in what was."""
    sources: Sequence[str]
    """The ids of the memories that the answer cites, all of them in `memories`. An answer without any has no grounds there."""
    memories: Sequence[Memory]
    """The memories that the model saw: those that were recalled, from the most relevant on, up to 256 KiB."""
    txid: int
    """The transaction id of the state that was read; 0 for an unknown profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractResponse:
    """What MemoryService.Extract gives."""
    turns: int
    """How many turns were read."""
    empty_turns: int
    """How many of them yielded nothing."""
    results: Sequence[IngestItem] | None = None
    """What became of each memory that was extracted; absent on a dry run."""
    proposed: Sequence[MemoryInput] | None = None
    """The memories that would be ingested; on a dry run only."""
    txid: int | None = None
    """The database's transaction id after the ingest; absent on a dry run."""
    dropped: int | None = None
    """How many proposals of the model broke a rule of memories and were left out; absent when none did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSessionsResponse:
    """What MemoryService.ListSessions gives."""
    sessions: Sequence[Session]
    """The sessions, the most recently active first."""
    txid: int
    """The transaction id of the state that was read; 0 for an unknown profile."""
    next_cursor: str | None = None
    """Where the next page begins; absent on the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session of a profile. It exists from its first memory or turn until it is ended."""
    id: str
    """Its id."""
    created_at: int
    """When it began, in Unix milliseconds."""
    last_active_at: int
    """When it last got a memory or turn, in Unix milliseconds."""
    turns: int | None = None
    """How many turns its transcript has; only with `include_turns`."""
    first_turn_at: int | None = None
    """When the first of them was appended, in Unix milliseconds; only with `include_turns`, absent when there is none."""
    last_turn_at: int | None = None
    """When the last of them was appended, likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureCoupon:
    """The progress of an erasure."""
    id: str
    """Its id: `ers_` and a ULID."""
    status: str
    """`pending`: gone from the database, history not rewritten yet. `blocked`: something named in `blocked_by` still holds the data; goes back to `pending` when that is gone. `completed`: gone from history too, with a receipt."""
    target: ErasureTarget
    """What was asked for."""
    memory_ids: Sequence[str]
    """The ids of the memories that were erased."""
    requested_at: int
    """When it was asked for, in Unix milliseconds."""
    grace_until: int
    """Until when rewinding undoes it, in Unix milliseconds; history is rewritten after that, and never before."""
    erased_txid: Mapping[str, int]
    """The erasure's transaction id, by the name of the branch that it was asked for on."""
    completed_at: int | None
    """When it was completed, in Unix milliseconds, or null."""
    blocked_by: ErasureBlockers | None = None
    """What stands in the way; on blocked coupons only."""
    receipt: ErasureReceipt | None = None
    """The proof; on completed coupons only."""
    erasure_id: str | None = None
    """The same as `id`; in the answer to the request only."""
    txid: int | None = None
    """The database's transaction id after the erasure; in the answer to the request only."""
    waiting_for: str | None = None
    """Why an erasure whose grace is over is not completed yet, in words for people, such as that old objects wait to be collected, that the grace of an earlier erasure is not over, or what the last attempt failed of; on blocked coupons where what is named does not simply hold the data as live content."""
    nodes: Mapping[str, Json] | None = None
    """The names (`SERVICE_NODE_ID`) of the nodes that the receipt tells of, by their identities, as far as they are known. No part of what is signed."""
    records: int | None = None
    """How many records beside memories were erased: turns, versions of files, keys, documents or vectors; absent where only memories can have been."""
    erased: ErasedRecords | None = None
    """Of an erasure by subject, how many of each kind were erased; absent on others."""
    derived: int | None = None
    """How many memories of the branch stay that were derived from what was erased; their links to it went with it. In the answer to the request that has erased it only, and absent where there are none. ListMemories with `derived_from_…` lists them before an erasure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureTarget:
    """What an erasure was asked to remove."""
    memory_id: str | None = None
    """One memory."""
    topic_key: str | None = None
    """A topic, with its type."""
    type: str | None = None
    """The topic's type."""
    session_id: str | None = None
    """A session."""
    turns: bool | None = None
    """Whether the session's transcript too."""
    seq: int | None = None
    """The number of a turn of `session_id`."""
    path: str | None = None
    """A file or a folder."""
    kv_ns: str | None = None
    """The namespace of a key."""
    key: str | None = None
    """A key."""
    collection: str | None = None
    """The collection of a document."""
    doc_id: str | None = None
    """The `_id` of a document."""
    vector_collection: str | None = None
    """The collection of a vector."""
    vector_id: str | None = None
    """The id of a vector."""
    subject: str | None = None
    """A subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureBlockers:
    """What keeps erased data in history."""
    checkpoints: Sequence[str]
    """Checkpoints that pin a state from before the erasure, as `branch/name`."""
    branches: Sequence[str]
    """Branches that hold the data as live content, or of which that cannot be ruled out: `waiting_for` says so then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureReceipt:
    """A signed proof of erasure. It can be checked offline with the keys at `/.well-known/jwks.json`: docs/verifying.md."""
    payload: Mapping[str, Json]
    """Database and uuid, erasure id, target, memory ids, erased txid per branch, times, method and verification evidence."""
    alg: str
    """`EdDSA`."""
    kid: str
    """The id of the key that signed."""
    sig: str
    """The signature, base64url, over `palimpsest-erasure-receipt-v1` (`-v2` where the payload's `v` is 2), a NUL, and the canonical JSON (RFC 8785) of `payload`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedRecords:
    """How many records of a subject were erased, by kind; a kind of which there were none is absent."""
    memories: int | None = None
    """Memories."""
    turns: int | None = None
    """Turns."""
    file_versions: int | None = None
    """Versions of files."""
    documents: int | None = None
    """Documents."""
    keys: int | None = None
    """Keys."""
    vectors: int | None = None
    """Vectors of collections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListErasuresResponse:
    """What MemoryService.ListErasures gives."""
    erasures: Sequence[ErasureCoupon]
    """The coupons, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReembedResponse:
    """What MemoryService.Reembed gives."""
    embedded: int
    """How many memories and turns got a vector in this step."""
    left: int
    """How many the model gave no vector for; they are passed over."""
    next_cursor: str | None
    """Where the next step begins; null when there is none."""
    txid: int
    """The database's transaction id after the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateResponse:
    """What MemoryService.Calibrate gives."""
    embedder: str
    """The embedder whose vectors they are."""
    floor_before: float
    """The floor that held before."""
    floor: float
    """The floor that was found, in steps of 0.001; it holds from now on unless it was a dry run."""
    seed: int
    """The seed that was used."""
    memories: int
    """How many memories with vectors were looked at."""
    unrelated: PairSimilarities
    """Pairs that share no topic and no session."""
    related: PairSimilarities
    """Each memory with the next one of its topic and with the next one of its session."""
    txid: int
    """The database's transaction id after the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSimilarities:
    """How near the vectors of pairs of memories are; the figures are absent where there are no pairs."""
    pairs: int
    """How many pairs were compared."""
    median: float | None = None
    """The cosine similarity in the middle."""
    highest: float | None = None
    """The highest cosine similarity."""
    share_before: float | None = None
    """The share, from 0 to 1, that reaches the floor that held before."""
    share: float | None = None
    """The share that reaches the floor that was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilePolicy:
    """The policy of a profile."""
    namespace: str
    """The namespace."""
    profile: str
    """The profile."""
    override: Mapping[str, Json] | None
    """The profile's own policy document, or null where it has none."""
    effective: Mapping[str, Json]
    """Every value that is enforced, under its dotted path."""
    revision: int
    """Counts the changes of the profile's own policy, from 1; 0 where it never had one."""
    warnings: Sequence[str] | None = None
    """What the profile's own policy says that means nothing to this node: fields that it does not know, and so does not enforce. In the answer to a change only, and absent when there is nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendTurnResponse:
    """What DataService.AppendTurn gives."""
    seq: int
    """The turn's place in its session."""
    txid: int
    """The database's transaction id after the append."""
    embedding: str | None = None
    """Present when the embedding was not kept: `skipped_dimension`, as it has another dimension than the transcript's vectors. The turn itself is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendTurnsResponse:
    """What DataService.AppendTurns gives."""
    turns: Sequence[AppendedTurn]
    """One for each turn, in order."""
    txid: int
    """The database's transaction id after the append."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedTurn:
    """What became of one turn of AppendTurns or ReplaceTurns."""
    seq: int
    """The turn's place in its session."""
    status: str
    """`created`, or `duplicate` when a turn of this `turn_id`, role, content and metadata is there already."""
    embedding: str | None = None
    """Present when the embedding was not kept: `skipped_dimension`, as it has another dimension than the transcript's vectors. The turn itself is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTurnsResponse:
    """What DataService.ListTurns gives."""
    turns: Sequence[Turn]
    """The turns: the last ones oldest first, or a page in the order asked for."""
    txid: int
    """The transaction id of the state that was read."""
    next_cursor: str | None = None
    """Where the next page begins; absent on the last page, and where the last turns were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTurnsResponse:
    """What DataService.DeleteTurns gives."""
    deleted: int
    """How many turns were deleted."""
    more: bool
    """Whether `from_seq` or `all` mean more turns than one call deletes: ask again, with another `operation_id`."""
    txid: int
    """The database's transaction id after the deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceTurnsResponse:
    """What DataService.ReplaceTurns gives."""
    removed: int
    """How many turns went."""
    turns: Sequence[AppendedTurn]
    """One for each new turn, in order."""
    txid: int
    """The database's transaction id after the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTurnsResponse:
    """What DataService.SearchTurns gives."""
    turns: Sequence[Turn]
    """The turns, nearest first, with `distance`."""
    txid: int
    """The transaction id of the state that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteSqlResponse:
    """What DataService.ExecuteSql gives."""
    results: Sequence[SqlResult]
    """One result per statement, in order."""
    txid: int
    """The database's transaction id after the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlResult:
    """What one statement gave. All results together hold at most 10000 rows a statement and 16 MiB; more is `invalid_request` (400)."""
    columns: Sequence[str]
    """The names of the columns; empty for a statement that gives no rows."""
    rows: Sequence[Sequence[Json]]
    """The rows, each an array in the order of `columns`. Integers beyond 2^53 are strings, blobs `{'$base64': '...'}`."""
    rows_affected: int
    """Rows that the statement inserted, updated or deleted."""
    last_insert_rowid: int
    """The rowid of the connection's last successful insert."""
    error: SqlError | None = None
    """Why the statement failed; only with `txn: false`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlError:
    """Why one statement of a batch with `txn: false` failed."""
    code: str
    """The stable error code."""
    message: str
    """What is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResponse:
    """What DataService.Sync gives."""
    txid: int
    """The transaction id of the state that object storage holds now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFacetsResponse:
    """What DataService.ListFacets gives."""
    groups: Sequence[FacetGroup]
    """One group for each kind that there is something of, or the one that was asked for."""
    txid: int
    """The transaction id of the state that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetGroup:
    """The facets of one kind."""
    kind: str
    """The kind."""
    facets: Sequence[Facet]
    """The facets, by name."""
    next_cursor: str | None
    """Where the next page begins; null on the last page."""
    approximate: bool
    """Whether facets may be missing: types, sources and paths of metadata are found among the newest 20,000 memories, or the newest 2,000 with metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """One thing that a database has."""
    name: str
    """Its name: a memory type, a topic, a source, a session id, a dot path of metadata, a namespace, a collection, a folder with its slash (empty for files in none), a table."""
    approximate: bool
    """Whether there are at least so many, or so many among the newest that were looked at."""
    types: Sequence[str]
    """Of a path of metadata, the JSON types that were seen there: `array`, `boolean`, `null`, `number`, `object`, `string`."""
    indexes: Sequence[str]
    """Of a collection of documents, the paths of its indexes."""
    count: int | None = None
    """How many there are: memories that are active (of a topic also those that it superseded), turns of a session, memories or turns whose metadata has the path, keys, documents, vectors, files, rows, records of a subject. Absent where they are not counted: rows of virtual tables."""
    type: str | None = None
    """Of a topic, the type of its memories."""
    dimension: int | None = None
    """Of a collection of vectors, how many numbers each has."""
    metric: str | None = None
    """Of a collection of vectors, the metric that it has declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListKeysResponse:
    """What DataService.ListKeys gives."""
    keys: Sequence[str]
    """The keys, sorted by their UTF-8 bytes in the order asked for."""
    next_cursor: str | None
    """Where the next page begins; null on the last page."""
    txid: int
    """The transaction id of the state that was read."""
    entries: Sequence[ValueEntry] | None = None
    """One for each of the keys, in their order; absent where `include` does not ask for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueEntry:
    """A key of a namespace with what is stored under it."""
    key: str
    """The key."""
    size: int
    """Bytes of the value."""
    expires_at: int | None = None
    """When it expires, in Unix milliseconds; absent where it stays."""
    text: str | None = None
    """The value as text, where it is UTF-8; absent where values are not asked for."""
    bytes: str | None = None
    """The value where it is not UTF-8, in base64; absent where `text` is there or values are not asked for."""
    hash: str | None = None
    """SHA-256 of the value's bytes, in hexadecimal: what `if_match` of a later write may be. There with the value."""
    subject: str | None = None
    """Whom the record is about; absent where that was not said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutValueResponse:
    """What DataService.PutValue gives."""
    txid: int
    """The database's transaction id after the write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetValuesResponse:
    """What DataService.GetValues gives."""
    entries: Sequence[ValueEntry]
    """The values that are there, in the order of the keys, at most 4 MiB unless one alone has more."""
    remaining: Sequence[str]
    """Keys of values that are there and had no room in this answer: to be asked for again."""
    txid: int
    """The transaction id of the state that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutValuesResponse:
    """What DataService.PutValues gives."""
    hashes: Sequence[str]
    """SHA-256 of each value, in hexadecimal, in the order given: what `if_match` of a later write may be."""
    txid: int
    """The database's transaction id after the write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteValuesResponse:
    """What DataService.DeleteValues gives."""
    deleted: int
    """How many keys were there."""
    txid: int
    """The database's transaction id after the deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertDocsResponse:
    """What DataService.InsertDocs gives."""
    ids: Sequence[str]
    """The `_id` of each document, in the order given."""
    txid: int
    """The database's transaction id after the insert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutDocResponse:
    """What DataService.PutDoc gives."""
    created: bool
    """Whether there was no document with this `_id`."""
    hash: str
    """SHA-256 of the document's JSON text as it is stored, in hexadecimal: what `if_match` of a later write may be."""
    txid: int
    """The database's transaction id after the write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetDocResponse:
    """What DataService.GetDoc gives."""
    doc: Mapping[str, Json]
    """The document with its `_id`."""
    hash: str
    """SHA-256 of the document's JSON text as it is stored, in hexadecimal: what `if_match` of a later write may be."""
    txid: int
    """The transaction id of the state that was read."""
    subject: str | None = None
    """Whom the record is about; absent where that was not said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteDocResponse:
    """What DataService.DeleteDoc gives."""
    deleted: bool
    """Whether there was a document with this `_id`."""
    txid: int
    """The database's transaction id after the deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindDocsResponse:
    """What DataService.FindDocs gives."""
    docs: Sequence[Mapping[str, Json]]
    """The documents, each with its `_id`."""
    txid: int
    """The transaction id of the state that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateDocsResponse:
    """What DataService.UpdateDocs gives."""
    matched: int
    """Documents that matched."""
    modified: int
    """Documents that are different now."""
    txid: int
    """The database's transaction id after the update."""
    upserted_id: str | None = None
    """The `_id` of the document that was made, where `upsert` made one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteDocsResponse:
    """What DataService.DeleteDocs gives."""
    deleted: int
    """Documents that were deleted."""
    txid: int
    """The database's transaction id after the deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDocIndexResponse:
    """What DataService.CreateDocIndex gives."""
    indexed: str
    """The path that is indexed now."""
    txid: int
    """The database's transaction id after the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListDocIndexesResponse:
    """What DataService.ListDocIndexes gives."""
    indexes: Sequence[DocIndex]
    """The indexes, at most 32. That of `_id`, which every collection has, is not listed."""
    txid: int
    """The transaction id of the state that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocIndex:
    """One index of a collection."""
    path: str
    """The dot path."""
    multikey: bool
    """Whether a document has, or had, several values there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDocIndexResponse:
    """What DataService.DropDocIndex gives."""
    dropped: bool
    """Whether there was an index on this path."""
    txid: int
    """The database's transaction id after the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListDocCollectionsResponse:
    """What DataService.ListDocCollections gives."""
    collections: Sequence[DocCollection]
    """The collections, by name. Fewer than asked for: these are all."""
    txid: int
    """The transaction id of the state that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocCollection:
    """A collection of documents."""
    name: str
    """Its name."""
    count: int
    """Its documents; one that has more than 100000 is said to have 100001."""
    indexes: int
    """Its indexes, without that of `_id`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountDocsResponse:
    """What DataService.CountDocs gives."""
    count: int
    """The documents that match, at most `limit`."""
    more: bool
    """Whether there are more than `limit`."""
    txid: int
    """The transaction id of the state that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDocsResponse:
    """What DataService.GroupDocs gives."""
    groups: Sequence[DocGroup]
    """The commonest values first, and of equally many those that sort first."""
    distinct: int
    """How many different values there are; more than 100000, or than 16 MiB of them, are `invalid_request`."""
    txid: int
    """The transaction id of the state that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocGroup:
    """One value, and how many documents have it."""
    value: Json
    """The value: elements of an array count each by itself, once a document. Null is also a missing field."""
    count: int
    """The documents that have it: of what is no array, as many as match `{path: value}` beside the filter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertVectorResponse:
    """What DataService.UpsertVector gives."""
    txid: int
    """The database's transaction id after the write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertVectorsResponse:
    """What DataService.UpsertVectors gives."""
    upserted: int
    """How many vectors were given."""
    txid: int
    """The database's transaction id after the write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListVectorsResponse:
    """What DataService.ListVectors gives."""
    vectors: Sequence[VectorItem]
    """The vectors, by id in the order of its bytes."""
    next_cursor: str | None
    """Where the next page begins; null on the last page."""
    txid: int
    """The transaction id of the state that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorItem:
    """A vector of a list."""
    id: str
    """Its id."""
    metadata: Mapping[str, Json] | None = None
    """The metadata that it was stored with; absent when there was none."""
    embedding: Sequence[float] | None = None
    """Its numbers, as of GetVector; absent where they are not asked for."""
    subject: str | None = None
    """Whom the record is about; absent where that was not said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetVectorResponse:
    """What DataService.GetVector gives."""
    id: str
    """Its id."""
    embedding: Sequence[float]
    """Its numbers, to within the rounding of 32-bit floats: direction and length are kept apart."""
    txid: int
    """The transaction id of the state that was read."""
    metadata: Mapping[str, Json] | None = None
    """The metadata that it was stored with; absent when there was none."""
    subject: str | None = None
    """Whom the record is about; absent where that was not said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteVectorsResponse:
    """What DataService.DeleteVectors gives."""
    deleted: int
    """How many vectors were deleted."""
    next_cursor: str | None
    """Where to go on; null when no more vectors meet the filter. A call may delete few or none and have more before it."""
    txid: int
    """The database's transaction id after the delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchVectorsResponse:
    """What DataService.SearchVectors gives."""
    hits: Sequence[VectorHit]
    """The hits, nearest first."""
    txid: int
    """The transaction id of the state that was read."""
    metric: str | None = None
    """The metric that the collection has declared; absent where it has declared none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorHit:
    """One vector found."""
    id: str
    """Its id."""
    distance: float
    """How far it is: by `cosine` from 0, the same direction, to 2, the opposite; by `euclid` the Euclidean distance; by `dot` the negative of the inner product, so that less is nearer throughout."""
    metadata: Mapping[str, Json] | None = None
    """The metadata that it was stored with; absent when there was none."""
    embedding: Sequence[float] | None = None
    """Its numbers; absent where they are not asked for."""
    subject: str | None = None
    """Whom the record is about; absent where that was not said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWritten:
    """A version of a file that a write has made, or that was there already."""
    path: str
    """The path in the form NFC."""
    version: int
    """The number of the version: 1 for the first of a path."""
    hash: str
    """SHA-256 of the text's UTF-8 bytes, in hexadecimal."""
    size: int
    """Bytes of UTF-8."""
    created: bool
    """Whether there was no file at the path."""
    txid: int
    """The database's transaction id after the write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetFileResponse:
    """What FileService.GetFile gives."""
    path: str
    """The path in the form NFC."""
    text: str
    """The text, or the lines that were asked for, with their line feeds."""
    version: int
    """The number of the version."""
    hash: str
    """SHA-256 of the whole text, in hexadecimal."""
    size: int
    """Bytes of the whole text."""
    lines: int
    """Lines of the whole text."""
    updated_at: int
    """When the version was written, Unix milliseconds."""
    txid: int
    """The transaction id of the state that was read."""
    subject: str | None = None
    """Whom the version is about; absent where that was not said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFilesResponse:
    """What FileService.ListFiles gives."""
    entries: Sequence[FileEntry]
    """The entries, by path in the order of its bytes."""
    next_cursor: str | None
    """Where the next page begins; null on the last page."""
    txid: int
    """The transaction id of the state that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A file or a folder of a list."""
    path: str
    """The whole path."""
    kind: str
    """`file` or `folder`; the fields below are a file's."""
    version: int | None = None
    """The number of the present version."""
    hash: str | None = None
    """SHA-256 of the text, in hexadecimal."""
    size: int | None = None
    """Bytes of UTF-8."""
    updated_at: int | None = None
    """When the present version was written, Unix milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveFilesResponse:
    """What FileService.MoveFiles gives."""
    moved: int
    """How many files were moved."""
    txid: int
    """The database's transaction id after the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFilesResponse:
    """What FileService.DeleteFiles gives."""
    deleted: int
    """How many files were deleted."""
    purged_versions: int
    """How many versions were removed with them."""
    txid: int
    """The database's transaction id after the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFileVersionsResponse:
    """What FileService.ListFileVersions gives."""
    versions: Sequence[FileVersion]
    """The versions, newest first; none where the path never had a file."""
    txid: int
    """The transaction id of the state that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVersion:
    """One version of a path."""
    version: int
    """Its number."""
    change: str
    """`written`, `moved_here`, `moved_away` or `deleted`."""
    written_txid: int
    """The transaction that made it."""
    written_at: int
    """When, Unix milliseconds."""
    other_path: str | None = None
    """The path that it was moved from or to."""
    hash: str | None = None
    """SHA-256 of the text, in hexadecimal; absent where the file was moved away or deleted."""
    size: int | None = None
    """Bytes of UTF-8; absent as the hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFilesResponse:
    """What FileService.SearchFiles gives."""
    hits: Sequence[FileHit]
    """The files, best first."""
    txid: int
    """The transaction id of the state that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHit:
    """A file that was found."""
    path: str
    """Its path."""
    score: float
    """Larger is better; not comparable between questions."""
    hash: str
    """SHA-256 of the whole text, in hexadecimal."""
    passage: FilePassage | None = None
    """The lines that say most of what was asked; absent where only the path does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePassage:
    """Some lines of a text."""
    first_line: int
    """The first of them, counted from 1."""
    last_line: int
    """The last of them."""
    text: str
    """What they say, at most 1000 characters, beginning within a line where the line is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateBranchResponse:
    """What BranchService.CreateBranch gives."""
    branch: str
    """The new branch."""
    parent: str
    """The branch it was forked from."""
    fork_txid: int
    """The parent's transaction id at the fork."""
    ttl_at: int | None
    """When the branch ceases to exist, in Unix milliseconds; null without a lifetime."""
    spec: str
    """How to address it: `db@branch`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListBranchesResponse:
    """What BranchService.ListBranches gives."""
    branches: Sequence[Branch]
    """The branches: `main`, then by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch."""
    name: str
    """Its name."""
    parent: str | None
    """The branch it was forked from; null for `main`."""
    fork_txid: int | None
    """The parent's transaction id at the fork; null for `main`."""
    txid: int
    """The branch's current transaction id."""
    created_at: int
    """When it was created, in Unix milliseconds."""
    ttl_at: int | None
    """When it ceases to exist, in Unix milliseconds; null for a branch without a lifetime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffStatesResponse:
    """What BranchService.DiffStates gives."""
    from_: int
    """The transaction id of the earlier state, in its own branch."""
    to: int
    """The transaction id of the later state."""
    differences: Sequence[StateDifference]
    """What differs."""
    next_cursor: str | None
    """Where the next page begins; null on the last page."""
    txid: int
    """The transaction id of the later state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDifference:
    """One difference between two states."""
    kind: str
    """`memory`, `file`, `key`, `turns`, `vector`, `document` or `table`."""
    change: str
    """Of a memory `added`, `superseded`, `forgotten` or `changed` (its state, time of expiry, keywords, metadata or pin); of a file `put`, `moved` or `deleted`; of the others `added`, `removed` or `changed`."""
    name: str
    """The memory's id, the file's path, the key, the session of turns, the id of the vector or document, or the table."""
    within: str | None = None
    """The namespace of a key, or the collection of a vector or a document."""
    moved_to: str | None = None
    """Where a file was moved to."""
    before: int | None = None
    """How many turns the session had, or rows the table had, counted to 1,000,000. A table of as many rows as before is not told."""
    after: int | None = None
    """How many it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCheckpointResponse:
    """What BranchService.CreateCheckpoint gives."""
    checkpoint: str
    """The checkpoint's name."""
    txid: int
    """The transaction id of the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCheckpointsResponse:
    """What BranchService.ListCheckpoints gives."""
    checkpoints: Sequence[Checkpoint]
    """The checkpoints, oldest state first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A named state of a branch."""
    checkpoint: str
    """Its name."""
    txid: int
    """The transaction id of the state."""
    created_at: int
    """When the name was given, in Unix milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindBranchResponse:
    """What BranchService.RewindBranch gives."""
    rewound_to: int
    """The transaction id whose state is back."""
    txid: int
    """The transaction id of the rewind itself, larger than any before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResponse:
    """What TransferService.Import gives."""
    complete: bool
    """Whether the trailer was there, and right: the import is whole."""
    cursor: str | None
    """Give this back with the next lines; null when the import is complete."""
    next_line: int
    """The number of the next line: less than what was sent where the call had no time for all of it."""
    counts: Sequence[ImportCounts]
    """What became of the records, from the first line on; of a dry run, what would become of them."""
    left: Sequence[ImportLeft]
    """Records of this call that were left out, the first 20."""
    errors: Sequence[ImportError]
    """Of a dry run, what is wrong with these lines, the first 20."""
    txid: int
    """The database's transaction id after these lines."""
    checkpoint: str | None = None
    """The checkpoint from before the import; absent while nothing was to be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCounts:
    """How many records of a kind came to which outcome."""
    kind: str
    """The kind of the records, such as `memory`."""
    created: int
    """Written."""
    replaced: int
    """Written in the place of something else under their names."""
    unchanged: int
    """There already, the same."""
    conflicts: int
    """Left out: something else is there under their names, or in their way."""
    duplicates: int
    """Left out: memories that an active one says under another id."""
    expired: int
    """Left out: their time is over."""
    erased: int
    """Left out: they were erased for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportLeft:
    """A record that was left out."""
    line: int
    """Its line, the header being line 1; marks count as lines."""
    kind: str
    """Its kind."""
    outcome: str
    """`conflict`, `duplicate`, `expired` or `erased`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportError:
    """A line that would be refused."""
    line: int
    """Its number, the header being line 1."""
    message: str
    """What is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchResponse:
    """An event of ChangeService.Watch."""
    kind: str
    """`changes`: a transaction. `rewound`: a transaction that put the branch back to the state of `after_txid`; what was told of the transactions between the two is undone. `position`: no transaction, the branch is at `txid`."""
    txid: int
    """The transaction; where to go on after."""
    after_txid: int
    """The state before it; of a rewind, the state that holds again; of a position, `txid` itself."""
    changes: Sequence[Change]
    """What it changed, in the order in which it did; none where it changed nothing that has a name, such as vectors that were made later."""
    partial: bool
    """Whether it changed more than is listed: 1000 changes and 256 KiB of one transaction are."""
    at: int | None = None
    """When it was committed, in Unix milliseconds; of a position absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of a transaction. Which names are there follows from the kind."""
    kind: str
    """`memory` (`id`), `session` (`session_id`), `turn` (`session_id`, `seq`), `kv` (`namespace`, `key`), `doc` and `vector` (`collection`, `id`), `file` (`path`), `sql` (`table`), `erasure` (`id`)."""
    op: str
    """What happened to it. A memory is `proposed`, `reviewed` (approved, which `created` follows, or rejected), `created`, `superseded`, `updated`, `forgotten` or `expired`; a session `ended`; a turn `created` or `deleted`; a value `put`, `deleted` or `expired`; a document `created`, `updated` or `deleted`; a vector `put` or `deleted`; a file `written`, `moved_here`, `moved_away`, `deleted` or `purged`; a table `written` (or made, altered or dropped); an erasure `erased`."""
    id: str | None = None
    """The id of a memory (`mem_…`), a document, a vector, or of the coupon of an erasure (`ers_…`), which says what was erased: the feed does not, and forgets what it has told of it."""
    namespace: str | None = None
    """The namespace of a key."""
    key: str | None = None
    """The key of a value."""
    collection: str | None = None
    """The collection of a document or a vector."""
    session_id: str | None = None
    """The session of a turn, or the one that ended."""
    seq: int | None = None
    """The number of a turn."""
    path: str | None = None
    """The path of a file."""
    table: str | None = None
    """The table that a statement of SQL names as the one that it changes; what triggers and foreign keys change is not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResponse:
    """What ChangeService.Undo gives."""
    undone: int
    """The transaction that was undone."""
    changes: Sequence[Change]
    """What it had changed, as the change feed told it."""
    txid: int
    """The transaction of the undo; of a dry run the state that was looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A webhook."""
    id: str
    """Its id, `whk_…`."""
    branch: str
    """The branch whose transactions it posts."""
    url: str
    """Where they are posted to."""
    state: str
    """`active` or `paused`."""
    position: int
    """The last transaction that it is done with, as far as that is written down: some seconds behind what was posted."""
    created_at: int
    """When it was made, in Unix milliseconds."""
    failures: int
    """How many transactions are in its list of failures."""
    kinds: Sequence[str] | None = None
    """The kinds of changes that it tells of; absent: all."""
    description: str | None = None
    """What it was described as."""
    paused_because: str | None = None
    """Why it is paused: `asked`, or `gone` when the receiver answered 410."""
    trying: WebhookFailure | None = None
    """The transaction that the receiver did not take and that is posted again; absent while there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookFailure:
    """A transaction that a receiver did not take."""
    txid: int
    """The transaction."""
    at: int
    """When it was last tried, in Unix milliseconds."""
    tries: int
    """How often it was tried."""
    reason: str
    """What came of the last try: `status` (the receiver answered something else than 2xx), `timeout`, `connection` (no connection, or one that broke), `tls` (the certificate was not good), `dns` (the host's name has no address), `address` (an address that no webhook may reach), or `policy` (the policy does not let webhooks out)."""
    queued: bool
    """Whether it was given up and waits to be tried once more, as RedeliverWebhook asked."""
    status: int | None = None
    """The HTTP status of the last answer, where there was one."""
    next_at: int | None = None
    """When it is tried again by itself, in Unix milliseconds; absent when it was given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListWebhooksResponse:
    """What WebhookService.ListWebhooks gives."""
    webhooks: Sequence[Webhook]
    """All of them, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestWebhookResponse:
    """What WebhookService.TestWebhook gives."""
    delivered: bool
    """Whether the receiver answered 2xx."""
    took_ms: int
    """How long it took, in milliseconds."""
    reason: str | None = None
    """Why not, as in WebhookFailure.reason."""
    status: int | None = None
    """The HTTP status of the answer, where there was one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListWebhookFailuresResponse:
    """What WebhookService.ListWebhookFailures gives."""
    failures: Sequence[WebhookFailure]
    """The newest first."""
    next_cursor: str | None
    """Where the next page begins; null on the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeliverWebhookResponse:
    """What WebhookService.RedeliverWebhook gives."""
    count: int
    """How many of the list these were."""


CLASSES: Mapping[str, type[Any]] = {
    "DatabaseInfo": DatabaseInfo,
    "ListDatabasesResponse": ListDatabasesResponse,
    "TokenResponse": TokenResponse,
    "NamespacePolicy": NamespacePolicy,
    "ReadAuditResponse": ReadAuditResponse,
    "AuditEvent": AuditEvent,
    "AuditActor": AuditActor,
    "AuditEgress": AuditEgress,
    "AuditGrant": AuditGrant,
    "GetNamespaceUsageResponse": GetNamespaceUsageResponse,
    "ProfileUsage": ProfileUsage,
    "ListProfilesResponse": ListProfilesResponse,
    "Profile": Profile,
    "MemoryInput": MemoryInput,
    "MemoryLinkInput": MemoryLinkInput,
    "IngestResponse": IngestResponse,
    "IngestItem": IngestItem,
    "ListMemoriesResponse": ListMemoriesResponse,
    "Memory": Memory,
    "MemoryExplanation": MemoryExplanation,
    "ChannelExplanation": ChannelExplanation,
    "MemoryLink": MemoryLink,
    "GetHistoryResponse": GetHistoryResponse,
    "MemoryState": MemoryState,
    "ReviewMemoryResponse": ReviewMemoryResponse,
    "ReviewItem": ReviewItem,
    "ForgetMemoriesResponse": ForgetMemoriesResponse,
    "RecallResponse": RecallResponse,
    "Turn": Turn,
    "NearMiss": NearMiss,
    "MissedBar": MissedBar,
    "GetContextResponse": GetContextResponse,
    "ContextSection": ContextSection,
    "AskResponse": AskResponse,
    "ExtractResponse": ExtractResponse,
    "ListSessionsResponse": ListSessionsResponse,
    "Session": Session,
    "ErasureCoupon": ErasureCoupon,
    "ErasureTarget": ErasureTarget,
    "ErasureBlockers": ErasureBlockers,
    "ErasureReceipt": ErasureReceipt,
    "ErasedRecords": ErasedRecords,
    "ListErasuresResponse": ListErasuresResponse,
    "ReembedResponse": ReembedResponse,
    "CalibrateResponse": CalibrateResponse,
    "PairSimilarities": PairSimilarities,
    "ProfilePolicy": ProfilePolicy,
    "AppendTurnResponse": AppendTurnResponse,
    "AppendTurnsResponse": AppendTurnsResponse,
    "AppendedTurn": AppendedTurn,
    "ListTurnsResponse": ListTurnsResponse,
    "DeleteTurnsResponse": DeleteTurnsResponse,
    "ReplaceTurnsResponse": ReplaceTurnsResponse,
    "SearchTurnsResponse": SearchTurnsResponse,
    "ExecuteSqlResponse": ExecuteSqlResponse,
    "SqlResult": SqlResult,
    "SqlError": SqlError,
    "SyncResponse": SyncResponse,
    "ListFacetsResponse": ListFacetsResponse,
    "FacetGroup": FacetGroup,
    "Facet": Facet,
    "ListKeysResponse": ListKeysResponse,
    "ValueEntry": ValueEntry,
    "PutValueResponse": PutValueResponse,
    "GetValuesResponse": GetValuesResponse,
    "PutValuesResponse": PutValuesResponse,
    "DeleteValuesResponse": DeleteValuesResponse,
    "InsertDocsResponse": InsertDocsResponse,
    "PutDocResponse": PutDocResponse,
    "GetDocResponse": GetDocResponse,
    "DeleteDocResponse": DeleteDocResponse,
    "FindDocsResponse": FindDocsResponse,
    "UpdateDocsResponse": UpdateDocsResponse,
    "DeleteDocsResponse": DeleteDocsResponse,
    "CreateDocIndexResponse": CreateDocIndexResponse,
    "ListDocIndexesResponse": ListDocIndexesResponse,
    "DocIndex": DocIndex,
    "DropDocIndexResponse": DropDocIndexResponse,
    "ListDocCollectionsResponse": ListDocCollectionsResponse,
    "DocCollection": DocCollection,
    "CountDocsResponse": CountDocsResponse,
    "GroupDocsResponse": GroupDocsResponse,
    "DocGroup": DocGroup,
    "UpsertVectorResponse": UpsertVectorResponse,
    "UpsertVectorsResponse": UpsertVectorsResponse,
    "ListVectorsResponse": ListVectorsResponse,
    "VectorItem": VectorItem,
    "GetVectorResponse": GetVectorResponse,
    "DeleteVectorsResponse": DeleteVectorsResponse,
    "SearchVectorsResponse": SearchVectorsResponse,
    "VectorHit": VectorHit,
    "FileWritten": FileWritten,
    "GetFileResponse": GetFileResponse,
    "ListFilesResponse": ListFilesResponse,
    "FileEntry": FileEntry,
    "MoveFilesResponse": MoveFilesResponse,
    "DeleteFilesResponse": DeleteFilesResponse,
    "ListFileVersionsResponse": ListFileVersionsResponse,
    "FileVersion": FileVersion,
    "SearchFilesResponse": SearchFilesResponse,
    "FileHit": FileHit,
    "FilePassage": FilePassage,
    "CreateBranchResponse": CreateBranchResponse,
    "ListBranchesResponse": ListBranchesResponse,
    "Branch": Branch,
    "DiffStatesResponse": DiffStatesResponse,
    "StateDifference": StateDifference,
    "CreateCheckpointResponse": CreateCheckpointResponse,
    "ListCheckpointsResponse": ListCheckpointsResponse,
    "Checkpoint": Checkpoint,
    "RewindBranchResponse": RewindBranchResponse,
    "ImportResponse": ImportResponse,
    "ImportCounts": ImportCounts,
    "ImportLeft": ImportLeft,
    "ImportError": ImportError,
    "WatchResponse": WatchResponse,
    "Change": Change,
    "UndoResponse": UndoResponse,
    "Webhook": Webhook,
    "WebhookFailure": WebhookFailure,
    "ListWebhooksResponse": ListWebhooksResponse,
    "TestWebhookResponse": TestWebhookResponse,
    "ListWebhookFailuresResponse": ListWebhookFailuresResponse,
    "RedeliverWebhookResponse": RedeliverWebhookResponse,
}
