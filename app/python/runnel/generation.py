# SPDX-License-Identifier: Apache-2.0
"""Generating text, token by token."""
from __future__ import annotations

import ctypes
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _structs as s
from ._handle import Exclusive, Owner
from ._library import call, handle, initialised, plain, put_number, text_of, whole_number
from .constraint import Constraint
from .errors import BusyError

if TYPE_CHECKING:
    from .model import Model
    from .session import Session

#: Gets the logits of the next token, f32 [vocab_size], which it may change, and the tokens of this generation so far; what
#: is left of the view after the call has no effect. False ends the generation.
OnLogits = Callable[["memoryview[float]", "list[int]"], object]

FINISHES = ("end", "stop_text", "length", "cancelled", "callback")
_NUMBERS = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
            "penalty_window", "seed", "dry_multiplier", "dry_base", "dry_allowed_length", "dry_range", "top_n_sigma",
            "typical_p", "xtc_probability", "xtc_threshold", "dynatemp_range", "dynatemp_exponent", "mirostat",
            "mirostat_tau", "mirostat_eta", "no_repeat_ngram", "ignore_end")


@dataclass(frozen=True)
class Logprob:
    """A token of a generation with the natural logarithm of its probability, and the likeliest ones at its place."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


class Options:
    """The options of a generation as C has them, with all that they point to. `user`: whose call it will be."""

    def __init__(self, user: Exclusive, model: Model, *, max_tokens: int = 256, recommended: bool = False,
                 stop: Sequence[str] = (), logit_bias: Mapping[int | str, float] | None = None,
                 banned_texts: Sequence[str] = (), dry_breakers: Sequence[str] | None = None, samplers: str | None = None,
                 constraint: Constraint | None = None, logprobs: int | None = None, on_logits: OnLogits | None = None,
                 **numbers: float) -> None:
        self._keep: list[Any] = []
        self.logprobs: list[Logprob] = []
        self.failure: list[BaseException] = []  # of a callback
        self.ask = Asking(user, self.failure)
        o = self.c = initialised(s.GenerationOptions, "generation_options")
        if recommended:
            owner = model._live()
            call("model_sampling", owner, ctypes.byref(o))
            self._keep.append(owner)
        put_number(o, "max_tokens", max_tokens)
        for name, value in numbers.items():
            if name not in _NUMBERS:
                raise TypeError(f"generate() has no option {name!r}")
            put_number(o, name, value)
        if stop:
            o.stop_texts, o.stop_text_count = self._texts("stop", stop)
        if banned_texts:
            o.banned_texts, o.banned_text_count = self._texts("banned_texts", banned_texts)
        if dry_breakers is not None:
            o.dry_breakers, o.dry_breaker_count = self._texts("dry_breakers", dry_breakers)
        if samplers is not None:
            o.samplers = self._text("samplers", samplers)
        if logit_bias:
            self._bias(logit_bias)
        if constraint is not None:
            if not isinstance(constraint, Constraint):
                raise TypeError(f"constraint is {constraint!r}, expected a Constraint")
            owner = constraint._live()
            self._keep.append(owner)
            o.constraint = owner._as_parameter_
        if logprobs is not None:
            put_number(o, "logprobs", logprobs)
            o.on_logprobs = _logprobs_callback(self.ask, self.logprobs)
        if on_logits is not None:
            o.on_logits = _logits_callback(self.ask, on_logits, model.vocab_size)

    def _text(self, what: str, text: str) -> bytes:
        data = text_of(what, text)
        self._keep.append(data)
        return data

    def _texts(self, name: str, texts: Sequence[str]) -> tuple[Any, int]:
        if isinstance(texts, str):
            raise TypeError(f"{name} is a text, expected a list of texts")
        array = (ctypes.c_char_p * len(texts))(*[self._text(f"a text of {name}", t) for t in texts])
        self._keep.append(array)
        return array, len(texts)

    def _bias(self, bias: Mapping[int | str, float]) -> None:
        ids = [(whole_number("a token of logit_bias", k, ctypes.c_int32), v) for k, v in bias.items() if not isinstance(k, str)]
        words = [(self._text("a text of logit_bias", k), v) for k, v in bias.items() if isinstance(k, str)]
        by_id = (s.LogitBias * len(ids))(*[s.LogitBias(k, v) for k, v in ids])
        by_text = (s.TextBias * len(words))(*[s.TextBias(k, v) for k, v in words])
        self._keep += [by_id, by_text]
        self.c.logit_bias, self.c.logit_bias_count = by_id, len(ids)
        self.c.text_bias, self.c.text_bias_count = by_text, len(words)

    def raise_failure(self) -> None:
        if self.failure:
            raise self.failure.pop()


class Asking:
    """Calls a callback, which may not use `user`: False ends the generation, and so does an exception, which is kept in
    `failure` to be raised where the call was made."""

    def __init__(self, user: Exclusive, failure: list[BaseException]) -> None:
        self._user = user
        self._failure = failure

    def __call__(self, callback: Callable[..., object], *arguments: Any) -> bool:
        if self._failure:
            return False
        try:
            self._user._in_callback = True
            return callback(*arguments) is not False
        except BaseException as error:  # noqa: B036: an interrupt, too
            self._failure.append(error)
            return False
        finally:
            self._user._in_callback = False


def _logprobs_callback(ask: Asking, kept: list[Logprob]) -> Any:
    def keep(chosen: Any, top: Any, count: int) -> None:
        at = chosen.contents
        kept.append(Logprob(at.token, at.logprob, tuple((top[i].token, top[i].logprob) for i in range(count))))

    return s.OnLogprobs(lambda chosen, top, count, _user: ask(keep, chosen, top, count) and None)


def _logits_callback(ask: Asking, told: OnLogits, vocab: int) -> Any:
    room = (ctypes.c_float * vocab)()  # a view that the callback keeps must not point into the library
    view = memoryview(room).cast("B").cast("f")

    def on_logits(logits: int, count: int, tokens: int | None, token_count: int, _user: object) -> bool:
        size = 4 * min(count, vocab)
        ctypes.memmove(room, logits, size)
        ids = list((ctypes.c_int32 * token_count).from_address(tokens)) if tokens and token_count else []
        goes_on = ask(told, view, ids)
        ctypes.memmove(logits, room, size)
        return goes_on

    return s.OnLogits(on_logits)


class Generation(Iterator[str]):
    """An answer on its way: iterating gives its text in pieces of whole characters. Leaving the loop leaves the session
    after the last token whose text was given; close(), or the next call that changes the session, ends the generation
    there. One thread at a time.

    Iterating raises what a callback raised, KeyboardInterrupt after the token under way (the generation can go on, or be
    closed), BusyError after another call has changed the session, DeviceError if the device failed.
    """

    def __init__(self, session: Session, options: Options) -> None:
        self._session = session
        self._options = options
        #: None while it goes on, then "end", "stop_text", "length" or "callback" (it was closed before, or a callback
        #: ended it).
        self.finish: str | None = None
        self._said: list[tuple[int | None, str]] = []  # tokens with their texts; None: text after the last one
        self._tokens: list[int] | None = None  # all, of one that has ended
        self._due = 0  # length of _said when the step under way is through
        self._before = 0  # the session's position before that step
        self._over = False
        self._ended_by_another = False
        self._token = ctypes.c_int32()
        self._ended = ctypes.c_bool()
        self._count = ctypes.c_size_t()
        with session._change() as owner:
            made = handle("generation_create", owner, ctypes.byref(options.c))
            self._owner: Owner | None = Owner(made, plain.generation_free, owner)
            session._answer = weakref.ref(self)

    @property
    def tokens(self) -> list[int]:
        """Those of the answer so far, an end token included."""
        return list(self._tokens) if self._tokens is not None else [t for t, _ in self._said if t is not None]

    @property
    def text(self) -> str:
        """What was given so far."""
        return "".join([piece for _, piece in self._said])

    @property
    def logprobs(self) -> list[Logprob]:
        """With generate(logprobs=N), of each token so far."""
        return self._options.logprobs

    def __iter__(self) -> Generation:
        return self

    def __next__(self) -> str:
        while True:
            owner = self._owner
            if owner is None or self._over:
                self.close()
                if self._ended_by_another:
                    raise BusyError("another call has changed the session, which ended this generation")
                raise StopIteration
            with self._session._hold() as session:
                piece = self._left(owner, session)
                if piece is None:
                    self._due, self._before = len(self._said) + 1, plain.session_position(session)
                    call("generation_step", owner, ctypes.byref(self._token), ctypes.byref(self._ended))
                    piece = self._keep(owner)
            if self._options.failure:
                self.close()
                self._options.raise_failure()
            if piece:
                return piece

    def _keep(self, owner: Owner) -> str:
        """What the last step gave. An interrupt may come at any call: one append() keeps all of it."""
        at = plain.generation_text(owner, ctypes.byref(self._count))
        piece = s.text_at(at, self._count.value)
        self._over = self._ended.value
        self._said.append((None if self._over else self._token.value, piece))
        return piece

    def _left(self, owner: Owner, session: Owner) -> str | None:
        """What a step gave whose end an interrupt kept from us. None: there is no such step."""
        done = self._ended.value or plain.session_position(session) > self._before
        return self._keep(owner) if len(self._said) < self._due and done else None

    def close(self) -> None:
        """Ends it; again does nothing."""
        owner = self._owner
        if owner is None:
            return
        with self._session._hold() as session:
            self._finish(owner, session)

    def _finish(self, owner: Owner, session: Owner) -> None:
        self._left(owner, session)
        self._owner = None
        result = initialised(s.GenerationResult, "generation_result")
        room = (ctypes.c_int32 * (len(self._said) + 8))()
        result.tokens, result.token_capacity = room, len(room)
        call("generation_finish", owner, ctypes.byref(result))
        self._tokens = list(room[:min(result.token_count, len(room))])
        self.finish = FINISHES[result.finish]

    def _end_for_another(self, session: Owner) -> None:
        """The session is about to be changed, by one who holds it."""
        owner = self._owner
        if owner is not None:
            self._ended_by_another = not self._over
            self._finish(owner, session)

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # noqa: BLE001: there may be nothing to close, and nobody would see it
            pass

    def read(self) -> str:
        """All of it."""
        for _ in self:
            pass
        return self.text


class AsyncGeneration(AsyncIterator[str]):
    """The same for asyncio: each piece is computed on another thread. `async for`; aclose() leaves it early."""

    def __init__(self, generation: Generation) -> None:
        self.inner = generation

    def __aiter__(self) -> AsyncGeneration:
        return self

    async def __anext__(self) -> str:
        import asyncio  # who gets here has it

        work = asyncio.get_running_loop().run_in_executor(None, next, self.inner, None)
        try:
            piece = await asyncio.shield(work)
        except asyncio.CancelledError:
            await work  # a token is near; the session must not be in use when its owner goes on
            self.inner.close()
            raise
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        self.inner.close()
