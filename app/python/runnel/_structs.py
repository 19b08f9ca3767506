# SPDX-License-Identifier: Apache-2.0
"""The structures and callbacks of runnel.h and runnel_store.h, in their order. tests/python holds them against the
headers through a C compiler."""
from __future__ import annotations

import ctypes
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_float, c_int32, c_int64, c_size_t,
                    c_uint64, c_void_p)

Token = c_int32
FILE_WINDOW = -(2**63)  # RUNNEL_FILE_WINDOW
NUL = c_size_t(-1).value  # RUNNEL_NUL

OnLoad = CFUNCTYPE(c_bool, c_float, c_void_p)
OnProgress = CFUNCTYPE(None, c_uint64, c_uint64, c_void_p)
OnText = CFUNCTYPE(c_bool, c_void_p, c_size_t, c_void_p)
OnAnswer = CFUNCTYPE(c_bool, c_size_t, c_void_p, c_size_t, c_void_p)
OnLogits = CFUNCTYPE(c_bool, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p)


class Error(Structure):
    _fields_ = [("status", c_int32), ("message", c_char * 508)]


class DeviceInfo(Structure):
    _fields_ = [("id", c_char * 32), ("backend", c_char * 32), ("name", c_char * 128), ("detail", c_char * 128),
                ("memory_bytes", c_uint64)]


class ModelOptions(Structure):
    _fields_ = [("size", c_size_t), ("device", c_char_p), ("threads", c_int32), ("memory_limit", c_uint64),
                ("on_progress", OnLoad), ("user", c_void_p), ("window_slots", c_int64), ("flags", c_uint64), ("cache_directory", c_char_p),
                ("step_program", c_char_p), ("chat_template", c_char_p)]


class ModelInfo(Structure):
    _fields_ = [("size", c_size_t), ("name", c_char * 128), ("device", c_char * 32), ("vocab_size", c_int32),
                ("parameters", c_int64), ("weight_bytes", c_uint64), ("state_bytes", c_uint64),
                ("fingerprint", c_uint64), ("has_tokenizer", c_bool), ("begin_token", Token),
                ("window_slots", c_int32), ("file_window_slots", c_int32), ("hidden_size", c_int32),
                ("chat_reason", c_char_p), ("default_system", c_char_p), ("step_program", c_char_p),
                ("memory_note", c_char_p), ("architecture", c_char * 32), ("chat_style", c_int32)]


class TokenInfo(Structure):
    _fields_ = [("size", c_size_t), ("kind", c_int32), ("is_end", c_bool), ("bytes", c_void_p),
                ("byte_count", c_size_t)]


class ToolCall(Structure):
    _fields_ = [("id", c_char_p), ("name", c_char_p), ("arguments", c_char_p)]


class ToolMessage(Structure):
    _fields_ = [("role", c_char_p), ("content", c_char_p), ("bytes", c_size_t), ("calls", POINTER(ToolCall)),
                ("call_count", c_size_t), ("call_id", c_char_p)]


class ToolEvent(Structure):
    _fields_ = [("size", c_size_t), ("kind", c_int32), ("text", c_void_p), ("bytes", c_size_t), ("call", c_size_t),
                ("reason", c_char_p), ("begun", c_bool)]


OnTool = CFUNCTYPE(None, POINTER(ToolEvent), c_void_p)


class FeedOptions(Structure):
    _fields_ = [("size", c_size_t), ("on_progress", OnProgress), ("user", c_void_p), ("stop", c_void_p)]


class Choice(Structure):
    _fields_ = [("tokens", POINTER(Token)), ("token_count", c_size_t)]


class LogitBias(Structure):
    _fields_ = [("token", Token), ("bias", c_float)]


class TokenLogprob(Structure):
    _fields_ = [("token", Token), ("logprob", c_float)]


class TextBias(Structure):
    _fields_ = [("text", c_char_p), ("bias", c_float)]


OnLogprobs = CFUNCTYPE(None, POINTER(TokenLogprob), POINTER(TokenLogprob), c_size_t, c_void_p)


class GenerationOptions(Structure):
    _fields_ = [
        ("size", c_size_t), ("max_tokens", c_uint64), ("temperature", c_float), ("top_k", c_int32), ("top_p", c_float),
        ("min_p", c_float), ("repetition_penalty", c_float), ("presence_penalty", c_float),
        ("frequency_penalty", c_float), ("penalty_window", c_int32), ("seed", c_uint64),
        ("logit_bias", POINTER(LogitBias)), ("logit_bias_count", c_size_t), ("stop_texts", POINTER(c_char_p)),
        ("stop_text_count", c_size_t), ("ignore_end", c_bool), ("on_text", OnText), ("on_logits", OnLogits),
        ("user", c_void_p), ("stop", c_void_p), ("dry_multiplier", c_float), ("dry_base", c_float),
        ("dry_allowed_length", c_int32), ("dry_range", c_int32), ("dry_breakers", POINTER(c_char_p)),
        ("dry_breaker_count", c_size_t), ("on_logprobs", OnLogprobs), ("logprobs", c_int32),
        ("logprobs_of_draw", c_bool), ("top_n_sigma", c_float), ("typical_p", c_float), ("xtc_probability", c_float),
        ("xtc_threshold", c_float), ("dynatemp_range", c_float), ("dynatemp_exponent", c_float), ("mirostat", c_int32),
        ("mirostat_tau", c_float), ("mirostat_eta", c_float), ("no_repeat_ngram", c_int32),
        ("banned_texts", POINTER(c_char_p)), ("banned_text_count", c_size_t), ("samplers", c_char_p),
        ("text_bias", POINTER(TextBias)), ("text_bias_count", c_size_t), ("constraint", c_void_p)
    ]


