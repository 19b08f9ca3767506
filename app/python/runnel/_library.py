# SPDX-License-Identifier: Apache-2.0
"""librunnel and librunnel_store, through ctypes: found once, their functions with the types of their arguments."""
from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import operator
import os
import threading
from ctypes import POINTER, c_bool, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from . import _structs as s
from .errors import InvalidArgumentError, UnsupportedError, error_of


def _find(name: str, variable: str, *folders: Path) -> str:
    """The one that the environment names, a copy in one of `folders`, or the system's."""
    named = os.environ.get(variable)
    if named:
        return named
    for folder in folders:
        for place in (f"lib{name}.so.0", f"lib{name}.so"):
            if (folder / place).exists():
                return str(folder / place)
    return ctypes.util.find_library(name) or f"lib{name}.so.0"


def _load() -> tuple[str, ctypes.CDLL]:
    cuda = importlib.util.find_spec("runnel_cuda")  # libraries that compute on NVIDIA GPUs, too
    folders = [Path(cuda.origin).parent] if cuda is not None and cuda.origin is not None else []
    path = _find("runnel", "RUNNEL_LIBRARY", *folders, Path(__file__).parent)
    try:
        # What compiles constraints, where it is beside: it brings the library along, which finds it while it is loaded.
        ctypes.CDLL(str(Path(path).with_name("librunnel_grammar.so.0")))
    except OSError:
        pass  # constraints are refused by name
    try:
        return path, ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"librunnel was not found as {path}: install it, or name it in RUNNEL_LIBRARY ({error})") from None


_path, _lib = _load()
_h = c_void_p  # a handle
_out = POINTER(c_void_p)
_tokens = POINTER(c_int32)
_count = POINTER(c_size_t)

