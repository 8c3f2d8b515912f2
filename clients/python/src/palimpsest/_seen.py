"""The highest transaction id that this client has seen of each branch, so that it reads its own writes anywhere."""

from __future__ import annotations

import json
import threading
from typing import Any, cast

# A branch takes some 200 bytes; beyond this many the one that was used longest ago is forgotten.
_BRANCHES_MAX = 10_000


class SeenTxids:
    """An id only grows, until it is said to be lost. Threads may share it."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._lock = threading.Lock()

    def get(self, branch: str) -> int | None:
        return self._seen.get(branch)

    def note(self, branch: str, txid: int) -> None:
        with self._lock:
            before = self._seen.pop(branch, -1)
            self._seen[branch] = max(before, txid)
            if len(self._seen) > _BRANCHES_MAX:
                del self._seen[next(iter(self._seen))]

    def drop(self, branch: str) -> None:
        with self._lock:
            self._seen.pop(branch, None)

    def drop_database(self, name: str) -> None:
        with self._lock:
            for branch in [key for key in self._seen if key.startswith(f"{name}@")]:
                del self._seen[branch]

    def to_token(self) -> str:
        with self._lock:
            return json.dumps(self._seen, separators=(",", ":"))

    def resume(self, token: str) -> None:
        read: Any = json.loads(token)
        if not isinstance(read, dict):
            raise ValueError("not a token of a client")
        items = cast("dict[str, Any]", read).items()
        if any(type(txid) is not int or txid < 0 for _, txid in items):
            raise ValueError("not a token of a client")
        for branch, txid in items:
            self.note(branch, txid)
