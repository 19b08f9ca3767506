#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_llama_model.py SHAPE TYPE OUT.gguf: a Llama model of random weights with the parameter count and block types of
runnel_make_model's, for llama-bench. Needs numpy and the gguf package.

SHAPE: 135m (SmolLM2-135M's), 340m, 1.3b. TYPE: q4_0, q8_0 or q4_k; table and head as in runnel_make_model."""
import sys

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFWriter

SHAPES = {  # layers, width, heads, kv heads, ffn, vocabulary, tied
    "135m": (30, 576, 9, 3, 1536, 49152, True),
    "340m": (24, 1024, 16, 16, 2816, 32000, True),
    "1.3b": (24, 2048, 32, 32, 5632, 32000, False),
}
BLOCKS = {T.Q4_0: (32, 18), T.Q8_0: (32, 34), T.Q4_K: (256, 144), T.Q6_K: (256, 210)}


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
    else:
        raw[..., 192:208] = 64
        raw[..., 208:] = scale(sigma / (64 * 18.5))
    return raw.reshape(rows, -1)


def main():
    shape, kind, path = sys.argv[1], T[sys.argv[2].upper()], sys.argv[3]
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

    fitting = {T.Q4_K: T.Q4_0, T.Q6_K: T.Q8_0}

    def add(name, rows, cols, wanted):
        used = fitting.get(wanted, wanted) if cols % BLOCKS[wanted][0] else wanted
        writer.add_tensor(name, blocks(rng, used, rows, cols), raw_dtype=used)

    def norm(name):
        writer.add_tensor(name, np.ones(width, np.float32))

    table = {T.Q4_0: T.Q8_0, T.Q8_0: T.Q8_0, T.Q4_K: T.Q6_K}[kind]
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
