# Made from the module of the same name in _async by `npm run generate`; do not edit.
"""A profile: the memories of one agent or user, in a database of their own."""

from __future__ import annotations

import time
from typing import Any, Iterator, Literal, Mapping, Sequence, cast

from typing_extensions import Unpack

from .. import _operations as ops
from .. import _types as t
from .. import errors
from .._calls import RECALL_TIMEOUT, CallOptions, Parts, join_words
from ._io import sleep
from .database import Database
from .scope import Scope
from .transport import Transport

_INGEST_MEMORIES_MAX = 1_000
"""The most memories of one ingest; more are sent in several, each all or none."""


class Erasure:
    """An erasure that was asked for."""

    def __init__(self, scope: Scope, path: Mapping[str, str], coupon: t.ErasureCoupon) -> None:
        self._scope = scope
        self._path = path
        self.coupon = coupon
        """The coupon as it was last seen; a completed one has its receipt."""

    def wait(self, within: float | None = None, poll: float = 5.0) -> t.ErasureCoupon:
        """Waits until it is completed, and gives the coupon with its receipt. Raises DeadlineExceeded."""
        ends_at = None if within is None else time.monotonic() + within
        while self.coupon.completed_at is None:
            if ends_at is not None and time.monotonic() + poll > ends_at:
                raise errors.DeadlineExceeded("the erasure is not completed yet; its coupon says what it waits for")
            sleep(poll)
            parts = Parts(path={**self._path, "id": self.coupon.id})
            self.coupon = self._scope.call(ops.GET_ERASURE, parts)
        return self.coupon


