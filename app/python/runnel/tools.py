# SPDX-License-Identifier: Apache-2.0
"""Tools: functions of the program that a model may call. The program describes them, the model answers with calls, the
program runs them and gives the results back as messages of the role "tool". docs/tools.md says more."""
from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _structs as s
from ._handle import Exclusive, Handle, Owner
from ._library import call, handle, plain, text_of
from .constraint import Constraint
from .model import Model

_CHOICES = ("auto", "none", "required")
_KINDS = ("text", "begin", "arguments", "end", "broken")


@dataclass(frozen=True)
class ToolCall:
    """A call by the model. arguments: a JSON object, as text; `parsed` has it as a dict. id: by which a result names it, ""
    as long as the program gave none."""

    name: str
    arguments: str
    id: str = ""

    @property
    def parsed(self) -> dict[str, Any]:
        """The arguments. Raises ValueError where a schema did not keep them to an object."""
        value = json.loads(self.arguments)
        if not isinstance(value, dict):
            raise ValueError(f"the arguments of {self.name} are {self.arguments}, expected an object")
        return value


@dataclass(frozen=True)
class ToolEvent:
    """What the next text of an answer is. kind: "text" (`text` is for the reader), "begin" (a call of the tool `text`),
    "arguments" (`text` is their next part), "end" (the call is whole), "broken" (`text`, from a call's beginning on, is
    none, for a `reason`; `begun`: there was a "begin" of `call`). call: counted from 0 in the answer."""

    kind: str
    text: str
    call: int
    reason: str
    begun: bool


@dataclass(frozen=True)
class ToolAnswer:
    """An answer: its text before, between and after calls, its whole calls, and (text, reason) of what began as a call and
    is none."""

    text: str
    calls: tuple[ToolCall, ...]
    broken: tuple[tuple[str, str], ...]


class Tools(Handle):
    """Descriptions of tools, for Model.encode_chat(tools=…); immutable.

    >>> tools = Tools([{"name": "now", "description": "The time of day"}])

    definitions: a list as OpenAI's interface has it, of {"type": "function", "function": {"name": …, "description": …,
    "parameters": SCHEMA, "strict": …}} or of the inner objects; or its JSON. Raises InvalidArgumentError naming the tool's
    place and what is wrong with it.
    """

    _name = "tools"
    _pickle = "pickle their descriptions"

    def __init__(self, definitions: Sequence[Mapping[str, Any]] | str) -> None:
        data = text_of("the tools", definitions if isinstance(definitions, str) else json.dumps(list(definitions)), whole=True)
        super().__init__(Owner(handle("tools_read", data, len(data)), plain.tools_free))

    def constraint(self, model: Model, choice: str = "auto", *, parallel: bool = True) -> Constraint:
        """What keeps an answer to `choice`: "auto" (text, calls, or text and then calls), "none", "required" (calls alone)
        or the name of a tool (one call of it). Calls are whole, of tools that there are, their arguments as the schemas say.
        parallel: several in an answer, where the model's style has that.

        Raises UnsupportedError for a model without tools or a library without constraints, InvalidArgumentError for a name
        that is no tool's or a schema that is not supported."""
        number = _CHOICES.index(choice) if choice in _CHOICES else 3
        name = text_of("choice", choice)
        return Constraint._of(model, "tools_constraint", self._live(), model._live(), number, name, parallel)


class ToolReader(Exclusive):
    """Finds calls in an answer as it comes; where its text is cut makes no difference.

    >>> reader = ToolReader(model)
    >>> events = [event for piece in answer for event in reader.push(piece)] + reader.finish()
    """

    _name = "reader of calls"
    _pickle = "make it anew in the other process"

    def __init__(self, model: Model) -> None:
        super().__init__(Owner(handle("tool_reader_create", model._live()), plain.tool_reader_free))

    def push(self, text: str) -> list[ToolEvent]:
        """What the answer's next text is."""
        data = text_of("text", text, whole=True)
        return self._events("tool_reader_push", data, len(data))

    def finish(self, *, cut: bool = False) -> list[ToolEvent]:
        """It ended. cut: it would have gone on (a finish of "length"), so that a call which is not whole was cut."""
        return self._events("tool_reader_finish", cut)

    def _events(self, name: str, *arguments: Any) -> list[ToolEvent]:
        events: list[ToolEvent] = []

        def on_tool(at: Any, _user: object) -> None:
            e = at.contents
            events.append(ToolEvent(_KINDS[e.kind], s.text_at(e.text, e.bytes), e.call, e.reason.decode(), e.begun))

        with self._hold() as owner:
            call(name, owner, *arguments, s.OnTool(on_tool), None)
        return events


def read_tool_calls(model: Model, text: str, *, cut: bool = False) -> ToolAnswer:
    """All of an answer at once; `cut` as in ToolReader.finish()."""
    with ToolReader(model) as reader:
        events = reader.push(text) + reader.finish(cut=cut)
    words: list[str] = []
    open_calls: dict[int, tuple[str, list[str]]] = {}
    calls: list[ToolCall] = []
    broken: list[tuple[str, str]] = []
    for event in events:
        if event.kind == "text":
            words.append(event.text)
        elif event.kind == "begin":
            open_calls[event.call] = (event.text, [])
        elif event.kind == "arguments":
            open_calls[event.call][1].append(event.text)
        elif event.kind == "end":
            name, parts = open_calls[event.call]
            calls.append(ToolCall(name, "".join(parts)))
        else:
            broken.append((event.text, event.reason))
    return ToolAnswer("".join(words), tuple(calls), tuple(broken))
