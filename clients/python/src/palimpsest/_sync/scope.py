# Made from the module of the same name in _async by `npm run generate`; do not edit.
"""What the parts of one branch share: where they are, and how they call."""

from __future__ import annotations

import dataclasses
from typing import Any, Iterator, Callable, Sequence

import httpx

from .. import errors
from .._calls import CallOptions, Parts
from .._operation import Operation
from .transport import Transport


class Scope:
    """A branch of a database, and the way to it."""

    def __init__(self, transport: Transport, database: str, branch: str) -> None:
        self.transport = transport
        self.database = database
        self.branch = branch

    @property
    def address(self) -> str:
        return f"{self.database}@{self.branch}"

    def call(self, operation: Operation, parts: Parts, options: CallOptions | None = None) -> Any:
        return self.transport.call(operation, self._located(operation, parts), options)

    def request(self, operation: Operation, parts: Parts, options: CallOptions | None = None) -> httpx.Response:
        return self.transport.request(operation, self._located(operation, parts), options)

    def open(self, operation: Operation, parts: Parts, options: CallOptions | None = None) -> httpx.Response:
        return self.transport.open(operation, self._located(operation, parts), options)

    def find(self, operation: Operation, parts: Parts, options: CallOptions | None = None) -> Any:
        """What the call gave, or None where there is no such thing; a missing database or branch is raised."""
        try:
            return self.call(operation, parts, options)
        except (errors.DatabaseNotFound, errors.BranchNotFound):
            raise
        except errors.NotFound:
            return None

    def pages(
        self,
        operation: Operation,
        parts: Parts,
        take: Callable[[Any], Sequence[Any]],
        options: CallOptions | None = None,
    ) -> Iterator[Any]:
        """All items of a list that comes in pages."""
        cursor: str | None = None
        while True:
            query = {**parts.query, "cursor": cursor}
            page = self.call(operation, dataclasses.replace(parts, query=query), options)
            for item in take(page):
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return

    def _located(self, operation: Operation, parts: Parts) -> Parts:
        """The parts with the branch: in the path's `db`, or in the query where the path has none."""
        is_main = self.branch == "main"
        of_branches = "{branch}" in operation.path or operation.path.endswith("/branches")
        query = dict(parts.query)
        if not is_main and "branch" in operation.query:
            query["branch"] = self.branch
        path = dict(parts.path)
        if "{db}" in operation.path:
            path["db"] = self.database if is_main or of_branches else self.address
        branch = parts.branch or self.branch
        return dataclasses.replace(parts, path=path, query=query, database=self.database, branch=branch)
