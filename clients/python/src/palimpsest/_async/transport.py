"""One call over HTTP: its address and headers, its deadline, its retries, and what is learnt from its answer."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any, AsyncIterator, Callable, Mapping

import httpx

from .. import errors
from .._calls import TIMEOUT, CallOptions, Parts, choose_key, choose_wait, is_safe_as_it_is, to_error, to_url
from .._codec import decode, encode
from .._events import SILENCE_MAX
from .._operation import Operation
from .._seen import SeenTxids
from ._io import AsyncHttpClient, bounded, sleep

Token = "str | Callable[[], str] | None"


class AsyncTransport:
    """A call is made again only where that is safe; no call outlives its deadline."""

    def __init__(
        self,
        url: str,
        *,
        token: str | Callable[[], str] | None,
        timeout: float,
        headers: Mapping[str, str] | None,
        http: AsyncHttpClient | None,
    ) -> None:
        self.seen = SeenTxids()
        self._base = url.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._headers = dict(headers or {})
        self._owns_http = http is None
        self._http = http or AsyncHttpClient()

    async def close(self) -> None:
        if self._owns_http:
            await self._http.aclose()

    async def call(self, operation: Operation, parts: Parts, options: CallOptions | None = None) -> Any:
        """The answer, decoded."""
        response = await self.request(operation, parts, options)
        if operation.answer == "none":
            return None
        if operation.answer == "raw":
            return response.content
        return decode(response.json(), operation.output)

    async def request(self, operation: Operation, parts: Parts, options: CallOptions | None = None) -> httpx.Response:
        """The response of a success, read to its end."""
        return await self._tried(operation, parts, options or CallOptions(), False)

    async def open(self, operation: Operation, parts: Parts, options: CallOptions | None = None) -> httpx.Response:
        """The response of a success once it has begun; who asked for it closes it."""
        return await self._tried(operation, parts, options or CallOptions(), True)

    async def read(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """The bytes of an open response as they come. A connection that breaks or goes silent is ConnectionFailed."""
        try:
            async for more in response.aiter_bytes():
                yield more
        except httpx.TransportError as error:
            raise errors.ConnectionFailed("the stream broke, or went silent") from error

    async def _tried(
        self, operation: Operation, parts: Parts, options: CallOptions, is_stream: bool
    ) -> httpx.Response:
        timeout = options.timeout if options.timeout is not None else self._timeout
        ends_at = time.monotonic() + timeout
        key = choose_key(operation, parts, options)
        options = dataclasses.replace(options, idempotency_key=key)
        is_safe = operation.reads or key is not None or is_safe_as_it_is(operation, parts)
        tries = 0
        while True:
            tries += 1
            left = ends_at - time.monotonic()
            try:
                if left <= 0:
                    raise TimeoutError
                return await bounded(self._attempt(operation, parts, options, left, is_stream), left)
            except (TimeoutError, httpx.TimeoutException) as error:
                if time.monotonic() >= ends_at or not is_safe:
                    raise errors.DeadlineExceeded(f"{operation.id} had no answer in time") from error
            except errors.PalimpsestError as error:
                wait = choose_wait(error, is_safe, tries)
                if wait is None or time.monotonic() + wait >= ends_at:
                    raise
                await sleep(wait)

    async def _attempt(
        self, operation: Operation, parts: Parts, options: CallOptions, left: float, is_stream: bool
    ) -> httpx.Response:
        headers = {**self._headers, **options.headers}
        token = self._token() if callable(self._token) else self._token
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        if options.durability is not None:
            headers["service-durability"] = options.durability
        if options.idempotency_key is not None:
            headers["idempotency-key"] = options.idempotency_key
        if options.consistency in ("cached", "primary"):
            headers["service-consistency"] = options.consistency
        if options.at is not None:
            headers["service-at"] = str(options.at)
        asks_for_seen = options.consistency == "session" and options.at is None and operation.reads
        seen = self.seen.get(parts.branch_name) if asks_for_seen else None
        if seen is not None and operation.tells_txid:
            headers["service-min-txid"] = str(seen)
        content: bytes | None = None
        if operation.body == "json":
            headers["content-type"] = "application/json"
            content = json.dumps(encode(parts.body or {}), separators=(",", ":"), ensure_ascii=False).encode()
        elif operation.body == "raw":
            headers["content-type"] = parts.content_type or "application/octet-stream"
            content = parts.body
        try:
            request = self._http.build_request(
                operation.method,
                self._base + to_url(operation, parts),
                headers=headers,
                content=content,
                timeout=httpx.Timeout(left, read=SILENCE_MAX) if is_stream else left,
            )
            response = await self._http.send(request, stream=is_stream)
            if is_stream and not response.is_success:
                await response.aread()
                await response.aclose()
        except httpx.TimeoutException:
            raise
        except httpx.TransportError as error:
            raise errors.ConnectionFailed("the node cannot be reached, or the connection broke") from error
        txid = response.headers.get("service-txid", "")
        if operation.tells_txid and txid.isdigit():
            self.seen.note(parts.branch_name, int(txid))
        if response.is_success or response.status_code == parts.answer_status:
            return response
        is_lost = seen is not None and operation.reads and response.status_code == 409
        if is_lost:
            self.seen.drop(parts.branch_name)
        raise to_error(operation, response.status_code, response.headers, response.content, is_lost)


__all__ = ["AsyncTransport", "TIMEOUT"]
