# SPDX-License-Identifier: Apache-2.0
"""The C API (runtime/include/runnel/runnel.h) for programs that measure models: those of its structures and calls that they need.

    library = Library(SHARED); model = Model(library, 'model.gguf', device='cpu'); session = Session(model); session.feed(model.encode('Hi'))

SHARED is build/cpu/tests/c/shared/librunnel.so (target runnel_shared). An error of the library ends the program with its message.
"""
import ctypes
import os
from ctypes import Structure, byref, c_bool, c_char, c_char_p, c_float, c_int32, c_int64, c_size_t, c_uint64, c_void_p

root = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..'))
SHARED = os.path.join(root, 'build/cpu/tests/c/shared/librunnel.so')


class Error(Structure):
    _fields_ = [('status', c_int32), ('message', c_char * 508)]


class ModelOptions(Structure):
    _fields_ = [('size', c_size_t), ('device', c_char_p), ('threads', c_int32), ('memory_limit', c_uint64),
                ('on_progress', c_void_p), ('user', c_void_p), ('window_slots', c_int64)]


class ModelInfo(Structure):
    _fields_ = [('size', c_size_t), ('name', c_char * 128), ('device', c_char * 32), ('vocab_size', c_int32),
                ('parameters', c_int64), ('weight_bytes', c_uint64), ('state_bytes', c_uint64), ('fingerprint', c_uint64),
                ('has_tokenizer', c_bool), ('begin_token', c_int32), ('window_slots', c_int32), ('file_window_slots', c_int32)]


class ChatMessage(Structure):
    _fields_ = [('role', c_char_p), ('content', c_char_p), ('bytes', c_size_t)]


class GenerationOptions(Structure):
    _fields_ = [('size', c_size_t), ('max_tokens', c_uint64), ('temperature', c_float), ('top_k', c_int32), ('top_p', c_float),
                ('min_p', c_float), ('repetition_penalty', c_float), ('presence_penalty', c_float),
                ('frequency_penalty', c_float), ('penalty_window', c_int32), ('seed', c_uint64), ('logit_bias', c_void_p),
                ('logit_bias_count', c_size_t), ('stop_texts', c_void_p), ('stop_text_count', c_size_t),
                ('ignore_end', c_bool), ('on_text', c_void_p), ('on_logits', c_void_p), ('user', c_void_p), ('stop', c_void_p)]


OnText = ctypes.CFUNCTYPE(c_bool, c_void_p, c_size_t, c_void_p)


class Library:
    def __init__(self, path):
        self.so = ctypes.CDLL(path)

    def call(self, name, *arguments):
        error = Error()
        if getattr(self.so, name)(*arguments, byref(error)) != 0:
            raise SystemExit('%s: %s' % (name, error.message.decode()))

    def ids(self, name, *arguments):
        """The result of a function that fills an array of tokens."""
        room = 8192
        while True:
            array, count, error = (c_int32 * room)(), c_size_t(), Error()
            status = getattr(self.so, name)(*arguments, array, c_size_t(room), byref(count), byref(error))
            if status == 0:
                return list(array[:count.value])
            if count.value <= room:
                raise SystemExit('%s: %s' % (name, error.message.decode()))
            room = count.value


class Model:
    def __init__(self, library, path, device='cpu', threads=0, window=None):
        self.library, self.path = library, path
        self.model = c_void_p()
        load = ModelOptions()
        library.so.runnel_model_options_init(byref(load), c_size_t(ctypes.sizeof(load)))
        load.device, load.threads = device.encode(), threads
        if window is not None:
            load.window_slots = window
        library.call('runnel_model_load', path.encode(), byref(load), byref(self.model))
        self.info = ModelInfo()
        library.so.runnel_model_info_init(byref(self.info), c_size_t(ctypes.sizeof(self.info)))
        library.call('runnel_model_get_info', self.model, byref(self.info))

    def __del__(self):
        self.library.so.runnel_model_free(self.model)

    def encode(self, text, special=False):
        """With `special` the texts of special tokens in it become those tokens."""
        data = text.encode()
        return self.library.ids('runnel_model_encode', self.model, data, c_size_t(len(data)), c_bool(special))

    def decode(self, tokens):
        size = 16 * len(tokens) + 16
        text, count = ctypes.create_string_buffer(size), c_size_t()
        self.library.call('runnel_model_decode', self.model, (c_int32 * len(tokens))(*tokens), c_size_t(len(tokens)),
                          c_bool(False), text, c_size_t(size), byref(count))
        return text.raw[:count.value].decode(errors='ignore')

    def chat(self, messages):
        """Tokens of (role, text) pairs, ready for the answer."""
        array = (ChatMessage * len(messages))(*(ChatMessage(r.encode(), t.encode(), len(t.encode())) for r, t in messages))
        return self.library.ids('runnel_model_encode_chat', self.model, array, c_size_t(len(messages)), c_bool(True), c_int32(0))


class Session:
    def __init__(self, model, handle=None):
        self.model, self.library = model, model.library
        self.handle = c_void_p()
        if handle is None:
            self.library.call('runnel_session_create', model.model, byref(self.handle))
        else:
            self.library.call('runnel_session_fork', handle, byref(self.handle))

    def __del__(self):
        self.library.so.runnel_session_free(self.handle)

    def fork(self):
        return Session(self.model, self.handle)

    def feed(self, tokens):
        self.library.call('runnel_session_prefill', self.handle, (c_int32 * len(tokens))(*tokens), c_size_t(len(tokens)), None, None)

    def score(self, tokens, logits):
        """Feeds tokens; writes the logits after each one into `logits`, an array of floats [tokens, vocabulary] that has room for them."""
        count = c_size_t()
        self.library.call('runnel_session_score', self.handle, (c_int32 * len(tokens))(*tokens), c_size_t(len(tokens)), logits,
                          c_size_t(len(tokens) * self.model.info.vocab_size), byref(count))

    def greedy(self, most):
        pieces = []
        on_text = OnText(lambda text, count, user: pieces.append(ctypes.string_at(text, count)) or True)
        options = GenerationOptions()
        self.library.so.runnel_generation_options_init(byref(options), c_size_t(ctypes.sizeof(options)))
        options.max_tokens = most
        options.on_text = ctypes.cast(on_text, c_void_p)
        self.library.call('runnel_generate', self.handle, byref(options), None)
        return b''.join(pieces).decode(errors='replace')
