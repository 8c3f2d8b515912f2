"""What the Python client does when a call does not go well, on a node at argv[1]; prints a line for each promise kept."""

from __future__ import annotations

import json
import sys
from typing import Callable

import httpx

from palimpsest import CallOptions, Event, Palimpsest, errors

URL = sys.argv[1]


class Through(httpx.BaseTransport):
    """Sends requests to the node, or does with them what a test says."""

    def __init__(self, act: Callable[[int, Callable[[], httpx.Response]], httpx.Response]) -> None:
        self.requests: list[httpx.Request] = []
        self._act = act
        self._inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self._act(len(self.requests), lambda: self._inner.handle_request(request))


def losing(lost: int) -> Callable[[int, Callable[[], httpx.Response]], httpx.Response]:
    """The first answers are lost on their way, after the node has done what was asked."""

    def act(number: int, go: Callable[[], httpx.Response]) -> httpx.Response:
        response = go()
        if number > lost:
            return response
        response.read()
        raise httpx.ReadError("the connection broke")

    return act


def client_through(
    act: Callable[[int, Callable[[], httpx.Response]], httpx.Response], **more: object
) -> tuple[Palimpsest, list[httpx.Request]]:
    through = Through(act)
    return Palimpsest(URL, http=httpx.Client(transport=through), **more), through.requests  # type: ignore[arg-type]


def refusal(status: int, code: str, **headers: str) -> httpx.Response:
    return httpx.Response(status, json={"code": code, "error": "not now"}, headers=headers)


plain = Palimpsest(URL)
plain.profile("calls", "py").remember(Event("it happened"))

client, requests = client_through(losing(2))
turns = client.profile("calls", "py").turns("chat")
turns.append([{"role": "user", "content": "hello"}])
assert len({request.headers.get("idempotency-key") for request in requests}) == 1
assert requests[0].headers["idempotency-key"] and len(list(turns.list())) == 1
print("an append whose answers are lost is there once")

client, requests = client_through(losing(1))
kv = client.profile("calls", "py").kv("k")
kv.put("a", "1")
kv.put("a", "2", if_match=kv.get("a").hash)  # type: ignore[union-attr]
assert ["idempotency-key" in request.headers for request in requests] == [False, False, False, True]
client, requests = client_through(losing(1))
client.profile("calls", "py").kv("k").put_many([{"key": "b", "text": "1", "if_absent": True}])
assert ["idempotency-key" in request.headers for request in requests] == [True, True]
print("a write on a condition has a key")

client, requests = client_through(losing(1))
try:
    client.create_database("py-once")
    raise AssertionError("it was made again")
except errors.ConnectionFailed:
    assert len(requests) == 1
print("what may not be repeated is not")

client, requests = client_through(
    lambda number, go: refusal(429, "overloaded", **{"retry-after": "0"}) if number < 3 else go()
)
client.create_database("py-later")
assert len(requests) == 3
client, requests = client_through(lambda number, go: refusal(429, "overloaded", **{"retry-after": "60"}))
try:
    client.databases(CallOptions(timeout=5))
    raise AssertionError("it was answered")
except errors.Overloaded as error:
    assert (error.code, error.status, error.retry_after, error.operation) == ("overloaded", 429, 60.0, "listDatabases")
    assert len(requests) == 1
print("the node's time to come back is waited for, within the deadline")

writer, _ = client_through(lambda number, go: go())
writer.profile("calls", "seen").remember(Event("it happened"))
token = writer.token()
assert json.loads(token) == {"calls--seen@main": 1}
reader, requests = client_through(lambda number, go: go(), resume=token)
reader.profile("calls", "seen").recall("happened")
reader.profile("calls", "seen").recall("happened", CallOptions(consistency="none"))
assert [request.headers.get("service-min-txid") for request in requests] == ["1", None]
for bad in ("", "[]", "null", '{"a@main": "x"}', '{"a@main": -1}', '{"a@main": true}'):
    try:
        reader.resume(bad)
        raise AssertionError(bad)
    except ValueError:
        pass
print("what was seen goes along, to another process too")

lost, _ = client_through(lambda number, go: refusal(409, "conflict") if number == 1 else go(), resume=token)
try:
    lost.profile("calls", "seen").recall("happened")
    raise AssertionError("nothing was lost")
except errors.LostWrite:
    assert len(lost.profile("calls", "seen").recall("happened").memories) == 1
print("a lost write is said once")

try:
    Palimpsest("http://127.0.0.1:1", token="secret-x").databases(CallOptions(timeout=0.3))
    raise AssertionError("somebody listens")
except errors.ConnectionFailed as error:
    assert "secret-x" not in repr(error) + repr(error.__cause__)
print("where nobody listens is ConnectionFailed")
