# SPDX-License-Identifier: Apache-2.0
"""Calls that read tokens: progress, and how they are stopped."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _structs as s
from ._handle import Owner, wait_for
from ._library import handle, plain
from .errors import CancelledError

#: Gets (done, all) of tokens that are read, between passes and on another thread; what it raises stops the call and is
#: raised there.
ReadProgress = Callable[[int, int], object]


class Reading:
    """How a call reads tokens: what it is stopped with, its progress, and what that raised."""

    def __init__(self, told: ReadProgress | None) -> None:
        self.stop = stop = Owner(handle("stop_create"), plain.stop_free)
        self.failure: list[BaseException] = []
        failure = self.failure

        def on_progress(done: int, total: int, _user: object) -> None:
            try:
                if told is not None and not failure:
                    told(done, total)
            except BaseException as error:  # noqa: B036: it is raised where the call was made
                failure.append(error)
                plain.stop_request(stop)

        self.on_progress = s.OnProgress(on_progress)

    def put(self, options: Any) -> Any:
        """Tells a structure of options of it."""
        options.on_progress = self.on_progress
        options.stop = self.stop._as_parameter_
        return options

    def run(self, work: Callable[[], None]) -> None:
        """Waits for `work`, which is stopped by an interrupt."""
        try:
            wait_for(work, lambda: plain.stop_request(self.stop))
        except CancelledError:
            if self.failure:
                raise self.failure.pop() from None
            raise
        if self.failure:
            raise self.failure.pop()
