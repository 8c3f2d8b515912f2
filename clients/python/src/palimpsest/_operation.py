"""What the client must know of an operation to call it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Operation:
    """A row of the table of operations."""

    id: str
    """Its id in the OpenAPI document, such as `listMemories`."""
    method: str
    path: str
    """Such as `/v1/db/{db}/sql`."""
    query: tuple[str, ...] = ()
    """The names of the query parameters."""
    body: Literal["json", "raw", "none"] = "none"
    answer: Literal["json", "raw", "none", "events"] = "none"
    """What a success brings."""
    input: str | None = None
    output: str | None = None
    """The names of the request's and the answer's objects."""
    tells_txid: bool = False
    """Whether it is about a branch, whose transaction id its answers tell."""
    reads: bool = False
    """Whether it changes nothing, so that it can always be repeated."""
    takes_key: bool = False
    """Whether an idempotency key makes it one that can be repeated."""
    is_idempotent: bool = False
    """Whether done twice it leaves what done once leaves."""
