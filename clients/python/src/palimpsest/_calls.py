"""What a call is made of, whether it may be made again, and what a refusal says: shared by both kinds of client."""

from __future__ import annotations

import json
import random
import uuid
from dataclasses import dataclass, field
from typing import Any, Iterable, Literal, Mapping, Sequence, cast
from urllib.parse import quote

import httpx

from . import errors
from ._operation import Operation

TIMEOUT = 30.0
"""Seconds that a call takes at most, by default."""
RECALL_TIMEOUT = 10.0
"""A recall is to be quick or not at all."""
TRIES_MAX = 10
"""Tries of one call at most, whatever its deadline."""
_BACK_OFF_FIRST = 0.1
_BACK_OFF_MAX = 3.0

Consistency = Literal["session", "none", "cached", "primary"]


@dataclass(frozen=True, slots=True)
class CallOptions:
    """What can be said of any call."""

    timeout: float | None = None
    """Seconds that the call takes at most, retries included. Default: that of the client."""
    consistency: Consistency = "session"
    """`session`: a read comes from a state that has all this client wrote and saw. `none`: from any state. `cached`:
    from a copy that may be some seconds old. `primary`: from the writer's newest state."""
    at: str | int | None = None
    """A read of an earlier state: a transaction id, the name of a checkpoint, or a time such as `2026-01-31T12:00:00Z`.
    Such a read does not ask for what this client has seen."""
    durability: Literal["durable"] | None = None
    """`durable`: a write is answered once object storage holds it."""
    idempotency_key: str | None = None
    """The key by which a write that is made again is known. By default the client makes one where it needs one."""
    headers: Mapping[str, str] = field(default_factory=lambda: {})
    """Further headers."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a call is about."""

    path: Mapping[str, str] = field(default_factory=lambda: {})
    query: Mapping[str, Any] = field(default_factory=lambda: {})
    body: Any = None
    content_type: str | None = None
    database: str = ""
    branch: str | None = None
    answer_status: int | None = None
    """A status beside success whose body is an answer too."""

    @property
    def branch_name(self) -> str:
        return self.database if self.branch is None else f"{self.database}@{self.branch}"


def to_url(operation: Operation, parts: Parts) -> str:
    """The path with its query."""
    path = operation.path
    for name, value in parts.path.items():
        if value == "":
            raise ValueError(f"{name} must not be empty")
        path = path.replace("{" + name + "}", quote(value, safe=""))
    query = httpx.QueryParams(list(_flat(operation, parts.query)))
    return f"{path}?{query}" if query else path


def _flat(operation: Operation, query: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in query.items():
        wire = name.removesuffix("_")
        if value is None or wire not in operation.query:
            continue
        for one in cast("list[Any]", value) if isinstance(value, (list, tuple)) else [value]:
            yield wire, _to_text(one)


def join_words(words: str | Sequence[str]) -> str | None:
    """A list as the query has it that takes one, separated by commas; None for an empty one."""
    return (words if isinstance(words, str) else ",".join(words)) or None


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, dict) else str(value)


def is_safe_as_it_is(operation: Operation, parts: Parts) -> bool:
    """Whether the call leaves the same when it is done twice: what depends on a condition does not."""
    return operation.is_idempotent and not _is_conditional(parts.query) and not _is_conditional(parts.body)


def _is_conditional(part: Any, deep: bool = True) -> bool:
    if not isinstance(part, dict):
        return False
    fields = cast("dict[str, Any]", part)
    if fields.get("if_match") is not None or fields.get("if_absent"):
        return True
    lists = [cast("list[Any]", value) for value in fields.values() if isinstance(value, (list, tuple))]
    return deep and any(_is_conditional(item, False) for items in lists for item in items)


def choose_key(operation: Operation, parts: Parts, options: CallOptions) -> str | None:
    """The caller's key, or one of the client's where a call could not be made again without."""
    if options.idempotency_key is not None or not operation.takes_key:
        return options.idempotency_key
    return None if is_safe_as_it_is(operation, parts) else str(uuid.uuid4())


def choose_wait(error: Exception, is_safe: bool, tries: int) -> float | None:
    """Seconds until the call is made again; None where it must not be."""
    if tries >= TRIES_MAX:
        return None
    back_off = min(_BACK_OFF_MAX, _BACK_OFF_FIRST * 2 ** (tries - 1)) * (0.5 + random.random() / 2)
    if isinstance(error, errors.ConnectionFailed):
        return back_off if is_safe else None
    # A node that is overloaded has refused before it did anything; one that is unavailable may have done its part.
    if isinstance(error, errors.Overloaded) or (
        is_safe and isinstance(error, (errors.Unavailable, errors.RequestTimeout))
    ):
        return max(error.retry_after or 0.0, back_off)
    return None


def to_error(operation: Operation, status: int, headers: httpx.Headers, body: bytes, is_lost: bool) -> errors.RefusedError:
    """The error of an answer that is no success."""
    said: dict[str, Any] = {}
    try:
        read: Any = json.loads(body)
        said = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
    except ValueError:
        pass  # Not a node's own words: something between has answered.
    seconds = headers.get("retry-after", "")
    code = str(said.get("code") or _to_code(status))
    made = errors.LostWrite if is_lost and code == "conflict" else errors.CLASSES.get(code, errors.RefusedError)
    return made(
        str(said.get("error") or f"HTTP {status} without a reason"),
        code=code,
        status=status,
        retry_after=float(seconds) if seconds.isdigit() else None,
        operation=operation.id,
    )


def _to_code(status: int) -> str:
    """The code of a status that came without one, from what stands before the node."""
    known = {401: "unauthorized", 403: "forbidden", 404: "not_found", 413: "payload_too_large", 429: "overloaded"}
    if status in (502, 503, 504):
        return "unavailable"
    return known.get(status, "invalid_request" if status < 500 else "internal")
