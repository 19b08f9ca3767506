# SPDX-License-Identifier: Apache-2.0
"""Generating text, token by token."""
from __future__ import annotations

import asyncio
import ctypes
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _structs as s
from ._handle import Exclusive, Owner
from ._library import call, handle, initialised, plain
from .constraint import Constraint

if TYPE_CHECKING:
    from .model import Model

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
    """The options of a generation as C has them, with all that they point to."""

    def __init__(self, model: Model, *, max_tokens: int = 256, recommended: bool = False, stop: Sequence[str] = (),
                 logit_bias: Mapping[int | str, float] | None = None, banned_texts: Sequence[str] = (),
                 dry_breakers: Sequence[str] | None = None, samplers: str | None = None,
                 constraint: Constraint | None = None, logprobs: int | None = None, **numbers: float) -> None:
        self._keep: list[Any] = []
        self.logprobs: list[Logprob] = []
        o = self.c = initialised(s.GenerationOptions, "generation_options")
        if recommended:
            owner = model._live()
            call("model_sampling", owner, ctypes.byref(o))
            self._keep.append(owner)
        o.max_tokens = max_tokens
        for name, value in numbers.items():
            if name not in _NUMBERS:
                raise TypeError(f"generate() has no option {name!r}")
            setattr(o, name, value)
        if stop:
            o.stop_texts, o.stop_text_count = self._texts("stop", stop)
        if banned_texts:
            o.banned_texts, o.banned_text_count = self._texts("banned_texts", banned_texts)
        if dry_breakers is not None:
            o.dry_breakers, o.dry_breaker_count = self._texts("dry_breakers", dry_breakers)
        if samplers is not None:
            o.samplers = self._text(samplers)
        if logit_bias:
            self._bias(logit_bias)
        if constraint is not None:
            owner = constraint._live()
            self._keep.append(owner)
            o.constraint = owner._as_parameter_
        if logprobs is not None:
            o.logprobs = logprobs
            o.on_logprobs = s.OnLogprobs(self._on_logprobs)
            self._keep.append(o.on_logprobs)

    def _text(self, text: str) -> bytes:
        data = text.encode()
        self._keep.append(data)
        return data

    def _texts(self, name: str, texts: Sequence[str]) -> tuple[Any, int]:
        if isinstance(texts, str):
            raise TypeError(f"{name} is a text, expected a list of texts")
        array = (ctypes.c_char_p * len(texts))(*[self._text(t) for t in texts])
        self._keep.append(array)
        return array, len(texts)

    def _bias(self, bias: Mapping[int | str, float]) -> None:
        ids = [(k, v) for k, v in bias.items() if not isinstance(k, str)]
        words = [(k, v) for k, v in bias.items() if isinstance(k, str)]
        by_id = (s.LogitBias * len(ids))(*[s.LogitBias(k, v) for k, v in ids])
        by_text = (s.TextBias * len(words))(*[s.TextBias(self._text(k), v) for k, v in words])
        self._keep += [by_id, by_text]
        self.c.logit_bias, self.c.logit_bias_count = by_id, len(ids)
        self.c.text_bias, self.c.text_bias_count = by_text, len(words)

    def _on_logprobs(self, chosen: Any, top: Any, count: int, _user: object) -> None:
        at = chosen.contents
        self.logprobs.append(Logprob(at.token, at.logprob, tuple((top[i].token, top[i].logprob) for i in range(count))))


class Generation(Iterator[str]):
    """An answer on its way: iterating gives its text in pieces of whole characters. Leaving the loop, or close(), leaves
    the session after the last token whose text was given. One thread at a time; the session is used by nothing else
    until it is over.

    tokens: those of the answer so far. finish: None while it goes on, then "end", "stop_text", "length" or "callback" (it
    was closed before). text: what was given so far. logprobs: with generate(logprobs=N), of each token.
    """

    def __init__(self, session: Exclusive, model: Model, options: Options) -> None:
        self._session = session
        self._options = options
        self.tokens: list[int] = []
        self.text = ""
        self.finish: str | None = None
        self._over = False
        self._token = ctypes.c_int32()
        self._ended = ctypes.c_bool()
        self._count = ctypes.c_size_t()
        with session._turn() as owner:
            made = handle("generation_create", owner, ctypes.byref(options.c))
        self._owner: Owner | None = Owner(made, plain.generation_free, owner)

    @property
    def logprobs(self) -> list[Logprob]:
        return self._options.logprobs

    def __iter__(self) -> Generation:
        return self

    def __next__(self) -> str:
        while True:
            if self._owner is None or self._over:
                self.close()
                raise StopIteration
            with self._session._turn():
                call("generation_step", self._owner, ctypes.byref(self._token), ctypes.byref(self._ended))
                if self._ended.value:
                    self._over = True
                else:
                    self.tokens.append(self._token.value)
                at = plain.generation_text(self._owner, ctypes.byref(self._count))
                piece = s.text_at(at, self._count.value)
            if piece:
                self.text += piece
                return piece

    def close(self) -> None:
        """Ends it; again does nothing."""
        owner, self._owner = self._owner, None
        if owner is None:
            return
        result = initialised(s.GenerationResult, "generation_result")
        room = (ctypes.c_int32 * (len(self.tokens) + 8))()
        result.tokens, result.token_capacity = room, len(room)
        with self._session._turn():
            call("generation_finish", owner, ctypes.byref(result))
        self.tokens = list(room[:min(result.token_count, len(room))])
        self.finish = FINISHES[result.finish]

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # noqa: BLE001: the interpreter may be going down, and nobody would see it
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
