"""The transcript of a session, and the tree of texts of a branch."""

from __future__ import annotations

from typing import Any, AsyncIterator, Mapping, Sequence, cast

from typing_extensions import Unpack

from .. import _operations as ops
from .. import _types as t
from .._calls import CallOptions, Parts
from .scope import AsyncScope


class AsyncTurns:
    """The transcript of one session."""

    def __init__(self, scope: AsyncScope, session: str) -> None:
        self._scope = scope
        self._path = {"session": session}

    async def add(
        self, options: CallOptions | None = None, /, **turn: Unpack[t.AppendTurnRequest]
    ) -> t.AppendTurnResponse:
        """Appends one turn."""
        return await self._scope.call(ops.APPEND_TURN, Parts(path=self._path, body=turn), options)

    async def append(
        self,
        turns: Sequence[t.TurnInput],
        options: CallOptions | None = None,
        *,
        operation_id: str | None = None,
    ) -> t.AppendTurnsResponse:
        """Appends turns, all or none; with `operation_id` repeated calls append them once."""
        body = {"turns": list(turns), "operation_id": operation_id}
        return await self._scope.call(ops.APPEND_TURNS, Parts(path=self._path, body=body), options)

    async def last(self, count: int, options: CallOptions | None = None) -> Sequence[t.Turn]:
        """The newest turns, in the order of the talk."""
        parts = Parts(path=self._path, query={"last": count})
        answer: t.ListTurnsResponse = await self._scope.call(ops.LIST_TURNS, parts, options)
        return answer.turns

    def list(
        self, options: CallOptions | None = None, /, **query: Unpack[t.ListTurnsQuery]
    ) -> AsyncIterator[t.Turn]:
        """All turns, from the first on, or with `order="desc"` from the last on."""
        parts = Parts(path=self._path, query={"order": "asc", **query})
        return self._scope.pages(ops.LIST_TURNS, parts, lambda page: page.turns, options)

    async def delete(
        self, options: CallOptions | None = None, /, **request: Unpack[t.DeleteTurnsRequest]
    ) -> t.DeleteTurnsResponse:
        """Deletes the last turns, those from one on, one, or all."""
        return await self._scope.call(ops.DELETE_TURNS, Parts(path=self._path, body=request), options)

    async def replace(
        self, options: CallOptions | None = None, /, **request: Unpack[t.ReplaceTurnsRequest]
    ) -> t.ReplaceTurnsResponse:
        """Exchanges the end of the transcript, if it is the expected one."""
        return await self._scope.call(ops.REPLACE_TURNS, Parts(path=self._path, body=request), options)

    async def search(
        self, options: CallOptions | None = None, /, **request: Unpack[t.SearchTurnsRequest]
    ) -> Sequence[t.Turn]:
        """Finds turns of this session by a vector."""
        parts = Parts(path=self._path, body=request)
        answer: t.SearchTurnsResponse = await self._scope.call(ops.SEARCH_TURNS, parts, options)
        return answer.turns


class AsyncFiles:
    """The tree of texts of a branch."""

    def __init__(self, scope: AsyncScope) -> None:
        self._scope = scope

    async def put(
        self,
        path: str,
        text: str,
        options: CallOptions | None = None,
        *,
        if_match: str | None = None,
        if_absent: bool | None = None,
    ) -> t.FileWritten:
        """Stores a text at a path. With `if_match` or `if_absent` only where that holds (else Conflict)."""
        body = {"text": text, "if_match": if_match, "if_absent": if_absent}
        return await self._scope.call(ops.PUT_FILE, Parts(path={"path": path}, body=body), options)

    async def get(
        self, path: str, options: CallOptions | None = None, /, **query: Unpack[t.GetFileQuery]
    ) -> t.GetFileResponse | None:
        """A file, or some of its lines, or None where there is none."""
        parts = Parts(path={"path": path}, query=cast("Mapping[str, Any]", query))
        return await self._scope.find(ops.GET_FILE, parts, options)

    async def edit(
        self, path: str, options: CallOptions | None = None, /, **request: Unpack[t.EditFileRequest]
    ) -> t.FileWritten:
        """Edits a file by its strings or lines, all edits or none."""
        return await self._scope.call(ops.EDIT_FILE, Parts(path={"path": path}, body=request), options)

    def list(
        self, options: CallOptions | None = None, /, **query: Unpack[t.ListFilesQuery]
    ) -> AsyncIterator[t.FileEntry]:
        """What is in a folder, or with `recursive` all files below it."""
        parts = Parts(query=cast("Mapping[str, Any]", query))
        return self._scope.pages(ops.LIST_FILES, parts, lambda page: page.entries, options)

    async def move(
        self, path: str, to: str, options: CallOptions | None = None, *, overwrite: bool | None = None
    ) -> t.MoveFilesResponse:
        """Moves a file, or all files of a folder."""
        parts = Parts(path={"path": path}, body={"to": to, "overwrite": overwrite})
        return await self._scope.call(ops.MOVE_FILES, parts, options)

    async def delete(
        self, path: str, options: CallOptions | None = None, /, **query: Unpack[t.DeleteFilesQuery]
    ) -> t.DeleteFilesResponse:
        """Deletes a file, or with `recursive` a folder."""
        parts = Parts(path={"path": path}, query=cast("Mapping[str, Any]", query))
        return await self._scope.call(ops.DELETE_FILES, parts, options)

    async def versions(self, path: str, options: CallOptions | None = None) -> Sequence[t.FileVersion]:
        """The kept versions of a path, newest first."""
        parts = Parts(path={"path": path})
        answer: t.ListFileVersionsResponse = await self._scope.call(ops.LIST_FILE_VERSIONS, parts, options)
        return answer.versions

    async def search(
        self,
        words: str | None = None,
        options: CallOptions | None = None,
        /,
        **request: Unpack[t.SearchFilesRequest],
    ) -> Sequence[t.FileHit]:
        """Finds files by the words of their texts and paths, best first."""
        body = {**request, **({"query": words} if words is not None else {})}
        answer: t.SearchFilesResponse = await self._scope.call(ops.SEARCH_FILES, Parts(body=body), options)
        return answer.hits
