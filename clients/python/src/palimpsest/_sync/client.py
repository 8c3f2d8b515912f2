# Made from the module of the same name in _async by `npm run generate`; do not edit.
"""The client: the way to databases, profiles and namespaces, and what a node says of itself."""

from __future__ import annotations

import dataclasses
from typing import Any, Iterator, Callable, Mapping, Sequence

from typing_extensions import Self, Unpack

from .. import _operations as ops
from .. import _types as t
from .._calls import TIMEOUT, CallOptions, Parts
from ._io import HttpClient
from .database import Database
from .profile import Profile
from .transport import Transport


class Namespace:
    """A namespace: its profiles, tokens, policy and audit stream."""

    def __init__(self, transport: Transport, ns: str) -> None:
        self._transport = transport
        self._path = {"ns": ns}

    def profiles(
        self, options: CallOptions | None = None, /, **query: Unpack[t.ListProfilesQuery]
    ) -> Iterator[t.Profile]:
        """The profiles, by name or by their last activity."""
        cursor: str | None = None
        while True:
            parts = dataclasses.replace(self._parts(), query={**query, "cursor": cursor})
            page: t.ListProfilesResponse = self._transport.call(ops.LIST_PROFILES, parts, options)
            for profile in page.profiles:
                yield profile
            cursor = page.next_cursor
            if cursor is None:
                return

    def usage(
        self, options: CallOptions | None = None, /, **query: Unpack[t.GetNamespaceUsageQuery]
    ) -> t.GetNamespaceUsageResponse:
        """What the namespace's profiles take in object storage, a page of them at a time."""
        parts = dataclasses.replace(self._parts(), query=query)
        return self._transport.call(ops.GET_NAMESPACE_USAGE, parts, options)

    def mint_token(
        self, options: CallOptions | None = None, /, **request: Unpack[t.MintNamespaceTokenRequest]
    ) -> t.TokenResponse:
        """Mints a token for every profile of the namespace."""
        return self._transport.call(ops.MINT_NAMESPACE_TOKEN, self._parts(request), options)

    def revoke_token(self, jti: str, options: CallOptions | None = None) -> None:
        """Revokes a token by its id."""
        parts = Parts(path={**self._path, "jti": jti})
        self._transport.call(ops.REVOKE_NAMESPACE_TOKEN, parts, options)

    def policy(self, options: CallOptions | None = None) -> t.NamespacePolicy:
        """The namespace's policy."""
        return self._transport.call(ops.GET_NAMESPACE_POLICY, self._parts(), options)

    def put_policy(
        self, policy: Mapping[str, Any] | None, options: CallOptions | None = None
    ) -> t.NamespacePolicy:
        """Replaces the namespace's policy, or clears it with None."""
        return self._transport.call(ops.PUT_NAMESPACE_POLICY, self._parts({"policy": policy}), options)

    def audit(
        self, options: CallOptions | None = None, /, **query: Unpack[t.ReadAuditQuery]
    ) -> Iterator[t.AuditEvent]:
        """What was done in the namespace."""
        cursor: str | None = None
        while True:
            parts = dataclasses.replace(self._parts(), query={**query, "cursor": cursor})
            page: t.ReadAuditResponse = self._transport.call(ops.READ_AUDIT, parts, options)
            for event in page.events:
                yield event
            cursor = page.next_cursor
            if cursor is None:
                return

    def _parts(self, body: Any = None) -> Parts:
        return Parts(path=self._path, body=body)


class Palimpsest:
    """A client of a node, or of what stands before several. Threads and tasks may share it."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        token: str | Callable[[], str] | None = None,
        timeout: float = TIMEOUT,
        headers: Mapping[str, str] | None = None,
        resume: str | None = None,
        http: HttpClient | None = None,
    ) -> None:
        """`token`: the credential, or what gives it before each call. `timeout`: seconds that a call takes at most.
        `resume`: what `token()` of another client gave. `http`: an httpx client of the caller's, who closes it.
        """
        self._transport = Transport(url, token=token, timeout=timeout, headers=headers, http=http)
        if resume is not None:
            self.resume(resume)

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def profile(self, namespace: str, name: str) -> Profile:
        """The memories of one agent or user; the first memory makes the profile."""
        return Profile(self._transport, f"{namespace}--{name}")

    def database(self, name: str) -> Database:
        """A database by its name, also that of a profile (`acme--alice`)."""
        return Database(self._transport, name)

    def namespace(self, name: str) -> Namespace:
        """A namespace of profiles."""
        return Namespace(self._transport, name)

    def token(self) -> str:
        """What this client has seen of each branch, for `resume`: it names branches and holds no secret."""
        return self._transport.seen.to_token()

    def resume(self, token: str) -> None:
        """From now on this client reads what the one that gave the token had written and seen. Raises ValueError."""
        self._transport.seen.resume(token)

    def create_database(self, name: str, options: CallOptions | None = None) -> Database:
        """Creates a database; a profile's is made by its first memory. Wants the platform key."""
        self._transport.call(ops.CREATE_DATABASE, Parts(body={"name": name}), options)
        return self.database(name)

    def databases(self, options: CallOptions | None = None) -> Sequence[t.DatabaseInfo]:
        """All databases, by name. Wants the platform key."""
        answer: t.ListDatabasesResponse = self._transport.call(ops.LIST_DATABASES, Parts(), options)
        return answer.databases

    def delete_database(self, name: str, options: CallOptions | None = None) -> None:
        """Deletes a database with all its branches. Wants the platform key."""
        self._transport.call(ops.DELETE_DATABASE, Parts(path={"db": name}), options)
        self._transport.seen.drop_database(name)

    def mint_token(
        self, database: str, options: CallOptions | None = None, /, **request: Unpack[t.MintDatabaseTokenRequest]
    ) -> t.TokenResponse:
        """Mints a token for one database."""
        parts = Parts(path={"db": database}, body=request)
        return self._transport.call(ops.MINT_DATABASE_TOKEN, parts, options)

    def revoke_token(self, database: str, jti: str, options: CallOptions | None = None) -> None:
        """Revokes a token of a database by its id."""
        self._transport.call(ops.REVOKE_DATABASE_TOKEN, Parts(path={"db": database, "jti": jti}), options)

    def health(self, options: CallOptions | None = None) -> None:
        """Returns where the node's process answers."""
        self._transport.call(ops.HEALTH, Parts(), options)

    def ready(self, options: CallOptions | None = None) -> Mapping[str, Any]:
        """Whether the node can serve now (`ready`), and what its `checks` say; one that cannot is no error here."""
        return self._transport.call(ops.READY, Parts(answer_status=503), options)

    def keys(self, options: CallOptions | None = None) -> Sequence[Mapping[str, Any]]:
        """The node's public keys: they prove tokens and receipts of erasures."""
        return (self._transport.call(ops.JWKS, Parts(), options))["keys"]

    def llms(self, options: CallOptions | None = None) -> str:
        """The list of the documents for models, as Markdown (llmstxt.org)."""
        return (self._transport.call(ops.LLMS, Parts(), options)).decode()

    def openapi(self, options: CallOptions | None = None) -> Mapping[str, Any]:
        """The node's OpenAPI document."""
        return self._transport.call(ops.OPENAPI, Parts(), options)
