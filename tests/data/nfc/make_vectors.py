#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints vectors.json: texts and their normal form C by Python's unicodedata, and hashes over all characters.

    pip install xxhash && python3 make_vectors.py > vectors.json

`hashes`: XXH3 (64 bits) of the forms, one after the other in UTF-8, of BEFORE + character + AFTER for every Unicode scalar
value.
"""
import json
import random
import sys
import unicodedata as u

import xxhash

random.seed(15)
assert u.unidata_version >= '14'
every = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
interesting = [c for c in every if u.normalize('NFD', chr(c)) != chr(c) or u.combining(chr(c))]
marks = [c for c in every if u.combining(chr(c))]
jamo = list(range(0x1100, 0x1113)) + list(range(0x1161, 0x1176)) + list(range(0x11A8, 0x11C3)) + list(range(0xAC00, 0xAC40))
latin = [ord(c) for c in 'aeioucnsyAEIOUCNS \n1']


def text():
    pools = random.choice([(interesting,), (marks, latin), (jamo,), (interesting, latin), (marks, interesting, jamo, latin)])
    return ''.join(chr(random.choice(random.choice(pools))) for _ in range(random.randint(1, 12)))


texts = [text() for _ in range(400)]
hashes = []
for before, after in (('', ''), ('a', ''), ('', '\u0301'), ('\u1100', '\u11a8'), ('e\u0323', '\u0302'), ('\u0b47', '\u0f71')):
    h = xxhash.xxh3_64()
    for c in every:
        h.update(u.normalize('NFC', before + chr(c) + after).encode())
    hashes.append({'before': before, 'after': after, 'hash': h.hexdigest()})
out = {'unicode': u.unidata_version, 'texts': [{'text': t, 'nfc': u.normalize('NFC', t)} for t in texts], 'hashes': hashes}
json.dump(out, sys.stdout, ensure_ascii=True, indent=0)
print()
