"""A branch as lines of JSON: out in parts, and in again."""

from __future__ import annotations

import dataclasses
from typing import Any, AsyncIterable, AsyncIterator, Mapping, Sequence

from .. import _operations as ops
from .. import _types as t
from .._calls import CallOptions, Parts
from .._lines import LineParts, cursor_of, without_lines
from .scope import AsyncScope

_NAMED_MAX = 20
"""Lines that the answer of a whole import names, of each sort."""


async def export_parts(scope: AsyncScope, options: CallOptions | None) -> AsyncIterator[bytes]:
    """The parts of an export. A state is asked for with the first one, which all others are of."""
    cursor: str | None = None
    while True:
        part: bytes = await scope.call(ops.EXPORT, Parts(query={"cursor": cursor}), options)
        yield part
        cursor = cursor_of(part)
        if cursor is None:
            return
        if options is not None:
            options = dataclasses.replace(options, at=None)


async def import_lines(
    scope: AsyncScope,
    lines: bytes | Sequence[bytes] | AsyncIterable[bytes],
    query: Mapping[str, Any],
    options: CallOptions | None,
) -> t.ImportResponse:
    """Sends the lines, some at a time, and gives the last answer with what the calls before it named."""
    sender = _Sender(scope, query, options)
    parts = LineParts()
    if isinstance(lines, bytes):
        for part in parts.add(lines):
            await sender.send(part)
    elif isinstance(lines, Sequence):
        for piece in lines:
            for part in parts.add(piece):
                await sender.send(part)
    else:
        async for piece in lines:
            for part in parts.add(piece):
                await sender.send(part)
    await sender.send(parts.rest())
    return await sender.end()


class _Sender:
    """The calls of one import."""

    def __init__(self, scope: AsyncScope, query: Mapping[str, Any], options: CallOptions | None) -> None:
        self._scope = scope
        self._query = query
        self._options = options
        self._answer: t.ImportResponse | None = None
        self._left: list[t.ImportLeft] = []
        self._errors: list[t.ImportError] = []

    async def send(self, part: bytes) -> None:
        while part:
            if self._answer is not None and self._answer.complete:
                raise ValueError("there are lines behind the trailer of the export")
            line = 1 if self._answer is None else self._answer.next_line
            answer = await self._call(part)
            part = without_lines(part, answer.next_line - line)

    async def end(self) -> t.ImportResponse:
        answer = self._answer or await self._call(b"")
        return dataclasses.replace(answer, left=self._left, errors=self._errors)

    async def _call(self, part: bytes) -> t.ImportResponse:
        cursor = None if self._answer is None else self._answer.cursor
        parts = Parts(query={**self._query, "cursor": cursor}, body=part, content_type="application/x-ndjson")
        answer: t.ImportResponse = await self._scope.call(ops.IMPORT, parts, self._options)
        self._left += answer.left[: _NAMED_MAX - len(self._left)]
        self._errors += answer.errors[: _NAMED_MAX - len(self._errors)]
        self._answer = answer
        return answer