class Profile(Database):
    """A profile; its first memory makes it."""

    def __init__(self, transport: Transport, name: str, branch: str = "main") -> None:
        super().__init__(transport, name, branch)
        ns, _, profile = name.partition("--")
        self._path = {"ns": ns, "profile": profile}

    def remember(
        self, memories: t.MemoryInputDict | Sequence[t.MemoryInputDict], options: CallOptions | None = None
    ) -> list[t.IngestItem]:
        """Keeps memories: they can be recalled as soon as this answers. See `Fact`, `Event`, `Instruction`, `Task`.

        An equal one that is there already is a `duplicate`; a fact or instruction on a topic supersedes the one before.
        """
        listed = [memories] if isinstance(memories, Mapping) else list(memories)
        items: list[t.IngestItem] = []
        for start in range(0, max(1, len(listed)), _INGEST_MEMORIES_MAX):
            part = listed[start : start + _INGEST_MEMORIES_MAX]
            answer: t.IngestResponse = self._scope.call(ops.INGEST, self._with({"memories": part}), options)
            items.extend(answer.results)
        return items

    def recall(
        self,
        words: str | None = None,
        options: CallOptions | None = None,
        /,
        **request: Unpack[t.RecallRequest],
    ) -> t.RecallResponse:
        """Finds memories by words, topic and vector; nothing relevant gives none."""
        body = {**request, **({"query": words} if words is not None else {})}
        return self._scope.call(ops.RECALL, self._with(body), options or CallOptions(timeout=RECALL_TIMEOUT))

    def context(
        self,
        words: str | None = None,
        options: CallOptions | None = None,
        /,
        **request: Unpack[t.GetContextRequest],
    ) -> t.GetContextResponse:
        """A block of text for a prompt: what is remembered that matters now."""
        body = {**request, **({"query": words} if words is not None else {})}
        return self._scope.call(ops.GET_CONTEXT, self._with(body), options)

    def memories(
        self,
        options: CallOptions | None = None,
        /,
        *,
        filter: Mapping[str, Any] | None = None,
        types: str | Sequence[str] = (),
        status: str | Sequence[str] = (),
        **query: Any,
    ) -> Iterator[t.Memory]:
        """All memories that meet the conditions (of ListMemories), newest first; `filter` is over their metadata."""
        lists = {"types": join_words(types), "status": join_words(status)}
        parts = Parts(path=self._path, query={"filter": filter, **lists, **query})
        return self._scope.pages(ops.LIST_MEMORIES, parts, lambda page: page.memories, options)

    def get(self, id: str, options: CallOptions | None = None) -> t.Memory | None:
        """One memory, or None where there is none."""
        return self._scope.find(ops.GET_MEMORY, self._at(id), options)

    def update(
        self, id: str, options: CallOptions | None = None, /, **request: Unpack[t.UpdateMemoryRequest]
    ) -> t.Memory:
        """Changes what is known beside a memory."""
        return self._scope.call(ops.UPDATE_MEMORY, Parts(path={**self._path, "id": id}, body=request), options)

    def forget(self, id: str, options: CallOptions | None = None) -> None:
        """Deletes a memory. Raises NotFound where there is none."""
        self._scope.call(ops.FORGET_MEMORY, self._at(id), options)

    def forget_all(
        self, options: CallOptions | None = None, /, **conditions: Unpack[t.ForgetMemoriesRequest]
    ) -> list[str]:
        """Deletes the memories that meet the conditions, a page in a transaction, and gives the ids."""
        ids: list[str] = []
        cursor: str | None = None
        while True:
            body = {**conditions, "cursor": cursor}
            page: t.ForgetMemoriesResponse = self._scope.call(ops.FORGET_MEMORIES, self._with(body), options)
            ids.extend(page.ids)
            cursor = page.next_cursor
            if cursor is None:
                return ids

    def history(
        self, options: CallOptions | None = None, /, **query: Unpack[t.GetHistoryQuery]
    ) -> Iterator[t.MemoryState]:
        """The states of a topic, or of the topic of a memory, the oldest first."""
        parts = Parts(path=self._path, query=cast("Mapping[str, Any]", query))
        return self._scope.pages(ops.GET_HISTORY, parts, lambda page: page.states, options)

    def review(
        self, ids: Sequence[str], verdict: Literal["approve", "reject"], options: CallOptions | None = None
    ) -> Sequence[t.ReviewItem]:
        """Takes proposals in, or rejects them."""
        body = {"ids": list(ids), "verdict": verdict}
        answer: t.ReviewMemoryResponse = self._scope.call(ops.REVIEW_MEMORY, self._with(body), options)
        return answer.results

    def ask(
        self, question: str, options: CallOptions | None = None, /, **request: Unpack[t.AskRequest]
    ) -> t.AskResponse:
        """Lets the node's model answer from what is remembered."""
        return self._scope.call(ops.ASK, self._with({**request, "question": question}), options)

    def extract(
        self,
        turns: Sequence[Mapping[str, Any]],
        options: CallOptions | None = None,
        *,
        session_id: str | None = None,
        source: str | None = None,
        dry_run: bool | None = None,
    ) -> t.ExtractResponse:
        """Lets the node's model propose memories from turns, and keeps them."""
        body = {"turns": list(turns), "session_id": session_id, "source": source, "dry_run": dry_run}
        return self._scope.call(ops.EXTRACT, self._with(body), options)

    def sessions(
        self, options: CallOptions | None = None, /, **query: Unpack[t.ListSessionsQuery]
    ) -> Iterator[t.Session]:
        """All sessions, the most recently active first."""
        parts = Parts(path=self._path, query=cast("Mapping[str, Any]", query))
        return self._scope.pages(ops.LIST_SESSIONS, parts, lambda page: page.sessions, options)

    def end_session(self, id: str, options: CallOptions | None = None, *, turns: bool | None = None) -> None:
        """Ends a session: its tasks go, and with `turns` its transcript."""
        self._scope.call(ops.END_SESSION, Parts(path={**self._path, "sid": id}, query={"turns": turns}), options)

    def erase(
        self, options: CallOptions | None = None, /, **target: Unpack[t.CreateErasureRequest]
    ) -> Erasure:
        """Erases one target for good; `.coupon` says when, `.wait()` waits for the receipt."""
        return self._erasure(self._scope.call(ops.CREATE_ERASURE, self._with(target), options))

    def erasures(self, options: CallOptions | None = None) -> Sequence[t.ErasureCoupon]:
        """The newest erasures of the profile."""
        parts = Parts(path=self._path)
        answer: t.ListErasuresResponse = self._scope.call(ops.LIST_ERASURES, parts, options)
        return answer.erasures

    def erasure(self, id: str, options: CallOptions | None = None) -> Erasure:
        """An erasure that was asked for before."""
        return self._erasure(self._scope.call(ops.GET_ERASURE, self._at(id), options))

    def reembed(self, options: CallOptions | None = None) -> int:
        """Makes the vectors anew with the node's embedder, to the end; gives how many were made."""
        embedded = 0
        cursor: str | None = None
        while True:
            step: t.ReembedResponse = self._scope.call(ops.REEMBED, self._with({"cursor": cursor}), options)
            embedded += step.embedded
            cursor = step.next_cursor
            if cursor is None:
                return embedded

    def calibrate(
        self, options: CallOptions | None = None, /, **request: Unpack[t.CalibrateRequest]
    ) -> t.CalibrateResponse:
        """Sets the floor of the node's embedder by what the profile holds."""
        return self._scope.call(ops.CALIBRATE, self._with(request), options)

    def policy(self, options: CallOptions | None = None) -> t.ProfilePolicy:
        """The profile's own policy, and the one that is enforced."""
        return self._scope.call(ops.GET_PROFILE_POLICY, Parts(path=self._path), options)

    def put_policy(self, policy: Mapping[str, Any] | None, options: CallOptions | None = None) -> t.ProfilePolicy:
        """Replaces the profile's own policy, or clears it with None."""
        return self._scope.call(ops.PUT_PROFILE_POLICY, self._with({"policy": policy}), options)

    def _erasure(self, coupon: t.ErasureCoupon) -> Erasure:
        return Erasure(self._scope, self._path, coupon)

    def _with(self, body: Any) -> Parts:
        return Parts(path=self._path, body=body)

    def _at(self, id: str) -> Parts:
        return Parts(path={**self._path, "id": id})
