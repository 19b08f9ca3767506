# SPDX-License-Identifier: Apache-2.0
"""The structures as ctypes lays them out, against the headers."""
from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from runnel import _structs
from support import ROOT


class Structures(unittest.TestCase):
    def test_lie_in_memory_as_the_headers_say(self) -> None:
        headers = "".join((ROOT / "runtime/include/runnel" / h).read_text() for h in ("runnel.h", "runnel_store.h"))
        known = {}
        for name in re.findall(r"\n} runnel_(\w+);", headers):
            python = "".join(part.capitalize() for part in name.split("_"))
            if hasattr(_structs, python):
                known[name] = getattr(_structs, python)
        self.assertGreater(len(known), 20)
        lines = []
        for name, structure in known.items():
            lines.append(f'printf("{name} %zu\\n", sizeof(runnel_{name}));')
            lines += [f'printf("{name}.{f[0]} %zu\\n", offsetof(runnel_{name}, {f[0]}));' for f in structure._fields_]
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "sizes.c"
            source.write_text("#include <stddef.h>\n#include <stdio.h>\n#include <runnel/runnel_store.h>\n#include <runnel/runnel.h>\n"
                              "int main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
            subprocess.run(["cc", "-I", str(ROOT / "runtime/include"), str(source), "-o", folder + "/sizes"], check=True)
            told = subprocess.run([folder + "/sizes"], capture_output=True, text=True, check=True).stdout
        for line in told.splitlines():
            what, size = line.split()
            name, _, field = what.partition(".")
            own = getattr(known[name], field).offset if field else ctypes.sizeof(known[name])
            self.assertEqual(own, int(size), what)


if __name__ == "__main__":
    unittest.main()
