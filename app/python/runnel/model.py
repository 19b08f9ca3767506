# SPDX-License-Identifier: Apache-2.0
"""Models: loaded once, immutable, shared by any number of sessions and threads."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import _structs as s
from ._handle import Handle, Owner, wait_for
from ._library import call, handle, initialised, path_of, plain, put_number, text_of, token_array, whole_number
from ._models import CARRIED, find
from .errors import CancelledError

if TYPE_CHECKING:
    from .session import Session
    from .tools import Tools

Progress = Callable[[float], None]
#: Of a conversation: {"role": …, "content": …}, with tools also "tool_calls" and "tool_call_id".
Messages = Sequence[Mapping[str, Any]]
_AFTER = ("start", "closed", "cut")
_STYLES = ("none", "tagged", "bare", "list", "named")


@dataclass(frozen=True)
class Device:
    """A device that a model can be loaded on: `id` is what Model(device=…) takes."""

    id: str
    backend: str
    name: str
    detail: str
    memory_bytes: int


def devices() -> list[Device]:
    """Every device of this machine, best first."""
    count = ctypes.c_size_t()
    room = (s.DeviceInfo * 64)()
    call("devices", room, 64, ctypes.byref(count))
    return [Device(d.id.decode(), d.backend.decode(), d.name.decode(), d.detail.decode(), d.memory_bytes)
            for d in room[:count.value]]


class Model(Handle):
    """A model file on a device.

    >>> model = Model("models/runnel-gsa-135m-instruct.gguf", device="cpu")
    >>> model.decode(model.encode("Hello"))
    'Hello'

    source: a path, the bytes of a file (needed only until this returns), or a descriptor of an open file, whose
        part of `length` bytes from `offset` on is read (0: to its end). "default" and "small" are the models that come
        with Runnel (wheels `runnel-model` and `runnel-model-small`); a file of such a name is "./default".
    device: as devices() lists them, or "auto".
    threads: on the CPU; 0: one per core.
    memory_limit: bytes that weights and one session may take; 0: no limit.
    window: window slots, 0 to `file_window_slots`; None: as in the file.
    progress: gets the share that is loaded, 0 to 1, on another thread; True shows a bar of tqdm.

    Raises NotFoundError, MalformedError, UnsupportedError, OutOfMemoryError, DeviceError; what `progress` raises
    stops the load and is raised here.
    """

    _name = "model"
    _pickle = "load it by its file in the other process"

    def __init__(self, source: str | os.PathLike[str] | bytes | bytearray | memoryview | int = "default", *,
                 device: str = "auto", threads: int = 0, memory_limit: int = 0, window: int | None = None,
                 cache_directory: str | os.PathLike[str] | None = None, chat_template: str | None = None,
                 offset: int = 0, length: int = 0, progress: Progress | bool | None = None) -> None:
        options = initialised(s.ModelOptions, "model_options")
        options.device = text_of("device", device)
        put_number(options, "threads", threads)
        put_number(options, "memory_limit", memory_limit)
        put_number(options, "window_slots", s.FILE_WINDOW if window is None else window)
        options.cache_directory = path_of("cache_directory", cache_directory) if cache_directory is not None else None
        options.chat_template = text_of("chat_template", chat_template) if chat_template is not None else None
        if isinstance(source, str) and source in CARRIED:
            source = find(source)
        watch = _Watch(progress)
        options.on_progress = watch.callback

        def work() -> ctypes.c_void_p:
            at = ctypes.byref(options)
            if isinstance(source, bool) or source is None:
                raise TypeError(f"a model is {source!r}, expected a path, bytes or a descriptor")
            if isinstance(source, int):
                return handle("model_load_descriptor", whole_number("source", source, ctypes.c_int32),
                              whole_number("offset", offset, ctypes.c_uint64),
                              whole_number("length", length, ctypes.c_uint64), at)
            if isinstance(source, (bytes, bytearray, memoryview)):
                data = bytes(source)
                return handle("model_load_bytes", data, len(data), at)
            return handle("model_load", path_of("source", source), at)

        try:
            made = wait_for(work, watch.stop)
        except CancelledError:
            if watch.error is not None:
                raise watch.error from None
            raise
        finally:
            watch.close()
        super().__init__(Owner(made, plain.model_free))
        self._info = initialised(s.ModelInfo, "model_info")
        call("model_get_info", self._live(), ctypes.byref(self._info))
        info = self._info
        self.name: str = info.name.decode("utf-8", "replace")  #: of the file's header
        self.device: str = info.device.decode()
        self.architecture: str = info.architecture.decode()
        self.vocab_size: int = info.vocab_size
        self.hidden_size: int = info.hidden_size  #: numbers of an embedding
        self.parameters: int = info.parameters
        self.weight_bytes: int = info.weight_bytes
        self.state_bytes: int = info.state_bytes  #: of one session, whatever its length
        self.fingerprint: int = info.fingerprint
        self.has_tokenizer: bool = info.has_tokenizer
        self.begin_token: int | None = info.begin_token if info.begin_token >= 0 else None
        self.window_slots: int = info.window_slots
        self.file_window_slots: int = info.file_window_slots
        self.step_program: str = info.step_program.decode("utf-8", "replace")  #: how one token is computed, and why
        self.default_system: str = info.default_system.decode("utf-8", "replace")

    def session(self) -> Session:
        """An empty conversation."""
        from .session import Session  # a session knows its model

        return Session(self)

    def encode(self, text: str, *, parse_special: bool = False) -> list[int]:
        """Token ids [n]. `parse_special` reads the texts of special tokens as those tokens: never with what users typed.
        Raises UnsupportedError without a tokenizer."""
        data = text_of("text", text, whole=True)
        return _sized_tokens(lambda *room: call("model_encode", self._live(), data, len(data), parse_special, *room),
                             len(data) + 8)

    def decode(self, tokens: Iterable[int], *, show_special: bool = False) -> str:
        """Their text; bytes that are no UTF-8 become U+FFFD."""
        return self.decode_bytes(tokens, show_special=show_special).decode("utf-8", "replace")

    def decode_bytes(self, tokens: Iterable[int], *, show_special: bool = False) -> bytes:
        """The same as bytes, which may end inside a character."""
        ids = token_array(tokens)
        return _sized_bytes(
            lambda *room: call("model_decode", self._live(), ids, len(ids), show_special, *room), 16 * len(ids) + 16)

    def token_bytes(self, token: int) -> bytes:
        """What a token of the vocabulary stands for. Raises InvalidArgumentError outside of it."""
        info = initialised(s.TokenInfo, "token_info")
        call("model_get_token", self._live(), whole_number("token", token, ctypes.c_int32), ctypes.byref(info))
        return ctypes.string_at(info.bytes, info.byte_count) if info.byte_count else b""

    @property
    def end_tokens(self) -> list[int]:
        """The tokens at which generation ends, ascending."""
        return _sized_tokens(lambda *room: call("model_end_tokens", self._live(), *room), 16)

    def is_end(self, token: int) -> bool:
        """Whether generation ends at this token."""
        return bool(plain.model_is_end(self._live(), whole_number("token", token, ctypes.c_int32)))

    def encode_chat(self, messages: Messages, *, add_prompt: bool = True,
                    after: Literal["start", "closed", "cut"] = "start", tools: Tools | None = None) -> list[int]:
        """Tokens of messages ({"role": …, "content": …}) in the model's chat format, and with `add_prompt` of what makes
        it answer.

        after: where they stand: at the start, behind an answer whose last token ended it, or behind one that was cut,
        which is closed first. read_chat() finds that out for a session whose messages are known.
        tools: that the model may call, the same in all of a conversation. Messages of the assistant may then have
        "tool_calls", a list of ToolCall or of {"id": …, "name": …, "arguments": …} (also within "function", as OpenAI's
        interface has them), and those of the role "tool", the results, a "tool_call_id".

        Raises UnsupportedError for a model without a chat format, or without tools where there are some;
        InvalidArgumentError for a role that it does not have.
        """
        if after not in _AFTER:
            raise ValueError(f"after is {after!r}, expected one of {', '.join(_AFTER)}")
        given = _Given(messages, tools)
        return _sized_tokens(lambda *room: call("model_encode_tool_chat", self._live(), *given.arguments, add_prompt,
                                                _AFTER.index(after), *room), 4096)

    def chat_text(self, messages: Messages, *, add_prompt: bool = True, tools: Tools | None = None) -> str:
        """The text of messages in the model's chat format, markers and all; encode(…, parse_special=True) gives its
        tokens. Raises as encode_chat()."""
        given = _Given(messages, tools)
        return _sized_bytes(lambda *room: call("model_tool_chat_text", self._live(), *given.arguments, add_prompt, *room),
                            16384).decode("utf-8", "replace")

    def read_chat(self, messages: Messages, read: int, *, closed: bool,
                  tools: Tools | None = None) -> tuple[int, list[int]]:
        """What a session that has read (or said) the first `read` messages must read to answer all of them, and how
        many of those stay as they were: if fewer than `read`, it must first stand where it was after those (0: reset).
        closed: its last token ended the answer. Raises as encode_chat()."""
        given = _Given(messages, tools)
        kept = ctypes.c_size_t()
        count = whole_number("read", read, ctypes.c_uint64)
        made = _sized_tokens(lambda *room: call("model_read_tool_chat", self._live(), *given.arguments, count, closed,
                                                ctypes.byref(kept), *room), 4096)
        return kept.value, made

    @property
    def tool_style(self) -> str:
        """How it writes calls of tools, by its chat format: "none", "tagged", "bare", "list" or "named" (docs/tools.md)."""
        return _STYLES[plain.model_tool_style(self._live())]


class _Watch:
    """A progress callback and what it raised."""

    def __init__(self, progress: Progress | bool | None) -> None:
        self.error: BaseException | None = None
        self._stopped = False
        self._bar: Any = None
        if progress is True:
            from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

            self._bar = tqdm(total=100, unit="%", desc="load")
            progress = self._show
        told = progress if callable(progress) else None

        def on_progress(share: float, _user: object) -> bool:
            if self._stopped:
                return False
            try:
                if told is not None:
                    told(share)
            except BaseException as error:  # noqa: B036: it is raised where the call was made
                self.error = error
                return False
            return True

        self.callback = s.OnLoad(on_progress)

    def _show(self, share: float) -> None:
        self._bar.update(round(100 * share) - self._bar.n)

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


class _Given:
    """Messages and tools as C has them, for as long as this lives."""

    def __init__(self, messages: Messages, tools: Tools | None) -> None:
        self._keep: list[object] = []
        array = (s.ToolMessage * len(messages))()
        for to, message in zip(array, messages):
            content = message.get("content") or ""  # OpenAI's interface has null beside calls
            data = text_of("a message", content, whole=True)
            to.role, to.content, to.bytes = self._text("a role", message["role"]), data, len(data)
            self._keep.append(data)
            if message.get("tool_call_id"):
                to.call_id = self._text("a tool_call_id", message["tool_call_id"])
            if message.get("tool_calls"):
                given = [self._call(one) for one in message["tool_calls"]]
                calls = (s.ToolCall * len(given))(*given)
                to.calls, to.call_count = calls, len(calls)
                self._keep.append(calls)
        self._keep.append(array)
        #: (array, its length, tools or NULL)
        self.arguments = (array, len(array), tools._live() if tools is not None else None)

    def _call(self, given: Any) -> s.ToolCall:
        if isinstance(given, Mapping):
            inner = given.get("function", given)
            name, arguments, number = inner["name"], inner["arguments"], given.get("id") or ""
        else:
            name, arguments, number = given.name, given.arguments, given.id
        return s.ToolCall(self._text("the id of a call", number), self._text("the name of a call", name),
                          self._text("the arguments of a call", arguments))

    def _text(self, what: str, text: object) -> bytes:
        data = text_of(what, text)
        self._keep.append(data)
        return data


def _sized_tokens(ask: Callable[..., None], room: int) -> list[int]:
    from .errors import InternalError

    count = ctypes.c_size_t()
    while True:
        array = (ctypes.c_int32 * room)()
        try:
            ask(array, room, ctypes.byref(count))
            return list(array[:count.value])
        except InternalError:
            if count.value <= room:
                raise
            room = count.value


def _sized_bytes(ask: Callable[..., None], room: int) -> bytes:
    from .errors import InternalError

    count = ctypes.c_size_t()
    while True:
        array = ctypes.create_string_buffer(room)
        try:
            ask(array, room, ctypes.byref(count))
            return array.raw[:count.value]
        except InternalError:
            if count.value <= room:
                raise
            room = count.value
