"""Recalls by httpx and by the Python client in turn, on the node at argv[1]; see clients.ts."""

from __future__ import annotations

import json
import sys
import time
from typing import Callable

import httpx

from palimpsest import Palimpsest

url, queries, calls, warm_calls = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
db = Palimpsest(url).profile("bench", "clients")
http = httpx.Client()


def raw(query: str) -> object:
    return http.post(f"{url}/v1/memory/bench/clients/recall", json={"query": query, "k": 5}).json()


def client(query: str) -> object:
    return db.recall(query, k=5)


ways: dict[str, Callable[[str], object]] = {"raw": raw, "client": client}
taken: dict[str, list[float]] = {"raw": [], "client": []}
for call in range(-warm_calls, calls):
    query = queries[(call + warm_calls) % len(queries)]
    for way in ("raw", "client") if call % 2 == 0 else ("client", "raw"):
        start = time.perf_counter()
        ways[way](query)
        if call >= 0:
            taken[way].append((time.perf_counter() - start) * 1000)
print(json.dumps(taken))
