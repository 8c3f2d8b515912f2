"""One branch of a database, and what is in it."""

from __future__ import annotations

from typing import Any, AsyncGenerator, AsyncIterable, AsyncIterator, Mapping, Sequence, cast

from typing_extensions import Self, Unpack

from .. import _operations as ops
from .. import _types as t
from .._calls import CallOptions, Parts
from .collections import AsyncDocuments, AsyncKeyValues, AsyncVectors
from .scope import AsyncScope
from .texts import AsyncFiles, AsyncTurns
from .transfer import export_parts, import_lines
from .transport import AsyncTransport
from .watch import watch_changes
from .webhooks import AsyncWebhooks


class AsyncDatabase:
    """One branch of a database. Nothing is asked of the node until a method does."""

    def __init__(self, transport: AsyncTransport, name: str, branch: str = "main") -> None:
        self._scope = AsyncScope(transport, name, branch)
        self.files = AsyncFiles(self._scope)
        """The tree of texts."""
        self.webhooks = AsyncWebhooks(self._scope)
        """The receivers that its changes are posted to."""

    @property
    def name(self) -> str:
        """The database's name."""
        return self._scope.database

    @property
    def branch_name(self) -> str:
        """The branch that the methods of this object are about."""
        return self._scope.branch

    def branch(self, name: str) -> Self:
        """The same database on another branch."""
        return type(self)(self._scope.transport, self.name, name)

    async def fork(
        self,
        name: str,
        options: CallOptions | None = None,
        *,
        ttl: int | None = None,
        at: str | int | None = None,
    ) -> Self:
        """Makes a branch from this one's newest state, or from an earlier one with `at`. `ttl` is in seconds."""
        body = {"name": name, "from_": self.branch_name, "ttl": ttl, "at": at}
        await self._scope.call(ops.CREATE_BRANCH, Parts(body=body, branch=name), options)
        return self.branch(name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Deletes the branch at the end of the block; `main` stays."""
        if self.branch_name != "main":
            await self.delete_branch()

    async def branches(self, options: CallOptions | None = None) -> Sequence[t.Branch]:
        """All branches of the database."""
        answer: t.ListBranchesResponse = await self._scope.call(ops.LIST_BRANCHES, Parts(), options)
        return answer.branches

    async def delete_branch(self, options: CallOptions | None = None) -> None:
        """Deletes this branch. `main` goes with the database only."""
        await self._scope.call(ops.DELETE_BRANCH, self._on_branch(), options)
        self._scope.transport.seen.drop(self._scope.address)

    async def checkpoint(self, name: str, options: CallOptions | None = None) -> t.CreateCheckpointResponse:
        """Names this branch's newest state."""
        return await self._scope.call(ops.CREATE_CHECKPOINT, self._on_branch(body={"name": name}), options)

    async def checkpoints(self, options: CallOptions | None = None) -> Sequence[t.Checkpoint]:
        """The named states of this branch."""
        parts = self._on_branch()
        answer: t.ListCheckpointsResponse = await self._scope.call(ops.LIST_CHECKPOINTS, parts, options)
        return answer.checkpoints

    async def delete_checkpoint(self, name: str, options: CallOptions | None = None) -> None:
        """Gives up a name of a state."""
        parts = Parts(path={"branch": self.branch_name, "name": name})
        await self._scope.call(ops.DELETE_CHECKPOINT, parts, options)

    async def rewind(self, to: str | int, options: CallOptions | None = None) -> t.RewindBranchResponse:
        """Takes this branch back to a checkpoint or a transaction id."""
        return await self._scope.call(ops.REWIND_BRANCH, self._on_branch(body={"to": to}), options)

    async def undo(
        self, txid: int, options: CallOptions | None = None, *, dry_run: bool | None = None
    ) -> t.UndoResponse:
        """Undoes a transaction where nothing has changed since what it changed."""
        body = {"txid": txid} if dry_run is None else {"txid": txid, "dry_run": dry_run}
        return await self._scope.call(ops.UNDO, Parts(body=body), options)

    def diff(
        self, options: CallOptions | None = None, /, **query: Unpack[t.DiffStatesQuery]
    ) -> AsyncIterator[t.StateDifference]:
        """What differs between two states of this branch, or between it and another one (`from_branch`)."""
        parts = Parts(query=cast("Mapping[str, Any]", query))
        return self._scope.pages(ops.DIFF_STATES, parts, lambda page: page.differences, options)

    def export(self, options: CallOptions | None = None) -> AsyncIterator[bytes]:
        """The branch as lines of JSON, a part at a time, all of one transaction; `at` names an earlier state. The parts,
        one behind the other, are the export."""
        return export_parts(self._scope, options)

    async def import_(
        self,
        lines: bytes | Sequence[bytes] | AsyncIterable[bytes],
        options: CallOptions | None = None,
        /,
        **query: Unpack[t.ImportQuery],
    ) -> t.ImportResponse:
        """Takes the lines of an export into this branch, in pieces of any size, such as what `export` gives. `complete`
        in the answer says whether all of it came; a rewind to its `checkpoint` undoes the import."""
        return await import_lines(self._scope, lines, cast("Mapping[str, Any]", query), options)

    def watch(
        self, options: CallOptions | None = None, /, *, after: int | None = None
    ) -> AsyncGenerator[t.WatchResponse, None]:
        """What the transactions of this branch change, those after `after` (0: all that is kept) and then each new one;
        without it only what comes. The first event is a `position`, which says where that is; each later one is a
        transaction.

        A stream that is cut, at a failover too, goes on behind the last event: nothing is missed and nothing comes twice.
        It has to go on within `options.timeout` (default: 60 s). Raises Conflict where what follows is not kept any more
        or was lost. Close the generator to end it (`contextlib.closing`, `aclosing`)."""
        return watch_changes(self._scope, after, options)

    async def sync(self, options: CallOptions | None = None) -> t.SyncResponse:
        """Waits until object storage holds everything that this branch has."""
        return await self._scope.call(ops.SYNC, Parts(), options)

    async def sql(
        self, q: str, params: Sequence[Any] | Mapping[str, Any] | None = None, options: CallOptions | None = None
    ) -> t.SqlResult:
        """Runs one SQL statement."""
        statement: t.SqlStatement = {"q": q} if params is None else {"q": q, "params": params}
        return (await self.batch([statement], options))[0]

    async def batch(
        self, stmts: Sequence[t.SqlStatement], options: CallOptions | None = None, *, txn: bool | None = None
    ) -> Sequence[t.SqlResult]:
        """Runs SQL statements, as one transaction unless `txn` is false."""
        parts = Parts(body={"stmts": list(stmts), "txn": txn})
        answer: t.ExecuteSqlResponse = await self._scope.call(ops.EXECUTE_SQL, parts, options)
        return answer.results

    async def facets(
        self, options: CallOptions | None = None, /, **query: Unpack[t.ListFacetsQuery]
    ) -> Sequence[t.FacetGroup]:
        """What the branch holds, by kind, with counts. A kind of its own comes in pages: `cursor` says where to go on."""
        parts = Parts(query=cast("Mapping[str, Any]", query))
        answer: t.ListFacetsResponse = await self._scope.call(ops.LIST_FACETS, parts, options)
        return answer.groups

    async def collections(
        self, options: CallOptions | None = None, /, **query: Unpack[t.ListDocCollectionsQuery]
    ) -> Sequence[t.DocCollection]:
        """The collections of documents, by name."""
        parts = Parts(query=cast("Mapping[str, Any]", query))
        answer: t.ListDocCollectionsResponse = await self._scope.call(ops.LIST_DOC_COLLECTIONS, parts, options)
        return answer.collections

    def kv(self, namespace: str) -> AsyncKeyValues:
        """Values by key, in a namespace of their own."""
        return AsyncKeyValues(self._scope, namespace)

    def docs(self, collection: str) -> AsyncDocuments:
        """The documents of a collection."""
        return AsyncDocuments(self._scope, collection)

    def vectors(self, collection: str) -> AsyncVectors:
        """The vectors of a collection."""
        return AsyncVectors(self._scope, collection)

    def turns(self, session: str) -> AsyncTurns:
        """The transcript of a session."""
        return AsyncTurns(self._scope, session)

    def _on_branch(self, body: Mapping[str, Any] | None = None) -> Parts:
        return Parts(path={"branch": self.branch_name}, body=body)
