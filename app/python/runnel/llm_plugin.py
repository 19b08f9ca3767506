# SPDX-License-Identifier: Apache-2.0
"""A plugin for the command-line tool `llm` (https://llm.datasette.io), which finds it by the entry point "llm".

    llm -m runnel "What shall we plant?"
    llm -c "And where?"                     goes on from the kept state: only the new message is read

Models: `runnel` (the default one, or the file in RUNNEL_MODEL) and `runnel-small`. RUNNEL_DEVICE names the device, "auto" is
the default. After each answer the state is kept in llm's folder under a hash of the model and of all that was said, so that
whatever goes on with the same words goes on from there, on any branch; the least recently used ones go when all take more
than RUNNEL_STATES_BYTES (1 GB). `llm logs off` keeps none.
"""
from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import llm
from pydantic import Field

from . import Constraint, Error, Model, Session, Snapshot

_BUDGET = 1_000_000_000
_loaded: dict[tuple[str, str], Model] = {}
_loading = threading.Lock()
_NAMES = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")


@llm.hookimpl  # type: ignore[untyped-decorator, unused-ignore]
def register_models(register: Any) -> None:
    register(Runnel("runnel", os.environ.get("RUNNEL_MODEL") or "default"))
    register(Runnel("runnel-small", "small"))


class Runnel(llm.Model):  # type: ignore[misc, unused-ignore]
    """A model of llm on a model file of Runnel."""

    can_stream = True
    supports_schema = True

    class Options(llm.Options):  # type: ignore[misc, unused-ignore]
        """What is not given is as the model's file recommends."""

        max_tokens: Optional[int] = Field(default=None, ge=1, description="Tokens of the answer, at most (1,024)")
        temperature: Optional[float] = Field(default=None, ge=0, description="0: always the likeliest token")
        top_k: Optional[int] = Field(default=None, ge=0, description="Among that many of the likeliest tokens, 0: all")
        top_p: Optional[float] = Field(default=None, gt=0, le=1, description="Among the likeliest with this share together")
        min_p: Optional[float] = Field(default=None, ge=0, le=1, description="Among those this likely beside the likeliest")
        repetition_penalty: Optional[float] = Field(default=None, gt=0, description="Above 1: repeats less, 1: off")
        seed: Optional[int] = Field(default=None, ge=0, description="The same seed gives the same answer")

    def __init__(self, model_id: str, source: str) -> None:
        self.model_id = model_id
        self.source = source

    def model(self) -> Model:
        """Loaded once a process."""
        key = (self.source, os.environ.get("RUNNEL_DEVICE") or "auto")
        with _loading:
            if key not in _loaded:
                _loaded[key] = Model(key[0], device=key[1])
            return _loaded[key]

    def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any) -> Iterator[str]:
        try:
            yield from self._answer(prompt, response)
        except Error as error:
            raise llm.ModelError(f"runnel: {error}") from error

    def _answer(self, prompt: Any, response: Any) -> Iterator[str]:
        model, states = self.model(), _States()
        messages = _messages(prompt, model)
        session = model.session()
        kept, read, again = _read(session, messages, states)
        options: dict[str, Any] = {"max_tokens": prompt.options.max_tokens or 1024}
        options.update((n, getattr(prompt.options, n)) for n in _NAMES if getattr(prompt.options, n) is not None)
        if prompt.schema:
            options["constraint"] = Constraint.json_schema(model, prompt.schema)
        answer = session.generate(recommended=True, **options)
        try:
            yield from answer
        finally:
            answer.close()
            states.keep(session, [*messages, {"role": "assistant", "content": answer.text}])
            response.set_usage(input=read, output=len(answer.tokens), details={"kept": kept, "read_again": again})


def _messages(prompt: Any, model: Model) -> list[dict[str, str]]:
    """All that was said, the new message last. Tools and attachments are not for these models."""
    said = []
    for message in prompt.messages:
        text = "\n".join(part.text for part in message.parts if getattr(part, "text", None))
        if text or message.role != "system":
            said.append({"role": message.role, "content": text})
    if model.default_system and (not said or said[0]["role"] != "system"):
        said.insert(0, {"role": "system", "content": model.default_system})
    return said


def _read(session: Session, messages: list[dict[str, str]], states: _States) -> tuple[int, int, int]:
    """Brings a session to where it answers. Gives the tokens of the state it went on from, those that were read, and how many
    of these had been read or said before."""
    model = session.model
    last = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=-1) + 1
    kept = states.find(model, messages[:last]) if last else None
    if kept is not None:
        session.restore(kept)
        closed = bool(session.recent) and model.is_end(session.recent[-1])
        stays, tokens = model.read_chat(messages, last, closed=closed)
        if stays == last:
            return kept.position, session.prefill(tokens), 0
        session.reset()  # the template lays out earlier turns anew
    tokens = model.encode_chat(messages)
    again = len(model.encode_chat(messages[:last], add_prompt=False)) if last else 0
    return 0, session.prefill(tokens), again


class _States:
    """Snapshots in llm's folder, by what was said before them."""

    def __init__(self) -> None:
        self.folder = Path(llm.user_dir()) / "runnel-states"
        self.off = (Path(llm.user_dir()) / "logs-off").exists()

    def _file(self, model: Model, messages: list[dict[str, str]]) -> Path:
        said = [model.fingerprint, model.window_slots, [[m["role"], m["content"]] for m in messages]]
        return self.folder / (hashlib.sha256(json.dumps(said).encode()).hexdigest() + ".snap")

    def find(self, model: Model, messages: list[dict[str, str]]) -> Snapshot | None:
        file = self._file(model, messages)
        try:
            kept = Snapshot.load(file)
            os.utime(file)
            return kept if kept.fingerprint == model.fingerprint else None
        except (Error, OSError):
            return None  # it is read again

    def keep(self, session: Session, messages: list[dict[str, str]]) -> None:
        """Nothing of an answer is lost if this fails, as on a full disk: it is read again."""
        if self.off:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            session.snapshot().save(self._file(session.model, messages), compress=True)
            self._drop(int(os.environ.get("RUNNEL_STATES_BYTES") or _BUDGET))
        except (Error, OSError):
            pass

    def _drop(self, budget: int) -> None:
        found = sorted(((f.stat().st_mtime, f.stat().st_size, f) for f in self.folder.glob("*.snap")), reverse=True)
        for _, size, file in found:
            budget -= size
            if budget < 0:
                file.unlink(missing_ok=True)
