# SPDX-License-Identifier: Apache-2.0
"""The C API from Python's ctypes: ctypes_test.py LIBRARY MODEL."""
import ctypes
import sys
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char, c_char_p, c_float, c_int32, c_size_t,
                    c_uint64, c_void_p, sizeof)

OnText = CFUNCTYPE(c_bool, c_void_p, c_size_t, c_void_p)
OnLogits = CFUNCTYPE(c_bool, POINTER(c_float), c_size_t, POINTER(c_int32), c_size_t, c_void_p)


class Error(Structure):
    _fields_ = [("status", c_int32), ("message", c_char * 508)]


class GenerationOptions(Structure):
    _fields_ = [("size", c_size_t), ("max_tokens", c_uint64), ("temperature", c_float), ("top_k", c_int32),
                ("top_p", c_float), ("min_p", c_float), ("repetition_penalty", c_float),
                ("presence_penalty", c_float), ("frequency_penalty", c_float), ("penalty_window", c_int32),
                ("seed", c_uint64), ("logit_bias", c_void_p), ("logit_bias_count", c_size_t),
                ("stop_texts", POINTER(c_char_p)), ("stop_text_count", c_size_t), ("ignore_end", c_bool),
                ("on_text", OnText), ("on_logits", OnLogits), ("user", c_void_p), ("stop", c_void_p)]


library = ctypes.CDLL(sys.argv[1])
error = Error()


def call(name, *arguments):
    status = getattr(library, name)(*arguments, byref(error))
    if status != 0:
        raise RuntimeError(f"{name}: {error.message.decode()}")


library.runnel_session_position.restype = c_uint64
model, session, snapshot = c_void_p(), c_void_p(), c_void_p()
assert library.runnel_model_load(b"/nowhere.gguf", None, byref(model), byref(error)) == 2, error.status
assert b"/nowhere.gguf" in error.message, error.message
call("runnel_model_load", sys.argv[2].encode(), None, byref(model))
call("runnel_session_create", model, byref(session))
call("runnel_session_prefill_text", session, b"The capital of France is", c_size_t(-1), c_bool(False))
call("runnel_session_snapshot", session, byref(snapshot))

pieces = []
options = GenerationOptions()
library.runnel_generation_options_init(byref(options), c_size_t(sizeof(options)))
assert options.size == sizeof(options) and options.max_tokens == 256 and options.top_p == 1.0
options.max_tokens = 8
options.on_text = OnText(lambda text, count, user: pieces.append(ctypes.string_at(text, count)) or True)
call("runnel_generate", session, byref(options), None)
assert b"Paris" in b"".join(pieces), pieces

call("runnel_session_restore", session, snapshot)
assert library.runnel_session_position(session) == 5
first, pieces = pieces, []


def forbid_everything_but_42(logits, vocab, tokens, count, user):
    for token in range(vocab):
        if token != 42:
            logits[token] = float("-inf")
    return count < 1


options.on_logits = OnLogits(forbid_everything_but_42)
call("runnel_generate", session, byref(options), None)
assert library.runnel_session_position(session) == 6

for free, handle in (("snapshot", snapshot), ("session", session), ("model", model)):
    getattr(library, f"runnel_{free}_free")(handle)
print("ctypes:", b"".join(first).decode())
