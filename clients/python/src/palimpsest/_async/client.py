"""The client: the way to databases, profiles and namespaces, and what a node says of itself."""

from __future__ import annotations

import dataclasses
from typing import Any, AsyncIterator, Callable, Mapping, Sequence

from typing_extensions import Self, Unpack

from .. import _operations as ops
from .. import _types as t
from .._calls import TIMEOUT, CallOptions, Parts
from ._io import AsyncHttpClient
from .database import AsyncDatabase
from .profile import AsyncProfile
from .transport import AsyncTransport


class AsyncNamespace:
    """A namespace: its profiles, tokens, policy and audit stream."""

    def __init__(self, transport: AsyncTransport, ns: str) -> None:
        self._transport = transport
        self._path = {"ns": ns}

    async def profiles(
        self, options: CallOptions | None = None, /, **query: Unpack[t.ListProfilesQuery]
    ) -> AsyncIterator[t.Profile]:
        """The profiles, by name or by their last activity."""
        cursor: str | None = None
        while True:
            parts = dataclasses.replace(self._parts(), query={**query, "cursor": cursor})
            page: t.ListProfilesResponse = await self._transport.call(ops.LIST_PROFILES, parts, options)
            for profile in page.profiles:
                yield profile
            cursor = page.next_cursor
            if cursor is None:
                return

    async def usage(
        self, options: CallOptions | None = None, /, **query: Unpack[t.GetNamespaceUsageQuery]
    ) -> t.GetNamespaceUsageResponse:
        """What the namespace's profiles take in object storage, a page of them at a time."""
        parts = dataclasses.replace(self._parts(), query=query)
        return await self._transport.call(ops.GET_NAMESPACE_USAGE, parts, options)

    async def mint_token(
        self, options: CallOptions | None = None, /, **request: Unpack[t.MintNamespaceTokenRequest]
    ) -> t.TokenResponse:
        """Mints a token for every profile of the namespace."""
        return await self._transport.call(ops.MINT_NAMESPACE_TOKEN, self._parts(request), options)

    async def revoke_token(self, jti: str, options: CallOptions | None = None) -> None:
        """Revokes a token by its id."""
        parts = Parts(path={**self._path, "jti": jti})
        await self._transport.call(ops.REVOKE_NAMESPACE_TOKEN, parts, options)

    async def policy(self, options: CallOptions | None = None) -> t.NamespacePolicy:
        """The namespace's policy."""
        return await self._transport.call(ops.GET_NAMESPACE_POLICY, self._parts(), options)

    async def put_policy(
        self, policy: Mapping[str, Any] | None, options: CallOptions | None = None
    ) -> t.NamespacePolicy:
        """Replaces the namespace's policy, or clears it with None."""
        return await self._transport.call(ops.PUT_NAMESPACE_POLICY, self._parts({"policy": policy}), options)

    async def audit(
        self, options: CallOptions | None = None, /, **query: Unpack[t.ReadAuditQuery]
    ) -> AsyncIterator[t.AuditEvent]:
        """What was done in the namespace."""
        cursor: str | None = None
        while True:
            parts = dataclasses.replace(self._parts(), query={**query, "cursor": cursor})
            page: t.ReadAuditResponse = await self._transport.call(ops.READ_AUDIT, parts, options)
            for event in page.events:
                yield event
            cursor = page.next_cursor
            if cursor is None:
                return

    def _parts(self, body: Any = None) -> Parts:
        return Parts(path=self._path, body=body)


class AsyncPalimpsest:
    """A client of a node, or of what stands before several. Threads and tasks may share it."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        token: str | Callable[[], str] | None = None,
        timeout: float = TIMEOUT,
        headers: Mapping[str, str] | None = None,
        resume: str | None = None,
        http: AsyncHttpClient | None = None,
    ) -> None:
        """`token`: the credential, or what gives it before each call. `timeout`: seconds that a call takes at most.
        `resume`: what `token()` of another client gave. `http`: an httpx client of the caller's, who closes it.
        """
        self._transport = AsyncTransport(url, token=token, timeout=timeout, headers=headers, http=http)
        if resume is not None:
            self.resume(resume)

    async def close(self) -> None:
        """Closes the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def profile(self, namespace: str, name: str) -> AsyncProfile:
        """The memories of one agent or user; the first memory makes the profile."""
        return AsyncProfile(self._transport, f"{namespace}--{name}")

    def database(self, name: str) -> AsyncDatabase:
        """A database by its name, also that of a profile (`acme--alice`)."""
        return AsyncDatabase(self._transport, name)

    def namespace(self, name: str) -> AsyncNamespace:
        """A namespace of profiles."""
        return AsyncNamespace(self._transport, name)

    def token(self) -> str:
        """What this client has seen of each branch, for `resume`: it names branches and holds no secret."""
        return self._transport.seen.to_token()

    def resume(self, token: str) -> None:
        """From now on this client reads what the one that gave the token had written and seen. Raises ValueError."""
        self._transport.seen.resume(token)

    async def create_database(self, name: str, options: CallOptions | None = None) -> AsyncDatabase:
        """Creates a database; a profile's is made by its first memory. Wants the platform key."""
        await self._transport.call(ops.CREATE_DATABASE, Parts(body={"name": name}), options)
        return self.database(name)

    async def databases(self, options: CallOptions | None = None) -> Sequence[t.DatabaseInfo]:
        """All databases, by name. Wants the platform key."""
        answer: t.ListDatabasesResponse = await self._transport.call(ops.LIST_DATABASES, Parts(), options)
        return answer.databases

    async def delete_database(self, name: str, options: CallOptions | None = None) -> None:
        """Deletes a database with all its branches. Wants the platform key."""
        await self._transport.call(ops.DELETE_DATABASE, Parts(path={"db": name}), options)
        self._transport.seen.drop_database(name)

    async def mint_token(
        self, database: str, options: CallOptions | None = None, /, **request: Unpack[t.MintDatabaseTokenRequest]
    ) -> t.TokenResponse:
        """Mints a token for one database."""
        parts = Parts(path={"db": database}, body=request)
        return await self._transport.call(ops.MINT_DATABASE_TOKEN, parts, options)

    async def revoke_token(self, database: str, jti: str, options: CallOptions | None = None) -> None:
        """Revokes a token of a database by its id."""
        await self._transport.call(ops.REVOKE_DATABASE_TOKEN, Parts(path={"db": database, "jti": jti}), options)

    async def health(self, options: CallOptions | None = None) -> None:
        """Returns where the node's process answers."""
        await self._transport.call(ops.HEALTH, Parts(), options)

    async def ready(self, options: CallOptions | None = None) -> Mapping[str, Any]:
        """Whether the node can serve now (`ready`), and what its `checks` say; one that cannot is no error here."""
        return await self._transport.call(ops.READY, Parts(answer_status=503), options)

    async def keys(self, options: CallOptions | None = None) -> Sequence[Mapping[str, Any]]:
        """The node's public keys: they prove tokens and receipts of erasures."""
        return (await self._transport.call(ops.JWKS, Parts(), options))["keys"]

    async def llms(self, options: CallOptions | None = None) -> str:
        """The list of the documents for models, as Markdown (llmstxt.org)."""
        return (await self._transport.call(ops.LLMS, Parts(), options)).decode()

    async def openapi(self, options: CallOptions | None = None) -> Mapping[str, Any]:
        """The node's OpenAPI document."""
        return await self._transport.call(ops.OPENAPI, Parts(), options)
