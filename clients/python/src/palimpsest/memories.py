"""Memories as callers write them."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ._types import MemoryInputDict


def _memory(kind: str, summary: str, content: Any, given: Mapping[str, Any]) -> MemoryInputDict:
    fields = {name: value for name, value in given.items() if value is not None}
    return MemoryInputDict(type=kind, summary=summary, content=content, **fields)  # pyright: ignore


def Fact(
    summary: str,
    *,
    topic_key: str | None = None,
    content: Any = None,
    keywords: str | None = None,
    session_id: str | None = None,
    source: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    embedding: Sequence[float] | None = None,
    pinned: bool | None = None,
    **more: Any,
) -> MemoryInputDict:
    """Something that holds; on a topic it supersedes the fact before."""
    given = {**more, "topic_key": topic_key, "keywords": keywords, "session_id": session_id, "source": source}
    return _memory("fact", summary, content, {**given, "metadata": metadata, "embedding": embedding, "pinned": pinned})


def Instruction(
    summary: str,
    *,
    topic_key: str | None = None,
    content: Any = None,
    keywords: str | None = None,
    session_id: str | None = None,
    source: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    embedding: Sequence[float] | None = None,
    pinned: bool | None = None,
    **more: Any,
) -> MemoryInputDict:
    """How the agent is to act; on a topic it supersedes the instruction before."""
    given = {**more, "topic_key": topic_key, "keywords": keywords, "session_id": session_id, "source": source}
    fields = {**given, "metadata": metadata, "embedding": embedding, "pinned": pinned}
    return _memory("instruction", summary, content, fields)


def Event(
    summary: str,
    *,
    content: Any = None,
    keywords: str | None = None,
    session_id: str | None = None,
    source: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    embedding: Sequence[float] | None = None,
    pinned: bool | None = None,
    **more: Any,
) -> MemoryInputDict:
    """Something that happened."""
    given = {**more, "keywords": keywords, "session_id": session_id, "source": source}
    return _memory("event", summary, content, {**given, "metadata": metadata, "embedding": embedding, "pinned": pinned})


def Task(
    summary: str,
    *,
    ttl: int | None = None,
    content: Any = None,
    keywords: str | None = None,
    session_id: str | None = None,
    source: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    pinned: bool | None = None,
    **more: Any,
) -> MemoryInputDict:
    """Something to do; it goes by itself `ttl` seconds after it was stored, a day by default."""
    given = {**more, "ttl": ttl, "keywords": keywords, "session_id": session_id, "source": source}
    return _memory("task", summary, content, {**given, "metadata": metadata, "pinned": pinned})
