#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints codes.json: a hash of the codes and of the scales of every tensor of a default model's checkpoint.

    pip install numpy xxhash && python3 make_codes.py packed.safetensors > default_model_05b/codes.json

Read straight from the training checkpoint, without any of the project's code: U8 [rows, cols/2] holds 4-bit codes (byte j
of a block of 32 = code j | code j+16 << 4), I8 [rows, cols] 8-bit codes, NAME.scale the F16 scale of each block; other
tensors are plain F16 or F32. Hashes are XXH3 (64 bits) of the bytes as they lie in that file.
"""
import json
import struct
import sys

import numpy as np
import xxhash

KINDS = {'U8': 'q4_0', 'I8': 'q8_0', 'F16': 'f16', 'F32': 'f32'}


def main():
    raw = np.memmap(sys.argv[1], np.uint8, 'r')
    n = struct.unpack('<Q', bytes(raw[:8]))[0]
    head = json.loads(bytes(raw[8:8 + n]))
    head.pop('__metadata__', None)

    def digest(name):
        begin, end = head[name]['data_offsets']
        return xxhash.xxh3_64_hexdigest(raw[8 + n + begin:8 + n + end].tobytes())

    out = {}
    for name, entry in head.items():
        if name.endswith('.scale'):
            continue
        shape = list(entry['shape'])
        kind = KINDS[entry['dtype']]
        if kind == 'q4_0':
            shape[-1] *= 2
        out[name] = {'type': kind, 'shape': shape, 'codes': digest(name)}
        if name + '.scale' in head:
            out[name]['scales'] = digest(name + '.scale')
    print('{\n' + ',\n'.join('%s: %s' % (json.dumps(k), json.dumps(v)) for k, v in out.items()) + '\n}')


if __name__ == '__main__':
    main()