# Functions that give a status and take a runnel_error last, which is not listed.
_CHECKED: dict[str, list[Any]] = {
    "stop_create": [_out],
    "devices": [POINTER(s.DeviceInfo), c_size_t, _count],
    "model_load": [c_char_p, POINTER(s.ModelOptions), _out],
    "model_load_bytes": [c_void_p, c_size_t, POINTER(s.ModelOptions), _out],
    "model_load_descriptor": [c_int, c_uint64, c_uint64, POINTER(s.ModelOptions), _out],
    "model_get_info": [_h, POINTER(s.ModelInfo)],
    "model_encode": [_h, c_char_p, c_size_t, c_bool, _tokens, c_size_t, _count],
    "model_decode": [_h, _tokens, c_size_t, c_bool, c_char_p, c_size_t, _count],
    "model_end_tokens": [_h, _tokens, c_size_t, _count],
    "model_get_token": [_h, c_int32, POINTER(s.TokenInfo)],
    "model_encode_tool_chat": [_h, POINTER(s.ToolMessage), c_size_t, _h, c_bool, c_int32, _tokens, c_size_t, _count],
    "model_read_tool_chat": [_h, POINTER(s.ToolMessage), c_size_t, _h, c_size_t, c_bool, _count, _tokens, c_size_t, _count],
    "model_tool_chat_text": [_h, POINTER(s.ToolMessage), c_size_t, _h, c_bool, c_char_p, c_size_t, _count],
    "tools_read": [c_char_p, c_size_t, _out],
    "tools_constraint": [_h, _h, c_int32, c_char_p, c_bool, _out],
    "tool_reader_create": [_h, _out],
    "tool_reader_push": [_h, c_char_p, c_size_t, s.OnTool, c_void_p],
    "tool_reader_finish": [_h, c_bool, s.OnTool, c_void_p],
    "model_sampling": [_h, POINTER(s.GenerationOptions)],
    "session_create": [_h, _out],
    "session_feed": [_h, _tokens, c_size_t, POINTER(s.FeedOptions), POINTER(c_uint64), POINTER(c_bool)],
    "session_score": [_h, _tokens, c_size_t, POINTER(c_float), c_size_t, _count],
    "session_embedding": [_h, _tokens, c_size_t, c_uint32, POINTER(c_float), c_size_t],
    "session_score_choices": [_h, POINTER(s.Choice), c_size_t, POINTER(c_double)],
    "session_get_logits": [_h, POINTER(c_void_p), _count],
    "session_reset": [_h],
    "session_fork": [_h, _out],
    "session_snapshot": [_h, _out],
    "session_restore": [_h, _h],
    "constraint_create": [_h, c_int32, c_char_p, c_size_t, c_bool, _out],
    "generate": [_h, POINTER(s.GenerationOptions), POINTER(s.GenerationResult)],
    "generation_create": [_h, POINTER(s.GenerationOptions), _out],
    "generation_step": [_h, _tokens, POINTER(c_bool)],
    "generation_finish": [_h, POINTER(s.GenerationResult)],
    "batch_create": [_h, _out],
    "batch_run": [_h, POINTER(s.Feed), c_size_t, c_void_p, POINTER(s.FeedResult)],
    "snapshot_save": [_h, c_char_p, c_int32, c_bool],
    "snapshot_load": [c_char_p, _out],
    "snapshot_to_bytes": [_h, c_int32, c_bool, c_void_p, c_size_t, _count],
    "snapshot_from_bytes": [c_void_p, c_size_t, _out],
}
# The others: what they give, what they take.
_PLAIN: dict[str, tuple[Any, list[Any]]] = {
    "version": (c_char_p, []),
    "stop_request": (None, [_h]),
    "stop_free": (None, [_h]),
    "model_free": (None, [_h]),
    "model_is_end": (c_bool, [_h, c_int32]),
    "model_tool_style": (c_int32, [_h]),
    "tools_free": (None, [_h]),
    "tool_reader_free": (None, [_h]),
    "session_free": (None, [_h]),
    "session_position": (c_uint64, [_h]),
    "session_recent": (c_void_p, [_h, _count]),
    "constraint_free": (None, [_h]),
    "generation_free": (None, [_h]),
    "generation_text": (c_void_p, [_h, _count]),
    "batch_free": (None, [_h]),
    "snapshot_free": (None, [_h]),
    "snapshot_position": (c_uint64, [_h]),
    "snapshot_fingerprint": (c_uint64, [_h]),
    "snapshot_bytes": (c_uint64, [_h]),
    "snapshot_window_slots": (c_int64, [_h]),
    "model_options_init": (None, [POINTER(s.ModelOptions), c_size_t]),
    "model_info_init": (None, [POINTER(s.ModelInfo), c_size_t]),
    "token_info_init": (None, [POINTER(s.TokenInfo), c_size_t]),
    "feed_options_init": (None, [POINTER(s.FeedOptions), c_size_t]),
    "generation_options_init": (None, [POINTER(s.GenerationOptions), c_size_t]),
    "generation_result_init": (None, [POINTER(s.GenerationResult), c_size_t]),
}



