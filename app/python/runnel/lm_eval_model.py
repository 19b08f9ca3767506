# SPDX-License-Identifier: Apache-2.0
"""An adapter for the Language Model Evaluation Harness (`lm_eval`), and its command with this model:

    python -m runnel.lm_eval_model run --model runnel --model_args file=model.gguf --tasks lambada_openai,arc_easy

Contexts are read once, whatever is asked after them; what follows one is encoded by itself, so that each item has the value
that `runnel score` prints. A context has no length limit.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from . import Model, Session

_ROWS = 128  # of logits at once


@register_model("runnel")  # type: ignore[untyped-decorator, unused-ignore]
class RunnelLM(LM):  # type: ignore[misc, unused-ignore]
    """A model of the harness on a model file: file, device, threads and window are those of runnel.Model."""

    def __init__(self, file: str = "default", device: str | None = None, threads: int = 0, window: int | None = None,
                 **_: object) -> None:
        super().__init__()
        self.model = Model(file, device=device or "auto", threads=threads, window=window)
        begin = self.model.begin_token
        self._first = begin if begin is not None else self.model.end_tokens[0]  # before a text without a context

    def _after(self, context: str) -> Session:
        session = self.model.session()
        session.prefill(self.model.encode(context, parse_special=True) or [self._first])
        return session

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """For each (context, continuation): the sum of the logarithms of its tokens' probabilities, and whether each is
        the likeliest."""
        pairs = [_joined(*request.args) for request in requests]
        results: list[tuple[float, bool]] = [(0.0, False)] * len(pairs)
        groups: dict[str, list[int]] = {}
        for at, (context, _) in enumerate(pairs):
            groups.setdefault(context, []).append(at)
        for context, members in _shown(groups.items(), "Contexts", disable_tqdm):
            session = self._after(context)
            texts = [self.model.encode(pairs[at][1], parse_special=True) for at in members]
            for at, tokens, nats in zip(members, texts, session.score_choices(texts)):
                results[at] = nats, _is_greedy(session, tokens)
        for request, result in zip(requests, results):
            self.cache_hook.add_partial("loglikelihood", request.args, result)
        return results

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        """The same of whole texts, each behind the token that begins one."""
        results = []
        for request in _shown(requests, "Texts", disable_tqdm):
            tokens = [self._first, *self.model.encode(request.args[0], parse_special=True)]
            session, nats = self.model.session(), 0.0
            for at in range(0, len(tokens) - 1, _ROWS):
                wanted = tokens[at + 1:at + 1 + _ROWS]
                rows = numpy.asarray(session.score(tokens[at:at + len(wanted)]))
                most = rows.max(axis=1)
                said = rows[numpy.arange(len(wanted)), wanted]
                nats -= float(numpy.sum(numpy.log(numpy.exp(rows - most[:, None]).sum(axis=1, dtype=numpy.float64)) -
                                        (said - most)))
            results.append(nats)
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, nats)
        return results

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """The text that follows each context, up to the first of `until` or max_gen_toks (256) tokens."""
        results = []
        for request in _shown(requests, "Answers", disable_tqdm):
            context, wanted = request.args
            until = wanted.get("until") or []
            temperature = float(wanted.get("temperature") or 0.0) if wanted.get("do_sample") else 0.0
            text = self._after(context).complete(
                max_tokens=int(wanted.get("max_gen_toks") or 256), temperature=temperature,
                top_p=float(wanted.get("top_p") or 1.0), stop=[until] if isinstance(until, str) else list(until))
            results.append(text)
            self.cache_hook.add_partial("generate_until", request.args, text)
        return results

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """A chat as the model's file lays it out."""
        return self.model.chat_text(chat_history, add_prompt=add_generation_prompt)

    @property
    def tokenizer_name(self) -> str:
        return f"{self.model.name} {self.model.fingerprint:016x}"


def _joined(context: str, continuation: str) -> tuple[str, str]:
    """Spaces at a context's end belong to what follows, as in the harness's other models."""
    end = len(context.rstrip())
    return context[:end], context[end:] + continuation


def _is_greedy(session: Session, tokens: list[int]) -> bool:
    """Whether greedy decoding would say them."""
    if not tokens or not _is_likeliest(session.logits, tokens[0]):
        return not tokens
    fork = session.fork()
    for at in range(0, len(tokens) - 1, _ROWS):
        chunk = tokens[at:min(at + _ROWS, len(tokens) - 1)]
        rows = fork.score(chunk)
        if not all(_is_likeliest(row, tokens[at + 1 + i]) for i, row in enumerate(numpy.asarray(rows))):
            return False
    return True


def _is_likeliest(logits: Any, token: int) -> bool:
    row = numpy.asarray(logits)
    return bool(row[token] == row.max())


def _shown(what: Any, name: str, disable: bool) -> Any:
    from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

    return tqdm(what, desc=name, disable=disable)


def main() -> None:
    """The command `lm-eval`, which knows this model then."""
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()


if __name__ == "__main__":
    main()
