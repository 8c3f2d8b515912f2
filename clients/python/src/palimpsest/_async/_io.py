"""What the two kinds of client do differently: to wait, and to end what takes too long."""

from __future__ import annotations

import asyncio
from typing import Awaitable, TypeVar

import httpx

Value = TypeVar("Value")
AsyncHttpClient = httpx.AsyncClient


async def sleep(seconds: float) -> None:
    """Waits."""
    await asyncio.sleep(seconds)


async def bounded(work: Awaitable[Value], seconds: float) -> Value:
    """What the work gives. Raises TimeoutError beyond the time."""
    try:
        return await asyncio.wait_for(work, seconds)
    except asyncio.TimeoutError as error:
        raise TimeoutError from error