class GenerationResult(Structure):
    _fields_ = [("size", c_size_t), ("tokens", POINTER(Token)), ("token_capacity", c_size_t), ("held_back", c_void_p),
                ("held_back_capacity", c_size_t), ("finish", c_int32), ("token_count", c_size_t),
                ("text_bytes", c_size_t), ("held_back_bytes", c_size_t)]


class Feed(Structure):
    _fields_ = [("session", c_void_p), ("tokens", POINTER(Token)), ("token_count", c_size_t), ("generated", c_bool)]


class FeedResult(Structure):
    _fields_ = [("error", Error), ("consumed", c_uint64), ("stopped", c_bool)]


class StoreOptions(Structure):
    _fields_ = [("size", c_size_t), ("file", c_char_p), ("budget_bytes", c_uint64), ("encoding", c_int32),
                ("compress", c_bool), ("busy_timeout_ms", c_int64)]


class ConversationInfo(Structure):
    _fields_ = [("size", c_size_t), ("id", c_int64), ("name", c_char_p), ("created", c_int64), ("updated", c_int64),
                ("messages", c_int64), ("pinned", c_bool), ("head", c_int64), ("trash", c_int64)]


class MessageInfo(Structure):
    _fields_ = [("size", c_size_t), ("id", c_int64), ("parent", c_int64), ("conversation", c_int64),
                ("role", c_char_p), ("text", c_void_p), ("bytes", c_size_t), ("created", c_int64),
                ("complete", c_bool), ("pinned", c_bool), ("has_snapshot", c_bool), ("name", c_char_p)]


class BranchInfo(Structure):
    _fields_ = [("size", c_size_t), ("leaf", c_int64), ("fork", c_int64), ("messages", c_int64), ("updated", c_int64),
                ("current", c_bool), ("preview", c_char_p)]


class SearchHit(Structure):
    _fields_ = [("size", c_size_t), ("conversation", c_int64), ("message", c_int64), ("name", c_char_p),
                ("role", c_char_p), ("excerpt", c_char_p)]


class TrashInfo(Structure):
    _fields_ = [("size", c_size_t), ("id", c_int64), ("at", c_int64), ("conversation", c_int64), ("whole", c_bool),
                ("messages", c_int64), ("name", c_char_p), ("excerpt", c_char_p)]


OnConversation = CFUNCTYPE(c_bool, POINTER(ConversationInfo), c_void_p)
OnMessage = CFUNCTYPE(c_bool, POINTER(MessageInfo), c_void_p)
OnBranch = CFUNCTYPE(c_bool, POINTER(BranchInfo), c_void_p)
OnHit = CFUNCTYPE(c_bool, POINTER(SearchHit), c_void_p)
OnTrash = CFUNCTYPE(c_bool, POINTER(TrashInfo), c_void_p)
OnImported = CFUNCTYPE(None, c_int64, c_void_p)


class ForgetReport(Structure):
    _fields_ = [("size", c_size_t), ("messages", c_int64), ("snapshots", c_int64), ("log_emptied", c_bool)]


class SalvageReport(Structure):
    _fields_ = [("size", c_size_t), ("conversations", c_int64), ("messages", c_int64), ("unreadable", c_int64)]


class StoreUsage(Structure):
    _fields_ = [("size", c_size_t), ("snapshots", c_uint64), ("snapshot_bytes", c_uint64), ("pinned_bytes", c_uint64),
                ("budget_bytes", c_uint64), ("database_bytes", c_uint64)]


class ConversationOptions(Structure):
    _fields_ = [("size", c_size_t), ("system", c_char_p), ("pack", c_void_p), ("on_progress", OnProgress),
                ("user", c_void_p), ("stop", c_void_p)]


class TokenCost(Structure):
    _fields_ = [("size", c_size_t), ("replayed", c_uint64), ("relaid", c_uint64), ("fed", c_uint64),
                ("generated", c_uint64)]


class TurnOptions(Structure):
    _fields_ = [("size", c_size_t), ("generation", POINTER(GenerationOptions)), ("thinking", c_int32),
                ("on_thought", OnText), ("on_progress", OnProgress), ("user", c_void_p), ("stop", c_void_p)]


class Turn(Structure):
    _fields_ = [("size", c_size_t), ("result", POINTER(GenerationResult)), ("warning", c_void_p),
                ("warning_capacity", c_size_t), ("user", c_int64), ("answer", c_int64), ("stopped", c_bool),
                ("replayed", c_uint64), ("relaid", c_uint64), ("fed", c_uint64), ("generated", c_uint64),
                ("warning_bytes", c_size_t)]


def text_at(address: int | None, count: int) -> str:
    """UTF-8 that C gave."""
    return ctypes.string_at(address, count).decode("utf-8", "replace") if address and count else ""
