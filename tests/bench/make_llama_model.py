#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_llama_model.py SHAPE TYPE OUT.gguf: a Llama, RWKV-7 or Mamba-2 model of random weights with the parameter count
and block types of runnel_make_model's, for llama-bench. Needs numpy and the gguf package.

SHAPE: 135m (SmolLM2-135M's), 340m, 1.3b; rwkv7 (RWKV-7 World 1.5B's), mamba2 (Mamba-2 1.3B's), both with 32,000 tokens.
TYPE: a block type in lower case, as q4_0 or q5_k, or for those two f16; table and head as in runnel_make_model."""
import sys

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFWriter

SHAPES = {  # layers, width, heads, kv heads, ffn, vocabulary, tied
    "135m": (30, 576, 9, 3, 1536, 49152, True),
    "340m": (24, 1024, 16, 16, 2816, 32000, True),
    "1.3b": (24, 2048, 32, 32, 5632, 32000, False),
}
BLOCKS = {T.Q4_0: (32, 18), T.Q8_0: (32, 34), T.Q4_K: (256, 144), T.Q6_K: (256, 210), T.Q4_1: (32, 20), T.Q5_0: (32, 22),
          T.Q5_1: (32, 24), T.IQ4_NL: (32, 18), T.Q2_K: (256, 84), T.Q3_K: (256, 110), T.Q5_K: (256, 176), T.IQ4_XS: (256, 136)}
# Where d lies, the deviation of values over d under random codes and scales, and the field beside d over d.
SCALES = {T.Q4_1: (0, 4.6, -7.5), T.Q5_0: (0, 9.2, None), T.Q5_1: (0, 9.2, -15.5), T.IQ4_NL: (0, 70, None), T.Q2_K: (80, 14, 1.5),
          T.Q3_K: (108, 43, None), T.Q5_K: (0, 520, 15.5), T.IQ4_XS: (0, 1300, None)}
# Types of table and head, and of rows that are no multiple of a block.
TABLES = {T.Q4_0: T.Q8_0, T.Q8_0: T.Q8_0, T.Q4_K: T.Q6_K, T.Q4_1: T.Q8_0, T.Q5_0: T.Q8_0, T.Q5_1: T.Q8_0, T.IQ4_NL: T.Q8_0, T.Q2_K: T.Q6_K,
          T.Q3_K: T.Q6_K, T.Q5_K: T.Q6_K, T.IQ4_XS: T.Q6_K, T.F16: T.F16}
FITTING = {T.Q4_K: T.Q4_0, T.Q6_K: T.Q8_0, T.Q5_K: T.Q5_0, T.Q2_K: T.Q4_0, T.Q3_K: T.Q4_0, T.IQ4_XS: T.Q4_0}


def blocks(rng, kind, rows, cols):
    """Random codes under constant scales; the speed does not depend on them, NaN would."""
    width, size = BLOCKS[kind]
    raw = rng.integers(0, 256, (rows, cols // width, size), dtype=np.uint8)
    sigma = 1.0 / np.sqrt(cols)
    scale = lambda f: np.frombuffer(np.float16(f).tobytes(), np.uint8)
    if kind == T.Q4_0:
        raw[..., :2] = scale(sigma / 4.61)
    elif kind == T.Q8_0:
        raw[..., :2] = scale(sigma / 73.9)
    elif kind == T.Q4_K:
        raw[..., :2] = scale(sigma / (32 * 4.61))
        raw[..., 2:4] = scale(sigma / 4.61 * 7.5 / 60)
        raw[..., 4:8] = 32 | 2 << 6
        raw[..., 8:12] = 60 | 3 << 6
        raw[..., 12:16] = 12 << 4
    elif kind in SCALES:
        at, of_d, beside = SCALES[kind]
        raw[..., at:at + 2] = scale(sigma / of_d)
        if beside is not None:
            raw[..., at + 2:at + 4] = scale(sigma / of_d * beside)
    else:
        raw[..., 192:208] = 64
        raw[..., 208:] = scale(sigma / (64 * 18.5))
    return raw.reshape(rows, -1)


class Model:
    """A file under way: what the recurrent architectures share."""

    def __init__(self, path, architecture, layers, width, ffn, kind):
        self.kind, self.rng, self.writer = kind, np.random.default_rng(1), GGUFWriter(path, architecture)
        w = self.writer
        w.add_block_count(layers)
        w.add_context_length(1 << 20)
        w.add_embedding_length(width)
        w.add_feed_forward_length(ffn)
        w.add_head_count(0)
        w.add_vocab_size(32000)
        w.add_tokenizer_model("none")
        table = TABLES[kind]
        self.matrix("token_embd.weight", 32000, width, table)
        self.matrix("output.weight", 32000, width, table)

    def matrix(self, name, rows, cols, kind=None):
        kind = kind or self.kind
        if kind == T.F16:  # both signs, 1/64 to 1/32
            bits = self.rng.integers(0, 1 << 16, (rows, cols), dtype=np.uint16) & 0xA7FF | 0x2400
            self.writer.add_tensor(name, bits.view(np.float16))
            return
        self.writer.add_tensor(name, blocks(self.rng, kind, rows, cols), raw_dtype=kind)

    def floats(self, name, shape, value=None, kind=np.float32):
        data = np.full(shape, value) if value is not None else self.rng.standard_normal(shape) / np.sqrt(shape[-1])
        self.writer.add_tensor(name, data.astype(kind))

    def close(self):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def rwkv7(path, kind):
    layers, d, ffn, ranks = 24, 2048, 8192, {"w": 96, "a": 96, "v": 64, "g": 256}
    m = Model(path, "rwkv7", layers, d, ffn, kind)
    m.writer.add_layer_norm_eps(1e-5)
    m.writer.add_wkv_head_size(64)
    m.writer.add_decay_lora_rank(ranks["w"])
    m.writer.add_iclr_lora_rank(ranks["a"])
    m.writer.add_value_residual_mix_lora_rank(ranks["v"])
    m.writer.add_gate_lora_rank(ranks["g"])
    m.writer.add_token_shift_count(2)

    def norm(name):
        m.floats(name + ".weight", (d,), 1.0)
        m.floats(name + ".bias", (d,), 0.0)

    norm("token_embd_norm")
    norm("output_norm")
    for i in range(layers):
        p = f"blk.{i}."
        norm(p + "attn_norm")
        norm(p + "attn_norm_2")
        norm(p + "time_mix_ln")
        for c, rank in ranks.items():
            rank = ranks["a"] if c == "v" and i == 0 else rank
            if c != "g":
                m.floats(p + f"time_mix_{c}0.weight", (d,), 0.0)
            m.floats(p + f"time_mix_{c}1.weight", (rank, d), kind=np.float16)
            m.floats(p + f"time_mix_{c}2.weight", (d, rank), kind=np.float16)
        m.floats(p + "time_mix_lerp_fused.weight", (6, 1, 1, d), 0.5)
        for c in ("k_k", "k_a", "r_k"):
            m.floats(p + f"time_mix_{c}.weight", (d,), 0.5)
        for c in ("key", "value", "receptance", "output"):
            m.matrix(p + f"time_mix_{c}.weight", d, d)
        m.floats(p + "channel_mix_lerp_k.weight", (1, 1, d), 0.5)
        m.matrix(p + "channel_mix_key.weight", ffn, d)
        m.matrix(p + "channel_mix_value.weight", d, ffn)
    m.close()


def mamba2(path, kind):
    layers, d, inner, state, heads, taps = 48, 2048, 4096, 128, 64, 4
    m = Model(path, "mamba2", layers, d, 0, kind)
    m.writer.add_layer_norm_rms_eps(1e-5)
    m.writer.add_ssm_conv_kernel(taps)
    m.writer.add_ssm_inner_size(inner)
    m.writer.add_ssm_state_size(state)
    m.writer.add_ssm_time_step_rank(heads)
    m.writer.add_ssm_group_count(1)
    m.floats("output_norm.weight", (d,), 1.0)
    for i in range(layers):
        p = f"blk.{i}."
        m.floats(p + "attn_norm.weight", (d,), 1.0)
        m.matrix(p + "ssm_in.weight", 2 * inner + 2 * state + heads, d)
        m.floats(p + "ssm_conv1d.weight", (inner + 2 * state, taps))
        m.floats(p + "ssm_conv1d.bias", (inner + 2 * state,), 0.0)
        m.floats(p + "ssm_dt.bias", (heads,), 0.0)
        m.floats(p + "ssm_a", (heads, 1), -1.0)
        m.floats(p + "ssm_d", (heads, 1), 1.0)
        m.floats(p + "ssm_norm.weight", (1, inner), 1.0)
        m.matrix(p + "ssm_out.weight", d, inner)
    m.close()


def main():
    shape, kind, path = sys.argv[1], T[sys.argv[2].upper()], sys.argv[3]
    if shape in ("rwkv7", "mamba2"):
        (rwkv7 if shape == "rwkv7" else mamba2)(path, kind)
        return
    layers, width, heads, kv_heads, ffn, vocab, tied = SHAPES[shape]
    rng = np.random.default_rng(1)
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(layers)
    writer.add_context_length(32768)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(100000.0)
    writer.add_rope_dimension_count(width // heads)
    writer.add_vocab_size(vocab)
    writer.add_tokenizer_model("none")

    def add(name, rows, cols, wanted):
        used = FITTING.get(wanted, wanted) if cols % BLOCKS[wanted][0] else wanted
        writer.add_tensor(name, blocks(rng, used, rows, cols), raw_dtype=used)

    def norm(name):
        writer.add_tensor(name, np.ones(width, np.float32))

    table = TABLES[kind]
    kv = width // heads * kv_heads
    add("token_embd.weight", vocab, width, table)
    for i in range(layers):
        p = f"blk.{i}."
        norm(p + "attn_norm.weight")
        add(p + "attn_q.weight", width, width, kind)
        add(p + "attn_k.weight", kv, width, kind)
        add(p + "attn_v.weight", kv, width, kind)
        add(p + "attn_output.weight", width, width, kind)
        norm(p + "ffn_norm.weight")
        add(p + "ffn_gate.weight", ffn, width, kind)
        add(p + "ffn_up.weight", ffn, width, kind)
        add(p + "ffn_down.weight", width, ffn, kind)
    norm("output_norm.weight")
    if not tied:
        add("output.weight", vocab, width, table)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