_STORE_CHECKED: dict[str, list[Any]] = {
    "store_default_file": [c_char_p, c_char_p, c_char_p, c_size_t, _count],
    "store_open": [POINTER(s.StoreOptions), _out],
    "store_list": [_h, c_bool, s.OnConversation, c_void_p],
    "store_get": [_h, c_int64, s.OnConversation, c_void_p],
    "store_find": [_h, c_char_p, POINTER(c_int64)],
    "store_tree": [_h, c_int64, s.OnMessage, c_void_p],
    "store_path": [_h, c_int64, s.OnMessage, c_void_p],
    "store_branches": [_h, c_int64, s.OnBranch, c_void_p],
    "store_search": [_h, c_char_p, c_int32, s.OnHit, c_void_p],
    "store_rename": [_h, c_int64, c_char_p],
    "store_pin": [_h, c_int64, c_bool],
    "store_pin_message": [_h, c_int64, c_bool],
    "store_name_message": [_h, c_int64, c_char_p],
    "store_set_head": [_h, c_int64, c_int64],
    "store_trash_conversation": [_h, c_int64, POINTER(c_int64)],
    "store_trash_after": [_h, c_int64, POINTER(c_int64)],
    "store_trash_from": [_h, c_int64, POINTER(c_int64)],
    "store_undo": [_h, c_int64],
    "store_forget_conversation": [_h, c_int64, POINTER(s.ForgetReport)],
    "store_forget_after": [_h, c_int64, POINTER(s.ForgetReport)],
    "store_forget_trash": [_h, c_int64, POINTER(s.ForgetReport)],
    "store_export_markdown": [_h, c_int64, c_int64, c_char_p, c_size_t, _count],
    "store_export_json": [_h, c_int64, c_char_p, c_size_t, _count],
    "store_import_json": [_h, c_char_p, c_size_t, POINTER(c_int64)],
    "store_trash": [_h, s.OnTrash, c_void_p],
    "store_forget_trash_entry": [_h, c_int64, POINTER(s.ForgetReport)],
    "store_import_chats": [_h, c_char_p, c_size_t, s.OnImported, c_void_p],
    "store_salvage": [_h, c_char_p, POINTER(s.SalvageReport)],
    "conversation_resume": [_h, POINTER(s.TurnOptions), POINTER(s.Turn)],
    "store_get_usage": [_h, POINTER(s.StoreUsage)],
    "store_set_budget": [_h, c_uint64],
    "store_vacuum": [_h],
    "conversation_create": [_h, _h, c_char_p, POINTER(s.ConversationOptions), _out],
    "conversation_open": [_h, _h, c_int64, c_int64, POINTER(s.ConversationOptions), _out],
    "conversation_open_named": [_h, _h, c_char_p, POINTER(s.ConversationOptions), _out],
    "conversation_snapshot": [_h, _out],
    "conversation_cost": [_h, POINTER(s.TokenCost)],
    "conversation_send": [_h, c_char_p, c_size_t, POINTER(s.TurnOptions), POINTER(s.Turn)],
    "conversation_add_user": [_h, c_char_p, c_size_t, POINTER(s.TurnOptions), POINTER(s.Turn)],
    "conversation_answer": [_h, POINTER(s.TurnOptions), POINTER(s.Turn)],
    "conversation_regenerate": [_h, POINTER(s.TurnOptions), POINTER(s.Turn)],
    "conversation_edit": [_h, c_int64, c_char_p, c_size_t, POINTER(s.TurnOptions), POINTER(s.Turn)],
    "conversation_rewind": [_h, c_int64, POINTER(s.ConversationOptions), POINTER(s.TokenCost)],
    "conversation_forget_after": [_h, c_int64, POINTER(s.ConversationOptions), POINTER(s.ForgetReport)],
    "pack_make": [_h, c_char_p, POINTER(c_char_p), c_size_t, POINTER(s.ConversationOptions), _out],
}
_STORE_PLAIN: dict[str, tuple[Any, list[Any]]] = {
    "store_free": (None, [_h]),
    "store_is_read_only": (c_bool, [_h]),
    "store_options_init": (None, [POINTER(s.StoreOptions), c_size_t]),
    "forget_report_init": (None, [POINTER(s.ForgetReport), c_size_t]),
    "salvage_report_init": (None, [POINTER(s.SalvageReport), c_size_t]),
    "store_usage_init": (None, [POINTER(s.StoreUsage), c_size_t]),
    "conversation_free": (None, [_h]),
    "conversation_get_id": (c_int64, [_h]),
    "conversation_head": (c_int64, [_h]),
    "conversation_position": (c_uint64, [_h]),
    "conversation_options_init": (None, [POINTER(s.ConversationOptions), c_size_t]),
    "token_cost_init": (None, [POINTER(s.TokenCost), c_size_t]),
    "turn_options_init": (None, [POINTER(s.TurnOptions), c_size_t]),
    "turn_init": (None, [POINTER(s.Turn), c_size_t]),
}

_functions: dict[str, Any] = {}  # by their names without "runnel_"


def _declare(library: ctypes.CDLL, checked: dict[str, list[Any]], others: dict[str, tuple[Any, list[Any]]]) -> None:
    known = {}
    for name, arguments in checked.items():
        known[name] = function = getattr(library, "runnel_" + name)
        function.restype = c_int32
        function.argtypes = [*arguments, POINTER(s.Error)]
    for name, (result, arguments) in others.items():
        known[name] = function = getattr(library, "runnel_" + name)
        function.restype = result
        function.argtypes = arguments
    _functions.update(known)


