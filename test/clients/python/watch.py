"""The change feed through the Python client on a node at argv[1], both kinds of it: streams that are cut, refused or
closed. Prints a line for each thing that held."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from typing import Any, AsyncIterator, Callable, Iterator

import httpx

from palimpsest import AsyncPalimpsest, CallOptions, Palimpsest, errors
from palimpsest._events import EventReader

URL = sys.argv[1]
EVENTS = {"content-type": "text/event-stream"}


def refusal(code: str) -> bytes:
    return b"event: error\ndata: " + json.dumps({"error": "it ended", "code": code}).encode() + b"\n\n"


class Cut(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The bytes of a response up to a number, then a connection that broke."""

    def __init__(self, stream: Any, left: int) -> None:
        self.stream, self.left, self.is_closed = stream, left, False

    def _take(self, chunk: bytes) -> bytes:
        taken = chunk[: self.left]
        self.left -= len(chunk)
        return taken

    def _check(self) -> None:
        if self.left <= 0:
            raise httpx.ReadError("cut")

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self.stream:
            yield self._take(chunk)
            self._check()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self.stream:
            yield self._take(chunk)
            self._check()

    def close(self) -> None:
        self.is_closed = True
        self.stream.close()

    async def aclose(self) -> None:
        self.is_closed = True
        await self.stream.aclose()


Bend = Callable[[int], "httpx.Response | int"]


class Through(httpx.HTTPTransport):
    """Gives the responses that `bend` makes, or cuts the node's after as many bytes as it says."""

    def __init__(self, bend: Bend) -> None:
        super().__init__()
        self.bend, self.asked, self.cuts = bend, [], []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/changes"):
            return super().handle_request(request)
        self.asked.append(request.url.query.decode())
        bent = self.bend(len(self.asked))
        if isinstance(bent, httpx.Response):
            return bent
        response = super().handle_request(request)
        self.cuts.append(Cut(response.stream, bent))
        return httpx.Response(response.status_code, headers=response.headers, stream=self.cuts[-1])


class AsyncThrough(httpx.AsyncHTTPTransport):
    def __init__(self, bend: Bend) -> None:
        super().__init__()
        self.bend, self.asked, self.cuts = bend, [], []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.query.decode())
        bent = self.bend(len(self.asked))
        if isinstance(bent, httpx.Response):
            return bent
        response = await super().handle_async_request(request)
        self.cuts.append(Cut(response.stream, bent))
        return httpx.Response(response.status_code, headers=response.headers, stream=self.cuts[-1])


plain = Palimpsest(URL)
name = "py-watched"
writer = plain.create_database(name)
for n in range(1, 13):
    writer.kv("n").put(f"key-{n}", "x")
PAIRS = [(n - 1, n) for n in range(1, 13)]


def check(events: list[Any], through: Any) -> None:
    assert [event.kind for event in events] == ["position"] + ["changes"] * 12
    assert [(event.after_txid, event.txid) for event in events[1:]] == PAIRS
    assert [event.changes[0].key for event in events[1:]] == [f"key-{n}" for n in range(1, 13)]
    assert len(set(through.asked)) > 2, through.asked
    assert all(cut.is_closed for cut in through.cuts)


def take(events: Any, txid: int) -> list[Any]:
    told: list[Any] = []
    with contextlib.closing(events):
        for event in events:
            told.append(event)
            if event.txid >= txid:
                break
    return told


through = Through(lambda number: 100 + number * 150)
client = Palimpsest(URL, http=httpx.Client(transport=through))
check(take(client.database(name).watch(after=0), 12), through)
assert json.loads(client.token()) == {f"{name}@main": 12}
print("a stream that is cut goes on behind its last event")


async def asynchronously() -> None:
    through = AsyncThrough(lambda number: 100 + number * 150)
    async with httpx.AsyncClient(transport=through) as http:
        events = AsyncPalimpsest(URL, http=http).database(name).watch(after=0)
        told: list[Any] = []
        async with contextlib.aclosing(events):
            async for event in events:
                told.append(event)
                if event.txid >= 12:
                    break
        check(told, through)
        # A task that waits for the next event ends when it is cancelled, and its stream with it.
        through.bend = lambda number: sys.maxsize
        waiting = asyncio.create_task(AsyncPalimpsest(URL, http=http).database(name).watch(after=12).__anext__())
        assert (await waiting).kind == "position"
        events = AsyncPalimpsest(URL, http=http).database(name).watch(after=12)
        await events.__anext__()
        waiting = asyncio.create_task(events.__anext__())
        await asyncio.sleep(0.05)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        assert waiting.cancelled() and through.cuts[-1].is_closed


asyncio.run(asynchronously())
print("so does one that is awaited, and ends when its task is cancelled")

steps: list[httpx.Response | int] = [
    httpx.Response(502, text="<html>"),
    httpx.Response(200, headers=EVENTS, content=b""),
    httpx.Response(200, headers=EVENTS, content=b": hello\n\n" + refusal("unavailable")),
    httpx.Response(200, headers=EVENTS, content=refusal("unauthorized")),
    sys.maxsize,
]
through = Through(lambda number: steps[number - 1])
client = Palimpsest(URL, http=httpx.Client(transport=through))
assert [event.txid for event in take(client.database(name).watch(after=0), 1)] == [0, 1]
assert len(through.asked) == len(steps)
print("it goes on after passing refusals")

position = b'data: {"kind":"position","txid":3,"after_txid":3,"changes":[],"partial":false}\r\n\r\n'
for code, kind in (("conflict", errors.Conflict), ("database_not_found", errors.DatabaseNotFound)):
    content = position + refusal(code)
    client = Palimpsest(URL, http=httpx.Client(transport=Through(lambda number: httpx.Response(200, content=content))))
    events = client.database(name).watch()
    assert next(events).txid == 3
    try:
        next(events)
        raise AssertionError("it went on")
    except kind as error:
        assert (error.code, str(error), error.operation) == (code, "it ended", "watch")
print("it raises what it cannot go on after, behind what came before it")

events = Palimpsest("http://127.0.0.1:1").database(name).watch(CallOptions(timeout=0.3))
try:
    next(events)
    raise AssertionError("somebody listens")
except errors.ConnectionFailed:
    pass
print("it gives up when its time is over")

reader = EventReader()
try:
    for _ in range(5):
        reader.feed(b"x" * 1024 * 1024)
    raise AssertionError("an event without an end was taken")
except ValueError:
    pass
print("an event that does not end is given up")
