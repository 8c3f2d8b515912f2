"""Lines of an export as they are sent and taken: shared by both kinds of client."""

from __future__ import annotations

import json
from typing import Any, Iterator

PART_BYTES = 2 * 1024 * 1024
"""Bytes of a part that is sent, unless a line has more."""


class LineParts:
    """Pieces of any size as whole lines, about a part at a time."""

    def __init__(self) -> None:
        self._held = bytearray()

    def add(self, piece: bytes) -> Iterator[bytes]:
        """The parts that are whole with this piece."""
        self._held += piece
        while len(self._held) >= PART_BYTES:
            end = self._held.rfind(b"\n", 0, PART_BYTES) + 1
            if end == 0:
                end = self._held.find(b"\n", PART_BYTES) + 1
            if end == 0:
                return
            yield bytes(self._held[:end])
            del self._held[:end]

    def rest(self) -> bytes:
        """What is left at the end."""
        return bytes(self._held)


def cursor_of(part: bytes) -> str | None:
    """The cursor of the mark that ends a part of an export; the last part ends with a trailer."""
    last: dict[str, Any] = json.loads(part[part.rfind(b"\n", 0, len(part) - 1) + 1 :])
    return str(last["cursor"]) if last["kind"] == "mark" else None


def without_lines(part: bytes, count: int) -> bytes:
    """What is behind the lines that the node has taken."""
    start = 0
    for _ in range(count):
        end = part.find(b"\n", start)
        if end < 0:
            return b""
        start = end + 1
    return part[start:]
