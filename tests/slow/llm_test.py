# SPDX-License-Identifier: Apache-2.0
"""The plugin in the real `llm` tool: each command is a process of its own, as in a shell. Run by tests/slow/run llm, whose
virtual environment has llm."""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import runnel

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "models/runnel-gsa-135m-instruct.gguf"
OPTIONS = ("-o", "temperature", "0", "-o", "repetition_penalty", "1", "-o", "max_tokens", "12")


class Plugin(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        # What pip leaves of a wheel: the package's name and its entry points.
        info = self.folder / "site/runnel-0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: runnel\nVersion: 0\n")
        shutil.copy(ROOT / "app/python/entry_points.txt", info)
        self.environment = {**os.environ, "LLM_USER_PATH": str(self.folder / "user"), "RUNNEL_MODEL": str(FILE),
                            "RUNNEL_DEVICE": "cpu", "PYTHONPATH": f"{self.folder / 'site'}:{ROOT / 'app/python'}"}
        self.environment.pop("LLM_LOAD_PLUGINS", None)

    def llm(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "llm", *arguments], env=self.environment, capture_output=True, text=True)

    def ask(self, *arguments: str) -> tuple[str, int, dict[str, int]]:
        """The answer, the tokens that were read, and the details."""
        done = self.llm(*arguments, *OPTIONS, "-u")
        self.assertEqual(done.returncode, 0, done.stderr)
        usage = re.search(r"Token usage: ([\d,]+) input, ([\d,]+) output(?:, (\{.*\}))?", done.stderr)
        assert usage is not None, done.stderr
        return done.stdout, int(usage[1].replace(",", "")), json.loads(usage[3] or "{}")

    def states(self) -> list[Path]:
        return list((self.folder / "user/runnel-states").glob("*"))

    def test_is_found_and_goes_on_from_the_kept_state(self) -> None:
        self.assertIn("Runnel: runnel", self.llm("models").stdout)
        first, read, kept = self.ask("-m", "runnel", "Say hello.")
        self.assertEqual(kept, {"kept": 0, "read_again": 0})
        again, read_then, kept_then = self.ask("-c", "And again.")

        # The same in one process, without any tool.
        with runnel.Model(FILE, device="cpu") as model:
            session = model.session()
            said = [{"role": "system", "content": model.default_system}] if model.default_system else []
            said.append({"role": "user", "content": "Say hello."})
            self.assertEqual(session.prefill(model.encode_chat(said)), read)
            answer = session.generate(max_tokens=12, recommended=True, temperature=0, repetition_penalty=1)
            self.assertEqual(answer.read().strip(), first.strip())
            position = session.position
            said += [{"role": "assistant", "content": answer.text}, {"role": "user", "content": "And again."}]
            _, tokens = model.read_chat(said, len(said) - 1, closed=answer.finish == "end")
            self.assertEqual((read_then, kept_then), (len(tokens), {"kept": position, "read_again": 0}))  # no token is read again
            session.prefill(tokens)
            self.assertEqual(session.complete(max_tokens=12, recommended=True, temperature=0, repetition_penalty=1).strip(),
                             again.strip())

        _, read_third, kept_third = self.ask("-c", "A third time.")
        self.assertEqual(kept_third, {"kept": position + read_then + 12, "read_again": 0})
        self.assertEqual(len(self.states()), 3)
        self.assertEqual({f.stat().st_mode & 0o777 for f in self.states()}, {0o600})

    def test_reads_again_where_the_state_is_gone(self) -> None:
        _, read, _ = self.ask("-m", "runnel", "-s", "You are brief.", "Say hello.")
        for state in self.states():
            state.unlink()
        _, read_then, kept = self.ask("-c", "And again.")
        self.assertGreaterEqual(kept["read_again"], read - 4)
        self.assertGreater(read_then, read)

    def test_keeps_as_much_as_it_may(self) -> None:
        self.environment["RUNNEL_STATES_BYTES"] = "8000000"
        for text in ("One.", "Two.", "Three."):
            self.ask("-m", "runnel", text)
        self.assertEqual(len(self.states()), 1)
        self.llm("logs", "off")
        self.ask("-m", "runnel", "Four.")
        self.assertEqual(len(self.states()), 1)

    def test_a_schema_shapes_the_answer(self) -> None:
        schema = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}
        done = self.llm("-m", "runnel", "--schema", json.dumps(schema), "-o", "max_tokens", "40", "Name a colour.")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(json.loads(done.stdout)["colour"], ("red", "blue"))

    def test_says_what_is_wrong(self) -> None:
        self.environment["RUNNEL_MODEL"] = "no-such-file.gguf"
        done = self.llm("-m", "runnel", "Hello")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no-such-file.gguf", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
