"""Server-sent events (the HTML standard's `text/event-stream`) out of the bytes of an answer, and what follows from how
a stream of changes ended: shared by both kinds of client.

An event is given whole or not at all, and only the unfinished one is held, up to EVENT_BYTES_MAX.
"""

from __future__ import annotations

import json
import random
import re
import time
from typing import Any, Iterator

import httpx

from . import errors
from . import _operations as ops
from ._calls import to_error
from ._codec import decode

WATCH_TIMEOUT = 60.0
"""Seconds within which a stream that was cut must go on; longer than another node takes to take over."""
SILENCE_MAX = 45.0
"""A node says something every 15 s; a stream that is silent for longer has lost its node."""
OPEN_MAX = 10.0
"""A stream begins at once, or somewhere else."""
EVENT_BYTES_MAX = 4 * 1024 * 1024
"""A node's events stay below 2 MiB: 256 KiB of names, escaped. What is longer is none of a node."""
_BACK_OFF_FIRST = 0.05
_BACK_OFF_MAX = 2.0

_END = re.compile(rb"\r?\n\r?\n")
_LINE = re.compile(rb"\r?\n")


class Ended(Exception):
    """A refusal that came inside a stream, which was open until then."""

    def __init__(self, refusal: errors.RefusedError) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class EventReader:
    """Takes bytes, gives the events that they complete: the name of each, and its data."""

    def __init__(self) -> None:
        self._bytes = b""

    def feed(self, more: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Raises ValueError where an event does not end."""
        # What has been looked at holds no end, but may hold half of one.
        looked_at = max(0, len(self._bytes) - 3)
        self._bytes += more
        events: list[tuple[bytes, bytes]] = []
        begin = 0
        for end in _END.finditer(self._bytes, looked_at):
            event = _read_event(self._bytes[begin : end.start()])
            if event is not None:
                events.append(event)
            begin = end.end()
        self._bytes = self._bytes[begin:]
        if len(self._bytes) > EVENT_BYTES_MAX:
            raise ValueError(f"an event is longer than {EVENT_BYTES_MAX} bytes")
        return iter(events)


def _read_event(block: bytes) -> tuple[bytes, bytes] | None:
    """None for a block without data, as a comment that keeps a connection open is."""
    name = b"message"
    data: list[bytes] = []
    for line in _LINE.split(block):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            name = value
        elif field == b"data":
            data.append(value)
    return (name, b"\n".join(data)) if data else None


def read_change(event: tuple[bytes, bytes]) -> Any:
    """The message of an event. Raises Ended at the one that says why the stream ends."""
    name, data = event
    if name == b"error":
        # The stream's status was that of a success.
        raise Ended(to_error(ops.WATCH, 200, httpx.Headers(), data, False))
    return decode(json.loads(data), ops.WATCH.output)


class Course:
    """How far a sequence of changes is, and when it is to be given up."""

    def __init__(self, after: int | None, timeout: float) -> None:
        self.after = after
        self._timeout = timeout
        self._has_begun = False
        self._is_cut = False
        self._cut: Exception | None = None
        self._back_off = _BACK_OFF_FIRST
        self._ends_at = time.monotonic() + timeout

    @property
    def within(self) -> float:
        """Seconds for the stream to begin."""
        self._is_cut = False
        return min(OPEN_MAX, self._ends_at - time.monotonic())

    def take(self, event: Any) -> bool:
        """Whether the event is a new one; then it is where to go on after."""
        if event.kind == "position":
            is_told = self._has_begun
        else:
            is_told = self.after is not None and event.txid <= self.after
        self._has_begun = self._is_cut = True
        if not is_told:
            self._back_off = _BACK_OFF_FIRST
            self.after = event.txid
        return not is_told

    def choose_wait(self, error: Exception) -> float:
        """Seconds until the stream is opened again. Raises the error where it must not be."""
        cut = error.refusal if isinstance(error, Ended) else error
        passing: tuple[type[Exception], ...] = (
            errors.Unavailable,
            errors.Overloaded,
            errors.RequestTimeout,
            errors.ConnectionFailed,
            errors.DeadlineExceeded,
        )
        if isinstance(error, Ended):
            # A credential that is asked for anew may mend it.
            passing = (*passing, errors.Unauthorized, errors.Forbidden)
        if not isinstance(cut, passing):
            raise cut
        # That there was no time left says less than what the time before went by with.
        if self._is_cut or self._cut is None or not isinstance(cut, errors.DeadlineExceeded):
            self._cut = cut
        if self._is_cut:
            self._ends_at = time.monotonic() + self._timeout
        wait = self._back_off * (0.5 + random.random() / 2)
        if time.monotonic() + wait >= self._ends_at:
            raise self._cut
        self._back_off = min(_BACK_OFF_MAX, self._back_off * 2)
        return wait
