# SPDX-License-Identifier: Apache-2.0
"""The examples of the documents."""
from __future__ import annotations

import inspect
import os
import re
import tempfile
import unittest
from pathlib import Path

import runnel
from support import FILE, ROOT


class Documents(unittest.TestCase):
    def test_examples_of_the_documents_run(self) -> None:
        text = (ROOT / "docs/python.md").read_text() + (ROOT / "README.md").read_text()
        examples = re.findall(r"```python\n(import runnel.*?|(?!def ).*?)```", text, re.S)
        self.assertGreater(len(examples), 3)
        names = {"__name__": "example"}
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "models").symlink_to(ROOT / "models")
            (Path(folder) / "model.gguf").symlink_to(FILE)
            before = os.getcwd()
            os.chdir(folder)
            try:
                for example in examples:
                    exec(compile(example, "docs/python.md", "exec"), names)
            finally:
                os.chdir(before)

    def test_everything_public_is_described(self) -> None:
        missing = []
        for name in runnel.__all__:
            thing = getattr(runnel, name)
            if not thing.__doc__:
                missing.append(name)
            for member, value in vars(thing).items() if isinstance(thing, type) else ():
                value = getattr(value, "__func__", value)
                if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)) and not value.__doc__:
                    missing.append(f"{name}.{member}")
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
