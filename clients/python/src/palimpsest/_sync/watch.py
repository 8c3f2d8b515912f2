# Made from the module of the same name in _async by `npm run generate`; do not edit.
"""The change feed of a branch as one sequence, however often its stream is cut.

Transactions come in their order, each once: a stream that ends is opened again behind the last event that was given. No
more is read than is asked for, and nothing stays open once the sequence is closed.
"""

from __future__ import annotations

import dataclasses
from typing import Generator

from .. import _operations as ops
from .. import _types as t
from .. import errors
from .._calls import CallOptions, Parts
from .._events import WATCH_TIMEOUT, Course, Ended, EventReader, read_change
from ._io import sleep
from .scope import Scope


def watch_changes(
    scope: Scope, after: int | None, options: CallOptions | None
) -> Generator[t.WatchResponse, None, None]:
    """Every transaction after a position, and each new one; see Database.watch."""
    options = options or CallOptions()
    course = Course(after, WATCH_TIMEOUT if options.timeout is None else options.timeout)
    headers = {**options.headers, "accept": "text/event-stream"}
    while True:
        cut: Exception = errors.ConnectionFailed("the stream of changes ended")
        try:
            within = dataclasses.replace(options, timeout=course.within, headers=headers)
            response = scope.open(ops.WATCH, Parts(query={"after": course.after}), within)
            try:
                reader = EventReader()
                for more in scope.transport.read(response):
                    for found in reader.feed(more):
                        event = read_change(found)
                        if course.take(event):
                            scope.transport.seen.note(scope.address, event.txid)
                            yield event
            finally:
                response.close()
        except (errors.PalimpsestError, Ended) as error:
            cut = error
        sleep(course.choose_wait(cut))