_declare(_lib, _CHECKED, _PLAIN)
_store_lock = threading.Lock()


def load_store() -> None:
    """Makes the functions of runnel_store.h known: librunnel_store is found where librunnel was, or named in
    RUNNEL_STORE_LIBRARY. Raises UnsupportedError where it is missing."""
    with _store_lock:
        if "store_open" in _functions:
            return
        path = _find("runnel_store", "RUNNEL_STORE_LIBRARY", Path(_path).absolute().parent, Path(__file__).parent)
        try:
            _declare(ctypes.CDLL(path), _STORE_CHECKED, _STORE_PLAIN)
        except (OSError, AttributeError) as error:
            raise UnsupportedError(f"librunnel_store was not found as {path}: install it, or name it in "
                                   f"RUNNEL_STORE_LIBRARY ({error})") from None


class _Plain:
    """The functions that give no status."""

    def __getattr__(self, name: str) -> Any:
        return _functions[name]


plain = _Plain()


def call(name: str, *arguments: Any) -> None:
    """Calls a function that gives a status; raises the exception of that status."""
    error = s.Error()
    if _functions[name](*arguments, ctypes.byref(error)) != 0:
        raise error_of(error.status, error.message.decode("utf-8", "replace"))


def handle(name: str, *arguments: Any) -> c_void_p:
    """The same of one that makes a handle, which it puts where its last argument points."""
    made = c_void_p()
    call(name, *arguments, ctypes.byref(made))
    return made


def initialised(structure: Any, name: str) -> Any:
    """A sized structure with the library's defaults."""
    made = structure()
    _functions[name + "_init"](ctypes.byref(made), ctypes.sizeof(made))
    return made


# ---- what callers give: C takes too large a number modulo its size and ends a text at a zero byte, without a word ----


def token_array(tokens: Any) -> Any:
    """Token ids as C has them. Raises TypeError or ValueError for what is no id."""
    if isinstance(tokens, (str, bytes, int)):
        raise TypeError(f"tokens are {tokens!r}, expected token ids")
    ids = list(tokens)
    for token in ids:
        if not isinstance(token, int) and not hasattr(token, "__index__"):
            raise TypeError(f"a token is {token!r}, expected an int")
        if not -(2**31) <= int(token) < 2**31:
            raise ValueError(f"a token is {token!r}, expected 32 bits")
    return (c_int32 * len(ids))(*ids)


def text_of(what: str, text: object, *, whole: bool = False) -> bytes:
    """UTF-8 of a text. whole: it goes with its length, else it may have no zero byte."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is {text!r}, expected a text")
    data = text.encode()
    if not whole and b"\0" in data:
        raise InvalidArgumentError(f"{what} has a zero byte, expected a text without one")
    return data


def path_of(what: str, path: Any) -> bytes:
    """A path as the operating system has it."""
    try:
        data = os.fsencode(path)
    except TypeError:
        raise TypeError(f"{what} is {path!r}, expected a path") from None
    if b"\0" in data:
        raise InvalidArgumentError(f"{what} has a zero byte, expected a path")
    return data


_RANGES: dict[Any, tuple[int, int]] = {
    c_int32: (-(2**31), 2**31 - 1),
    c_int64: (-(2**63), 2**63 - 1),
    c_uint64: (0, 2**64 - 1),
}


def whole_number(what: str, value: Any, kind: Any) -> int:
    """An int that `kind` (c_int32, c_int64 or c_uint64) holds."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}, expected an int") from None
    low, high = _RANGES[kind]
    if not low <= number <= high:
        raise InvalidArgumentError(f"{what} is {number}, expected {low} to {high}")
    return number


def put_number(structure: Any, name: str, value: Any) -> None:
    """structure.name = value, if it is of its type and fits."""
    kind = next(f[1] for f in structure._fields_ if f[0] == name)
    if kind in _RANGES:
        value = whole_number(name, value, kind)
    elif kind is c_bool:
        value = bool(value)
    elif isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} is {value!r}, expected a number")
    setattr(structure, name, float(value) if kind is c_float else value)
