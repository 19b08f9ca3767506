# SPDX-License-Identifier: Apache-2.0
"""The examples of LangChain and LlamaIndex, each as a program of its own, against a server of the small model. Run by
tests/slow/run frameworks, which names the program in RUNNEL_PROGRAM."""
from __future__ import annotations

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "models/runnel-gsa-135m-instruct.gguf"


class Frameworks(unittest.TestCase):
    def setUp(self) -> None:
        self.server = subprocess.Popen([os.environ["RUNNEL_PROGRAM"], "serve", str(FILE), "--device", "cpu", "--port", "0"],
                                       stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end)
        assert self.server.stdout is not None
        said = self.server.stdout.readline()
        found = re.search(r"http://[^ ,]+", said)
        assert found is not None, said
        self.base = found[0]

    def end(self) -> None:
        self.server.terminate()
        self.server.wait()
        assert self.server.stdout is not None
        self.server.stdout.close()

    def example(self, name: str) -> list[str]:
        environment = {**os.environ, "LANGCHAIN_TRACING_V2": "false", "OPENAI_API_KEY": "none"}
        done = subprocess.run([sys.executable, str(ROOT / "examples/python" / name), self.base], env=environment,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        print(done.stdout, file=sys.stderr)
        return done.stdout.splitlines()

    def test_langchain(self) -> None:
        lines = self.example("langchain_notes.py")
        self.assertGreater(len(lines[0]), 10)
        kept = [int(n) for n in re.findall(r"\((\d+) tokens kept\)", "\n".join(lines))]
        self.assertEqual(len(kept), 2)
        self.assertEqual(kept[0], 0)
        self.assertGreater(kept[1], 10)

    def test_llama_index(self) -> None:
        lines = self.example("llama_index_notes.py")
        self.assertTrue(lines[0].startswith("The lighthouse is forty metres high. -> "), lines[0])
        self.assertGreater(len("".join(lines)), 60)


if __name__ == "__main__":
    unittest.main()
