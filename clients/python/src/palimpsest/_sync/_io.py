"""What the two kinds of client do differently: to wait, and to end what takes too long."""

from __future__ import annotations

import time
from typing import TypeVar

import httpx

Value = TypeVar("Value")
HttpClient = httpx.Client


def sleep(seconds: float) -> None:
    """Waits."""
    time.sleep(seconds)


def bounded(work: Value, seconds: float) -> Value:
    """What the work gave: here the time is httpx's to hold, as the request carries it."""
    return work
