"""The program of test/support/failing-over.ts on the Python client: a node's address and a database are its arguments."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from palimpsest import CallOptions, Palimpsest, errors

COUNT = 60
REST_AT = 40

client = Palimpsest(sys.argv[1], timeout=60)
db = client.database(sys.argv[2])
turns = db.turns("chat")
told: list[Any] = []
lost: list[Any] = []
until = sys.maxsize
failure: list[BaseException] = []


def follow() -> None:
    while True:
        try:
            for event in db.watch(after=0):
                if event.kind != "position":
                    created = [change.seq for change in event.changes if change.op == "created" and change.kind == "turn"]
                    told.append([event.after_txid, event.txid, created])
                if event.txid >= until:
                    return
        except errors.Conflict:
            lost.append(list(told))
            told.clear()


def follow_noting() -> None:
    try:
        follow()
    except BaseException as error:
        failure.append(error)
        raise


following = threading.Thread(target=follow_noting)
following.start()
durable = CallOptions(durability="durable")
stale: list[int] = []
for n in range(COUNT):
    if n == REST_AT:
        print("resting", flush=True)
        sys.stdin.readline()
    content = f"turn {n}"
    turns.append([{"role": "user", "content": content}], durable)
    if [turn.content for turn in turns.last(1)] != [content]:
        stale.append(n)
    print(f"wrote {n}", flush=True)
kept = [turn.content for turn in turns.list()]
until = max(json.loads(client.token()).values())
# The one transaction more is told to whoever has been told all others already.
db.kv("end").put("end", "", durable)
following.join()
assert not failure, failure
print(json.dumps({"kept": kept, "stale": stale, "told": told, "lost": lost}), flush=True)
