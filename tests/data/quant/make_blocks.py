#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes blocks.json: blocks and their values by the Python package `gguf` (0.10 or later), an independent implementation.

    pip install numpy gguf && python3 make_blocks.py

`decode`: random block bytes with finite scales, and the values that gguf.quants.dequantize gives (f32 bit patterns).
`encode`: values, and the bytes that gguf.quants.quantize gives (Q8_0, Q4_0, F16, BF16; gguf does not write K blocks).
"""
import json
import os

import gguf
import numpy as np

T = gguf.GGMLQuantizationType


def bits(x):
    return np.ascontiguousarray(x, np.float32).view('<u4').tobytes().hex()


def scales(rng, n):
    """f16 scales of both signs, subnormal ones among them."""
    x = rng.standard_normal(n) * 10.0 ** rng.integers(-6, 1, n)
    return x.astype('<f2').view(np.uint8).reshape(n, 2)


def random_blocks(rng, t, n):
    bytes_of_block = gguf.GGML_QUANT_SIZES[t][1]
    b = rng.integers(0, 256, (n, bytes_of_block), dtype=np.uint8)
    at = {T.Q8_0: [0], T.Q4_0: [0], T.Q4_K: [0, 2], T.Q6_K: [208]}[t]
    for o in at:
        b[:, o:o + 2] = scales(rng, n)
    return b


def values(rng):
    """Rows of 64: ordinary, heavy-tailed, ties, zeros, one large value, tiny ones, equal extremes of both signs.

    No row of negative zeros: this package and ggml's own code give its scale different signs."""
    rows = [rng.standard_normal(64) * 0.05, rng.standard_t(2, 64), np.round(rng.standard_normal(64) * 8) / 2, np.zeros(64),
            np.eye(1, 64, 40)[0] * 3, rng.standard_normal(64) * 1e-6, np.tile([-1.0, 1.0, 0.5, -0.5], 16)]
    return np.stack(rows).astype(np.float32)


def main():
    rng = np.random.default_rng(20240917)
    out = {'decode': [], 'encode': []}
    for t in (T.Q8_0, T.Q4_0, T.Q4_K, T.Q6_K):
        n = 2 if t in (T.Q4_K, T.Q6_K) else 8
        b = random_blocks(rng, t, n)
        out['decode'].append({'type': t.name.lower(), 'bytes': b.tobytes().hex(), 'values': bits(gguf.quants.dequantize(b, t))})
    x = values(rng)
    for t in (T.Q8_0, T.Q4_0, T.F16, T.BF16):
        y = np.ascontiguousarray(gguf.quants.quantize(x, t)).view(np.uint8)
        out['encode'].append({'type': t.name.lower(), 'cols': 64, 'values': bits(x), 'bytes': y.tobytes().hex()})
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'blocks.json'), 'w') as f:
        json.dump(out, f, indent=1)
        f.write('\n')


if __name__ == '__main__':
    main()
