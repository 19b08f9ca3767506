#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes blocks.json: blocks and their values by the Python package `gguf` (0.10 or later), an independent implementation.

    pip install numpy gguf && python3 make_blocks.py

`decode`: random block bytes with finite scales, and the values that gguf.quants.dequantize gives (f32 bit patterns).
`encode`: values, and the bytes that gguf.quants.quantize gives (Q8_0, Q4_0, Q4_1, Q5_0, F16, BF16; gguf does not write K
blocks).
`many`: a checksum over the values of many blocks of each type, made from a seed as tests/support/random_blocks.h does:
SplitMix64 bytes, every scale finite, the first blocks with the edges of what a scale can be.
"""
import json
import os

import gguf
import numpy as np

T = gguf.GGMLQuantizationType


# Where the f16 scales of a block lie.
SCALES = {T.Q8_0: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.IQ4_NL: [0], T.Q2_K: [80, 82], T.Q3_K: [108],
          T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_XS: [0]}
# Zeros, the smallest and largest subnormals, the smallest normals, the largest of both signs.
EDGES = np.array([0, 0x8000, 1, 0x8001, 0x3FF, 0x83FF, 0x400, 0x8400, 0x7BFF, 0xFBFF], np.uint16)
MANY = 10240


def bits(x):
    return np.ascontiguousarray(x, np.float32).view('<u4').tobytes().hex()


def scales(rng, n):
    """f16 scales of both signs, subnormal ones among them."""
    x = rng.standard_normal(n) * 10.0 ** rng.integers(-6, 1, n)
    return x.astype('<f2').view(np.uint8).reshape(n, 2)


def random_blocks(rng, t, n):
    bytes_of_block = gguf.GGML_QUANT_SIZES[t][1]
    b = rng.integers(0, 256, (n, bytes_of_block), dtype=np.uint8)
    for o in SCALES[t]:
        b[:, o:o + 2] = scales(rng, n)
    return b


def split_mix(seed, n):
    """[n] u64: SplitMix64."""
    with np.errstate(over='ignore'):
        z = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, n + 1, dtype=np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def many_blocks(t, n):
    """Blocks as tests/support/random_blocks.h makes them: seed = type id; an exponent of all ones loses its highest bit."""
    size = gguf.GGML_QUANT_SIZES[t][1]
    b = split_mix(int(t), (n * size + 7) // 8).view(np.uint8)[:n * size].reshape(n, size).copy()
    for o in SCALES[t]:
        h = b[:, o:o + 2].copy().view('<u2')
        h[(h & 0x7C00) == 0x7C00] &= 0xBFFF
        h[:len(EDGES), 0] = EDGES
        b[:, o:o + 2] = h.view(np.uint8)
    return b


def checksum(x):
    """Sum of (bits + 1) * odd number of the place, modulo 2^64."""
    u = np.ascontiguousarray(x, np.float32).view('<u4').astype(np.uint64).ravel()
    with np.errstate(over='ignore'):
        odd = np.arange(len(u), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) | np.uint64(1)
        return int(((u + np.uint64(1)) * odd).sum(dtype=np.uint64))


def values(rng):
    """Rows of 64: ordinary, heavy-tailed, ties, zeros, one large value, tiny ones, equal extremes of both signs.

    No row of negative zeros: this package and ggml's own code give its scale different signs."""
    rows = [rng.standard_normal(64) * 0.05, rng.standard_t(2, 64), np.round(rng.standard_normal(64) * 8) / 2, np.zeros(64),
            np.eye(1, 64, 40)[0] * 3, rng.standard_normal(64) * 1e-6, np.tile([-1.0, 1.0, 0.5, -0.5], 16)]
    return np.stack(rows).astype(np.float32)


def main():
    rng = np.random.default_rng(20240917)
    out = {'decode': [], 'encode': [], 'many': []}
    for t in (T.Q8_0, T.Q4_0, T.Q4_K, T.Q6_K, T.Q4_1, T.Q5_0, T.Q5_1, T.IQ4_NL, T.Q2_K, T.Q3_K, T.Q5_K, T.IQ4_XS):
        n = 2 if gguf.GGML_QUANT_SIZES[t][0] == 256 else 8
        b = random_blocks(rng, t, n)
        out['decode'].append({'type': t.name.lower(), 'bytes': b.tobytes().hex(), 'values': bits(gguf.quants.dequantize(b, t))})
    x = values(rng)
    for t in (T.Q8_0, T.Q4_0, T.F16, T.BF16, T.Q4_1, T.Q5_0):
        y = np.ascontiguousarray(gguf.quants.quantize(x, t)).view(np.uint8)
        out['encode'].append({'type': t.name.lower(), 'cols': 64, 'values': bits(x), 'bytes': y.tobytes().hex()})
    for t in SCALES:
        sum_of_all = checksum(gguf.quants.dequantize(many_blocks(t, MANY), t))
        out['many'].append({'type': t.name.lower(), 'blocks': MANY, 'checksum': str(sum_of_all)})
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'blocks.json'), 'w') as f:
        json.dump(out, f, indent=1)
        f.write('\n')


if __name__ == '__main__':
    main()
