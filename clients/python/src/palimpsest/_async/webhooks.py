"""The webhooks of a database: its change feed, posted to receivers."""

from __future__ import annotations

from typing import Any, AsyncIterator, Mapping, Sequence, cast

from typing_extensions import Unpack

from .. import _operations as ops
from .. import _types as t
from .._calls import CallOptions, Parts
from .scope import AsyncScope


class AsyncWebhooks:
    """The webhooks of a database."""

    def __init__(self, scope: AsyncScope) -> None:
        self._scope = scope

    async def create(
        self, options: CallOptions | None = None, /, **request: Unpack[t.CreateWebhookRequest]
    ) -> t.Webhook:
        """Makes a webhook of this branch, which posts what comes, or what follows the transaction `after`."""
        return await self._scope.call(ops.CREATE_WEBHOOK, Parts(body=request), options)

    async def list(self, options: CallOptions | None = None) -> Sequence[t.Webhook]:
        """Those of all branches, oldest first."""
        answer: t.ListWebhooksResponse = await self._scope.call(ops.LIST_WEBHOOKS, Parts(), options)
        return answer.webhooks

    async def update(
        self, id: str, options: CallOptions | None = None, /, **request: Unpack[t.UpdateWebhookRequest]
    ) -> t.Webhook:
        """Changes one: what is absent stays."""
        return await self._scope.call(ops.UPDATE_WEBHOOK, Parts(path={"id": id}, body=request), options)

    async def delete(self, id: str, options: CallOptions | None = None) -> None:
        """Deletes one with its list of failures."""
        await self._scope.call(ops.DELETE_WEBHOOK, Parts(path={"id": id}), options)

    async def test(self, id: str, options: CallOptions | None = None) -> t.TestWebhookResponse:
        """Posts one event of kind `ping` now, and says what came of it."""
        return await self._scope.call(ops.TEST_WEBHOOK, Parts(path={"id": id}), options)

    def failures(
        self, id: str, options: CallOptions | None = None, /, **query: Unpack[t.ListWebhookFailuresQuery]
    ) -> AsyncIterator[t.WebhookFailure]:
        """The transactions that were given up, newest first."""
        parts = Parts(path={"id": id}, query=cast("Mapping[str, Any]", query))
        return self._scope.pages(ops.LIST_WEBHOOK_FAILURES, parts, lambda page: page.failures, options)

    async def redeliver(
        self, id: str, options: CallOptions | None = None, /, **request: Unpack[t.RedeliverWebhookRequest]
    ) -> t.RedeliverWebhookResponse:
        """Has those posted once more, or with `drop` taken off the list; without `txids` all."""
        return await self._scope.call(ops.REDELIVER_WEBHOOK, Parts(path={"id": id}, body=request), options)
