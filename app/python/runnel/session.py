# SPDX-License-Identifier: Apache-2.0
"""Sessions: one conversation each, of constant size."""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from . import _structs as s
from ._handle import Exclusive, Owner, wait_for
from ._library import call, handle, initialised, plain, token_array
from .generation import AsyncGeneration, Generation, Options
from .model import Model
from .snapshot import Snapshot, _of_session

Tokens = Iterable[int]


class Session(Exclusive):
    """What a model remembers of one text. One thread uses it at a time; others get BusyError.

    >>> session = model.session()
    >>> session.prefill("Once upon a time")
    4
    >>> text = "".join(session.generate(max_tokens=20))
    """

    _name = "session"
    _pickle = "pickle session.snapshot() and restore it"

    def __init__(self, model: Model, _owner: Owner | None = None) -> None:
        self.model = model
        parent = model._live()
        super().__init__(_owner or Owner(handle("session_create", parent), plain.session_free, parent))

    def prefill(self, text: str | Tokens, *, progress: Callable[[int, int], None] | bool | None = None) -> int:
        """Reads a text or token ids; gives how many tokens were read. Ctrl-C raises KeyboardInterrupt after the pass under
        way, and the session stands where that ended (`position`). progress: gets (done, all) between passes; True: a bar
        of tqdm; what it raises stops the reading and is raised here."""
        array = token_array(self.model.encode(text) if isinstance(text, str) else text)
        bar: Any = None
        if progress is True:
            from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

            bar = tqdm(total=len(array), unit=" tokens", desc="read")
            told: Callable[[int, int], None] | None = lambda done, _all: bar.update(done - bar.n) and None
        else:
            told = progress if callable(progress) else None
        stop = Owner(handle("stop_create"), plain.stop_free)
        failure: list[BaseException] = []

        def on_progress(done: int, total: int, _user: object) -> None:
            try:
                if told is not None and not failure:
                    told(done, total)
            except BaseException as error:  # noqa: B036: it is raised where the call was made
                failure.append(error)
                plain.stop_request(stop)

        options = initialised(s.FeedOptions, "feed_options")
        options.on_progress = s.OnProgress(on_progress)
        options.stop = stop._as_parameter_
        consumed = ctypes.c_uint64()
        turn = self._callback_turn()

        def work() -> None:
            with turn as owner:
                call("session_feed", owner, array, len(array), ctypes.byref(options), ctypes.byref(consumed), None)

        try:
            wait_for(work, lambda: plain.stop_request(stop))
        finally:
            if bar is not None:
                bar.close()
        if failure:
            raise failure.pop()
        return consumed.value

    def generate(self, **options: Any) -> Generation:
        """Continues the text: an iterator of its pieces, with `.tokens` and `.finish`.

        max_tokens (256); temperature (0: the likeliest token), top_k, top_p, min_p, seed and the other samplers of
        docs/samplers.md by their names; recommended=True: what the model's file recommends, under what is given here;
        stop: texts that end it; logit_bias: {token or text: bias}; banned_texts; constraint: a Constraint;
        logprobs: N likeliest tokens at each place; ignore_end.

        Raises InvalidArgumentError for a value out of its range or an empty session, TypeError for an unknown name.
        """
        return Generation(self, self.model, Options(self.model, **options))

    def agenerate(self, **options: Any) -> AsyncGeneration:
        """The same for `async for`."""
        return AsyncGeneration(self.generate(**options))

    def complete(self, **options: Any) -> str:
        """The same as one text, by a single call into C; Ctrl-C ends it after a token."""
        own = Options(self.model, **options)
        pieces: list[bytes] = []

        def on_text(at: int, count: int, _user: object) -> bool:
            pieces.append(ctypes.string_at(at, count))
            return True

        stop = Owner(handle("stop_create"), plain.stop_free)
        own.c.on_text = s.OnText(on_text)
        own.c.stop = stop._as_parameter_
        turn = self._callback_turn()

        def work() -> None:
            with turn as owner:
                call("generate", owner, ctypes.byref(own.c), None)

        wait_for(work, lambda: plain.stop_request(stop))
        return b"".join(pieces).decode("utf-8", "replace")

    @property
    def position(self) -> int:
        """Tokens consumed since it was empty."""
        with self._turn() as owner:
            return int(plain.session_position(owner))

    @property
    def recent(self) -> list[int]:
        """The last tokens consumed, at most 1,024, oldest first."""
        count = ctypes.c_size_t()
        with self._turn() as owner:
            at = plain.session_recent(owner, ctypes.byref(count))
            return list((ctypes.c_int32 * count.value).from_address(at)) if count.value else []

    @property
    def logits(self) -> memoryview[float]:
        """Those after the last token, f32 [vocab_size] ([0] before the first), read-only, without a copy: numpy.asarray()
        takes it. The view keeps the session's memory alive and shows its latest logits."""
        at, count = ctypes.c_void_p(), ctypes.c_size_t()
        with self._turn() as owner:
            call("session_get_logits", owner, ctypes.byref(at), ctypes.byref(count))
            if not count.value:
                return memoryview(b"").cast("f")
            kind = type("Logits", (ctypes.c_float * count.value,), {})
            view = kind.from_address(at.value)  # type: ignore[attr-defined]
            view.owner = owner
        return memoryview(view).cast("B").cast("f").toreadonly()

    def score(self, tokens: Tokens) -> memoryview[float]:
        """Reads tokens and gives the logits after each, f32 [n, vocab_size], row by row."""
        array = token_array(tokens)
        vocab = self.model.vocab_size
        room = (ctypes.c_float * (len(array) * vocab))()
        count = ctypes.c_size_t()
        if not len(array):
            return memoryview(b"").cast("f")
        with self._turn() as owner:
            call("session_score", owner, array, len(array), room, len(room), ctypes.byref(count))
        return memoryview(room).cast("B").cast("f", (len(array), vocab))

    def score_choices(self, choices: Sequence[str | Tokens]) -> list[float]:
        """How likely each is after what was read, in nats: the sum over its tokens. The session stays where it is."""
        arrays = [token_array(self.model.encode(c) if isinstance(c, str) else c) for c in choices]
        asked = (s.Choice * len(arrays))(*[s.Choice(ctypes.cast(a, ctypes.POINTER(ctypes.c_int32)), len(a)) for a in arrays])
        room = (ctypes.c_double * len(arrays))()
        with self._turn() as owner:
            call("session_score_choices", owner, asked, len(arrays), room)
        return list(room)

    def embedding(self, text: str | Tokens, *, pooling: Literal["mean", "last"] = "mean",
                  normalize: bool = True) -> memoryview[float]:
        """What the model makes of a text read after what was read: f32 [hidden_size]. The session stays where it is."""
        if pooling not in ("mean", "last"):
            raise ValueError(f'pooling is {pooling!r}, expected "mean" or "last"')
        array = token_array(self.model.encode(text) if isinstance(text, str) else text)
        room = (ctypes.c_float * self.model.hidden_size)()
        form = (1 if pooling == "last" else 0) | (0 if normalize else 2)
        with self._turn() as owner:
            call("session_embedding", owner, array, len(array), form, room, len(room))
        return memoryview(room).cast("B").cast("f")

    def snapshot(self) -> Snapshot:
        with self._turn() as owner:
            return _of_session(owner)

    def restore(self, snapshot: Snapshot) -> None:
        """Raises MismatchError for another model's or another window's; the session stays as it was then."""
        other = snapshot._live()
        with self._turn() as owner:
            call("session_restore", owner, other)

    def fork(self) -> Session:
        """A second session with the same past."""
        with self._turn() as owner:
            made = handle("session_fork", owner)
        return Session(self.model, Owner(made, plain.session_free, self.model._live()))

    def reset(self) -> None:
        """Empties it."""
        with self._turn() as owner:
            call("session_reset", owner)
