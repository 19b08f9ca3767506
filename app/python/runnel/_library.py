# SPDX-License-Identifier: Apache-2.0
"""librunnel, through ctypes: found once, its functions with the types of their arguments."""
from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
from ctypes import POINTER, c_bool, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from . import _structs as s
from .errors import error_of

_PLACES = ("librunnel.so.0", "librunnel.so")


def _find() -> str:
    """RUNNEL_LIBRARY, the copy in runnel_cuda or in this package, or the system's."""
    named = os.environ.get("RUNNEL_LIBRARY")
    if named:
        return named
    cuda = importlib.util.find_spec("runnel_cuda")
    folders = [Path(cuda.origin).parent] if cuda is not None and cuda.origin is not None else []
    for folder in [*folders, Path(__file__).parent]:
        for name in _PLACES:
            if (folder / name).exists():
                return str(folder / name)
    return ctypes.util.find_library("runnel") or _PLACES[0]


def _load() -> ctypes.CDLL:
    path = _find()
    try:
        # What compiles constraints, where it is beside: the library asks for it while it is loaded.
        ctypes.CDLL(str(Path(path).with_name("librunnel_grammar.so.0")))
    except OSError:
        pass  # constraints are refused by name
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"librunnel was not found as {path}: install it, or name it in RUNNEL_LIBRARY ({error})") from None


_lib = _load()
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
    "model_encode_chat": [_h, POINTER(s.ChatMessage), c_size_t, c_bool, c_int32, _tokens, c_size_t, _count],
    "model_read_chat": [_h, POINTER(s.ChatMessage), c_size_t, c_size_t, c_bool, _count, _tokens, c_size_t, _count],
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


class _Functions:
    """The functions by their names without "runnel_"."""

    def __init__(self) -> None:
        for name, arguments in _CHECKED.items():
            function = getattr(_lib, "runnel_" + name)
            function.restype = c_int32
            function.argtypes = [*arguments, POINTER(s.Error)]
        for name, (result, arguments) in _PLAIN.items():
            function = getattr(_lib, "runnel_" + name)
            function.restype = result
            function.argtypes = arguments

    def __getattr__(self, name: str) -> Any:
        return getattr(_lib, "runnel_" + name)


plain = _Functions()


def call(name: str, *arguments: Any) -> None:
    """Calls a function that gives a status; raises the exception of that status."""
    error = s.Error()
    if getattr(_lib, "runnel_" + name)(*arguments, ctypes.byref(error)) != 0:
        raise error_of(error.status, error.message.decode("utf-8", "replace"))


def handle(name: str, *arguments: Any) -> c_void_p:
    """The same of one that makes a handle, which it puts where its last argument points."""
    made = c_void_p()
    call(name, *arguments, ctypes.byref(made))
    return made


def initialised(structure: Any, name: str) -> Any:
    """A sized structure with the library's defaults."""
    made = structure()
    getattr(_lib, f"runnel_{name}_init")(ctypes.byref(made), ctypes.sizeof(made))
    return made


def token_array(tokens: Any) -> Any:
    """Token ids as C has them. @raises TypeError or ValueError for what is no id."""
    ids = list(tokens)
    for token in ids:
        if not isinstance(token, int) and not hasattr(token, "__index__"):
            raise TypeError(f"a token is {token!r}, expected an int")
        if not -(2**31) <= int(token) < 2**31:
            raise ValueError(f"a token is {token!r}, expected 32 bits")
    return (c_int32 * len(ids))(*ids)
