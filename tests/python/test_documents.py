# SPDX-License-Identifier: Apache-2.0
"""The examples of the documents."""
from __future__ import annotations

import os
import re
import tempfile
import unittest
from pathlib import Path

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


if __name__ == "__main__":
    unittest.main()
