# Made from the module of the same name in _async by `npm run generate`; do not edit.
"""The transcript of a session, and the tree of texts of a branch."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence, cast

from typing_extensions import Unpack

from .. import _operations as ops
from .. import _types as t
from .._calls import CallOptions, Parts
from .scope import Scope


class Turns:
    """The transcript of one session."""

    def __init__(self, scope: Scope, session: str) -> None:
        self._scope = scope
        self._path = {"session": session}

    def add(
        self, options: CallOptions | None = None, /, **turn: Unpack[t.AppendTurnRequest]
    ) -> t.AppendTurnResponse:
        """Appends one turn."""
        return self._scope.call(ops.APPEND_TURN, Parts(path=self._path, body=turn), options)

    def append(
        self,
        turns: Sequence[t.TurnInput],
        options: CallOptions | None = None,
        *,
        operation_id: str | None = None,
    ) -> t.AppendTurnsResponse:
        """Appends turns, all or none; with `operation_id` repeated calls append them once."""
        body = {"turns": list(turns), "operation_id": operation_id}
        return self._scope.call(ops.APPEND_TURNS, Parts(path=self._path, body=body), options)

    def last(self, count: int, options: CallOptions | None = None) -> Sequence[t.Turn]:
        """The newest turns, in the order of the talk."""
        parts = Parts(path=self._path, query={"last": count})
        answer: t.ListTurnsResponse = self._scope.call(ops.LIST_TURNS, parts, options)
        return answer.turns

    def list(
        self, options: CallOptions | None = None, /, **query: Unpack[t.ListTurnsQuery]
    ) -> Iterator[t.Turn]:
        """All turns, from the first on, or with `order="desc"` from the last on."""
        parts = Parts(path=self._path, query={"order": "asc", **query})
        return self._scope.pages(ops.LIST_TURNS, parts, lambda page: page.turns, options)

    def delete(
        self, options: CallOptions | None = None, /, **request: Unpack[t.DeleteTurnsRequest]
    ) -> t.DeleteTurnsResponse:
        """Deletes the last turns, those from one on, one, or all."""
        return self._scope.call(ops.DELETE_TURNS, Parts(path=self._path, body=request), options)

    def replace(
        self, options: CallOptions | None = None, /, **request: Unpack[t.ReplaceTurnsRequest]
    ) -> t.ReplaceTurnsResponse:
        """Exchanges the end of the transcript, if it is the expected one."""
        return self._scope.call(ops.REPLACE_TURNS, Parts(path=self._path, body=request), options)

    def search(
        self, options: CallOptions | None = None, /, **request: Unpack[t.SearchTurnsRequest]
    ) -> Sequence[t.Turn]:
        """Finds turns of this session by a vector."""
        parts = Parts(path=self._path, body=request)
        answer: t.SearchTurnsResponse = self._scope.call(ops.SEARCH_TURNS, parts, options)
        return answer.turns


class Files:
    """The tree of texts of a branch."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def put(
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
        return self._scope.call(ops.PUT_FILE, Parts(path={"path": path}, body=body), options)

    def get(
        self, path: str, options: CallOptions | None = None, /, **query: Unpack[t.GetFileQuery]
    ) -> t.GetFileResponse | None:
        """A file, or some of its lines, or None where there is none."""
        parts = Parts(path={"path": path}, query=cast("Mapping[str, Any]", query))
        return self._scope.find(ops.GET_FILE, parts, options)

    def edit(
        self, path: str, options: CallOptions | None = None, /, **request: Unpack[t.EditFileRequest]
    ) -> t.FileWritten:
        """Edits a file by its strings or lines, all edits or none."""
        return self._scope.call(ops.EDIT_FILE, Parts(path={"path": path}, body=request), options)

    def list(
        self, options: CallOptions | None = None, /, **query: Unpack[t.ListFilesQuery]
    ) -> Iterator[t.FileEntry]:
        """What is in a folder, or with `recursive` all files below it."""
        parts = Parts(query=cast("Mapping[str, Any]", query))
        return self._scope.pages(ops.LIST_FILES, parts, lambda page: page.entries, options)

    def move(
        self, path: str, to: str, options: CallOptions | None = None, *, overwrite: bool | None = None
    ) -> t.MoveFilesResponse:
        """Moves a file, or all files of a folder."""
        parts = Parts(path={"path": path}, body={"to": to, "overwrite": overwrite})
        return self._scope.call(ops.MOVE_FILES, parts, options)

    def delete(
        self, path: str, options: CallOptions | None = None, /, **query: Unpack[t.DeleteFilesQuery]
    ) -> t.DeleteFilesResponse:
        """Deletes a file, or with `recursive` a folder."""
        parts = Parts(path={"path": path}, query=cast("Mapping[str, Any]", query))
        return self._scope.call(ops.DELETE_FILES, parts, options)

    def versions(self, path: str, options: CallOptions | None = None) -> Sequence[t.FileVersion]:
        """The kept versions of a path, newest first."""
        parts = Parts(path={"path": path})
        answer: t.ListFileVersionsResponse = self._scope.call(ops.LIST_FILE_VERSIONS, parts, options)
        return answer.versions

    def search(
        self,
        words: str | None = None,
        options: CallOptions | None = None,
        /,
        **request: Unpack[t.SearchFilesRequest],
    ) -> Sequence[t.FileHit]:
        """Finds files by the words of their texts and paths, best first."""
        body = {**request, **({"query": words} if words is not None else {})}
        answer: t.SearchFilesResponse = self._scope.call(ops.SEARCH_FILES, Parts(body=body), options)
        return answer.hits
