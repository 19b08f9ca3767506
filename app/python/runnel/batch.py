# SPDX-License-Identifier: Apache-2.0
"""Many sessions of one model fed together: each pass over the weights serves all of them."""
from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import _structs as s
from ._handle import Exclusive, Hold, Owner, wait_for
from ._library import call, handle, plain, token_array
from .errors import Error, error_of
from .model import Model
from .session import Session


@dataclass(frozen=True)
class Fed:
    """What became of one feed: tokens that its session has taken, and the error that stopped it, if one did."""

    consumed: int
    error: Error | None


class Batch(Exclusive):
    """Feeds sessions of `model` together. On the CPU each is bit for bit what feeding it alone makes of it."""

    _name = "batch"

    def __init__(self, model: Model) -> None:
        if not isinstance(model, Model):
            raise TypeError(f"model is {model!r}, expected a Model")
        parent = model._live()
        self.model = model
        super().__init__(Owner(handle("batch_create", parent), plain.batch_free, parent))

    def run(self, feeds: Sequence[tuple[Session, Iterable[int]]]) -> list[Fed]:
        """Every session reads its tokens. One that cannot (a bad token, another model's session, a session named twice)
        fails by itself, in its result; the others go on. Raises BusyError if one of them is in use, and nothing is read
        then; KeyboardInterrupt after the pass under way."""
        arrays = [token_array(tokens) for _, tokens in feeds]
        asked = (s.Feed * len(feeds))()
        results = (s.FeedResult * len(feeds))()
        holds: dict[int, Hold] = {}  # a session that is named twice is held once
        for session, _ in feeds:
            holds.setdefault(id(session), session._callback_change())
        own, stop = self._callback_hold(), Owner(handle("stop_create"), plain.stop_free)

        def work() -> None:
            with contextlib.ExitStack() as held:
                batch = held.enter_context(own)
                owners = {key: held.enter_context(hold) for key, hold in holds.items()}
                for to, (session, _), array in zip(asked, feeds, arrays):
                    to.session = owners[id(session)]._as_parameter_
                    to.tokens = ctypes.cast(array, ctypes.POINTER(ctypes.c_int32))
                    to.token_count = len(array)
                call("batch_run", batch, asked, len(feeds), stop, results)

        wait_for(work, lambda: plain.stop_request(stop))
        return [
            Fed(r.consumed, error_of(r.error.status, r.error.message.decode("utf-8", "replace")) if r.error.status else None)
            for r in results
        ]
