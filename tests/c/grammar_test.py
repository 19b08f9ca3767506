# SPDX-License-Identifier: Apache-2.0
"""librunnel has constraints where librunnel_grammar was loaded before it, though neither is loaded globally:
grammar_test.py LIBRUNNEL LIBRUNNEL_GRAMMAR. Each case is a process of its own."""
import ctypes
import subprocess
import sys

HAS_CONSTRAINTS = "_ZN6runnel15has_constraintsEv"  # runnel::has_constraints()

if sys.argv[1] == "--load":
    loaded = [ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL) for path in sys.argv[2:]]
    has = getattr(loaded[-1], HAS_CONSTRAINTS)
    has.restype = ctypes.c_bool
    print(has())
    sys.exit()

engine, grammar = sys.argv[1:]
needed = subprocess.run(["readelf", "-d", grammar], check=True, capture_output=True, text=True).stdout
if "[librunnel.so.0]" not in needed:
    sys.exit(f"{grammar} does not name librunnel.so.0:\n{needed}")
for paths, expected in (([grammar, engine], "True"), ([engine], "False")):
    told = subprocess.run([sys.executable, __file__, "--load", *paths], check=True, capture_output=True, text=True).stdout.strip()
    if told != expected:
        sys.exit(f"{paths}: has_constraints() is {told}, expected {expected}")
