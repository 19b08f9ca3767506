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

Progress = Callable[[float], None]
_AFTER = ("start", "closed", "cut")


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

    def encode_chat(self, messages: Sequence[Mapping[str, str]], *, add_prompt: bool = True,
                    after: Literal["start", "closed", "cut"] = "start") -> list[int]:
        """Tokens of messages ({"role": …, "content": …}) in the model's chat format, and with `add_prompt` of what makes
        it answer.

        after: where they stand: at the start, behind an answer whose last token ended it, or behind one that was cut,
        which is closed first. read_chat() finds that out for a session whose messages are known.

        Raises UnsupportedError for a model without a chat format, InvalidArgumentError for a role that it does not have.
        """
        if after not in _AFTER:
            raise ValueError(f"after is {after!r}, expected one of {', '.join(_AFTER)}")
        array, keep = _messages(messages)
        made = _sized_tokens(lambda *room: call("model_encode_chat", self._live(), array, len(array), add_prompt,
                                                _AFTER.index(after), *room),
                             4096)
        del keep
        return made

    def chat_text(self, messages: Sequence[Mapping[str, str]], *, add_prompt: bool = True) -> str:
        """The text of messages in the model's chat format, markers and all; encode(…, parse_special=True) gives its
        tokens. Raises UnsupportedError for a model without one."""
        array, keep = _messages(messages)
        made = _sized_bytes(lambda *room: call("model_chat_text", self._live(), array, len(array), add_prompt, *room), 16384)
        del keep
        return made.decode("utf-8", "replace")

    def read_chat(self, messages: Sequence[Mapping[str, str]], read: int, *, closed: bool) -> tuple[int, list[int]]:
        """What a session that has read (or said) the first `read` messages must read to answer all of them, and how
        many of those stay as they were: if fewer than `read`, it must first stand where it was after those (0: reset).
        closed: its last token ended the answer."""
        array, keep = _messages(messages)
        kept = ctypes.c_size_t()
        count = whole_number("read", read, ctypes.c_uint64)
        made = _sized_tokens(lambda *room: call("model_read_chat", self._live(), array, len(array), count, closed,
                                                ctypes.byref(kept), *room), 4096)
        del keep
        return kept.value, made


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


def _messages(messages: Sequence[Mapping[str, str]]) -> tuple[Any, list[bytes]]:
    keep: list[bytes] = []
    array = (s.ChatMessage * len(messages))()
    for to, message in zip(array, messages):
        role, content = text_of("a role", message["role"]), text_of("a message", message["content"], whole=True)
        keep += [role, content]
        to.role, to.content, to.bytes = role, content, len(content)
    return array, keep


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
