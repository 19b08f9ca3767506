# SPDX-License-Identifier: Apache-2.0
"""Sessions: one conversation each, of constant size."""
from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from . import _structs as s
from ._handle import Exclusive, Hold, Owner, wait_for
from ._library import call, handle, initialised, plain, token_array
from ._reading import Reading
from .generation import AsyncGeneration, Generation, Options
from .model import Model
from .snapshot import Snapshot, _of_session

Tokens = Iterable[int]


class Change(Hold):
    """The right to change a session: a generation of it that goes on ends first."""

    def __enter__(self) -> Owner:
        owner = super().__enter__()
        try:
            session = self._handle
            answer = session._answer() if isinstance(session, Session) and session._answer is not None else None
            if answer is not None:
                answer._end_for_another(owner)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return owner


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
        if not isinstance(model, Model):
            raise TypeError(f"model is {model!r}, expected a Model")
        parent = model._live()
        super().__init__(_owner or Owner(handle("session_create", parent), plain.session_free, parent))
        self._answer: weakref.ref[Generation] | None = None  # the last one

    def _change(self) -> Change:
        return Change(self, threading.get_ident())

    def _callback_change(self) -> Change:
        return Change(self, 0)

    def prefill(self, text: str | Tokens, *, progress: Callable[[int, int], object] | bool | None = None) -> int:
        """Reads a text or token ids [n]; gives how many tokens were read.

        progress: gets (done, all) between passes, on another thread; True: a bar of tqdm. What it raises stops the reading
            and is raised here.

        Raises KeyboardInterrupt after the pass under way, and the session stands where that ended (`position`);
        InvalidArgumentError for a token outside the vocabulary, and nothing is read; UnsupportedError for a text without
        a tokenizer; DeviceError.
        """
        array = token_array(self.model.encode(text) if isinstance(text, str) else text)
        bar: Any = None
        if progress is True:
            from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

            bar = tqdm(total=len(array), unit=" tokens", desc="read")
            told: Callable[[int, int], object] | None = lambda done, _all: bar.update(done - bar.n)
        else:
            told = progress if callable(progress) else None
        reading = Reading(told)
        options = reading.put(initialised(s.FeedOptions, "feed_options"))
        consumed = ctypes.c_uint64()
        change = self._callback_change()

        def work() -> None:
            with change as owner:
                call("session_feed", owner, array, len(array), ctypes.byref(options), ctypes.byref(consumed), None)

        try:
            reading.run(work)
        finally:
            if bar is not None:
                bar.close()
        return consumed.value

    def generate(self, **options: Any) -> Generation:
        """Continues the text: an iterator of its pieces, with `.tokens` and `.finish`.

        max_tokens (256); temperature (0: the likeliest token), top_k, top_p, min_p, seed and the other samplers of
        docs/samplers.md by their names; recommended=True: what the model's file recommends, under what is given here;
        stop: texts that end it; logit_bias: {token or text: bias}; banned_texts; constraint: a Constraint;
        logprobs: N likeliest tokens at each place (0 to 20); ignore_end; on_logits: gets (logits, tokens) before each
        token, a view of f32 [vocab_size] that it may change and the tokens so far; False ends the generation, and what
        it raises does and is raised where the next piece was asked for.

        Raises InvalidArgumentError for a value out of its range or an empty session, TypeError for an unknown name,
        MismatchError for another model's constraint.
        """
        return Generation(self, Options(self, self.model, **options))

    def agenerate(self, **options: Any) -> AsyncGeneration:
        """The same for `async for`: each piece is computed on another thread."""
        return AsyncGeneration(self.generate(**options))

    def complete(self, *, on_text: Callable[[str], object] | None = None, **options: Any) -> str:
        """The same as one text, by a single call into C. on_text: gets each piece as it comes, on another thread; False
        ends the generation, and what it raises does and is raised here. KeyboardInterrupt comes after the token under
        way; the session stands after it."""
        own = Options(self, self.model, **options)
        ask = own.ask  # nothing that `own` keeps may keep `own`
        pieces: list[str] = []

        def on_piece(at: int, count: int, _user: object) -> bool:
            piece = s.text_at(at, count)
            pieces.append(piece)
            return on_text is None or ask(on_text, piece)

        stop = Owner(handle("stop_create"), plain.stop_free)
        own.c.on_text = s.OnText(on_piece)
        own.c.stop = stop._as_parameter_
        change = self._callback_change()

        def work() -> None:
            with change as owner:
                call("generate", owner, ctypes.byref(own.c), None)

        wait_for(work, lambda: plain.stop_request(stop))
        own.raise_failure()
        return "".join(pieces)

    @property
    def position(self) -> int:
        """Tokens consumed since it was empty."""
        with self._hold() as owner:
            return int(plain.session_position(owner))

    @property
    def recent(self) -> list[int]:
        """The last tokens consumed, at most 1,024, oldest first."""
        count = ctypes.c_size_t()
        with self._hold() as owner:
            at = plain.session_recent(owner, ctypes.byref(count))
            return list((ctypes.c_int32 * count.value).from_address(at)) if count.value else []

    @property
    def logits(self) -> memoryview[float]:
        """Those after the last token, f32 [vocab_size] ([0] before the first), read-only, without a copy: numpy.asarray()
        takes it. The view keeps the session's memory alive and shows its latest logits."""
        at, count = ctypes.c_void_p(), ctypes.c_size_t()
        with self._hold() as owner:
            call("session_get_logits", owner, ctypes.byref(at), ctypes.byref(count))
            if not count.value:
                return memoryview(b"").cast("f")
            kind = type("Logits", (ctypes.c_float * count.value,), {})
            view = kind.from_address(at.value)  # type: ignore[attr-defined]
            view.owner = owner
        return memoryview(view).cast("B").cast("f").toreadonly()

    def score(self, tokens: Tokens) -> memoryview[float]:
        """Reads tokens [n] and gives the logits after each, f32 [n, vocab_size], row by row. Raises InvalidArgumentError
        for a token outside the vocabulary, DeviceError; MemoryError if the rows do not fit."""
        array = token_array(tokens)
        vocab = self.model.vocab_size
        room = (ctypes.c_float * (len(array) * vocab))()
        count = ctypes.c_size_t()
        if not len(array):
            return memoryview(b"").cast("f")
        with self._change() as owner:
            call("session_score", owner, array, len(array), room, len(room), ctypes.byref(count))
        return memoryview(room).cast("B").cast("f", (len(array), vocab))

    def score_choices(self, choices: Sequence[str | Tokens]) -> list[float]:
        """How likely each is after what was read, in nats: the sum over its tokens. The session stays where it is.
        Raises InvalidArgumentError for an empty session or a bad token, DeviceError."""
        if isinstance(choices, (str, bytes)):
            raise TypeError(f"choices are {choices!r}, expected a list of texts or of lists of tokens")
        arrays = [token_array(self.model.encode(c) if isinstance(c, str) else c) for c in choices]
        asked = (s.Choice * len(arrays))(*[s.Choice(ctypes.cast(a, ctypes.POINTER(ctypes.c_int32)), len(a)) for a in arrays])
        room = (ctypes.c_double * len(arrays))()
        with self._hold() as owner:
            call("session_score_choices", owner, asked, len(arrays), room)
        return list(room)

    def embedding(self, text: str | Tokens, *, pooling: Literal["mean", "last"] = "mean",
                  normalize: bool = True) -> memoryview[float]:
        """What the model makes of a text read after what was read: f32 [hidden_size], the mean over its tokens or that
        of the last one, of length 1 with `normalize`. The session stays where it is. Raises InvalidArgumentError for no
        token, ValueError for another pooling, UnsupportedError where the device gives none."""
        if pooling not in ("mean", "last"):
            raise ValueError(f'pooling is {pooling!r}, expected "mean" or "last"')
        array = token_array(self.model.encode(text) if isinstance(text, str) else text)
        room = (ctypes.c_float * self.model.hidden_size)()
        form = (1 if pooling == "last" else 0) | (0 if normalize else 2)
        with self._hold() as owner:
            call("session_embedding", owner, array, len(array), form, room, len(room))
        return memoryview(room).cast("B").cast("f")

    def snapshot(self) -> Snapshot:
        """All that it remembers now, as a value. End a generation before that (leave its loop and drop or close() it)
        if it has stop texts: those keep text back. Raises OutOfMemoryError, DeviceError."""
        with self._hold() as owner:
            return _of_session(owner)

    def restore(self, snapshot: Snapshot) -> None:
        """Goes to where a session was. Raises MismatchError for another model's or another window's snapshot; the session
        stays as it was then."""
        if not isinstance(snapshot, Snapshot):
            raise TypeError(f"snapshot is {snapshot!r}, expected a Snapshot")
        other = snapshot._live()
        with self._change() as owner:
            call("session_restore", owner, other)

    def fork(self) -> Session:
        """A second session with the same past. Raises OutOfMemoryError, DeviceError."""
        with self._hold() as owner:
            made = handle("session_fork", owner)
        return Session(self.model, Owner(made, plain.session_free, self.model._live()))

    def reset(self) -> None:
        """Empties it. Raises DeviceError."""
        with self._change() as owner:
            call("session_reset", owner)
