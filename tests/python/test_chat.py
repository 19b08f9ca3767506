# SPDX-License-Identifier: Apache-2.0
"""python -m runnel chat, through pipes."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import FILE


class Chats(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def chat(self, said: str, *arguments: str) -> tuple[list[str], str]:
        """The lines of output, and what went to standard error."""
        done = subprocess.run([sys.executable, "-m", "runnel", "chat", str(FILE), "--device", "cpu", "-t", "1", "-n", "8",
                               "--temperature", "0", *arguments], input=said, capture_output=True, text=True, check=True,
                              cwd=self.folder, env={**os.environ, "XDG_DATA_HOME": self.folder})
        return done.stdout.splitlines(), done.stderr

    def test_answers_and_goes_on_from_a_snapshot(self) -> None:
        whole, errors = self.chat("Say hello.\nAnd again.\n")
        self.assertEqual(errors, "")
        first, _ = self.chat("Say hello.\n/save talk.snap\n")
        rest, _ = self.chat("And again.\n", "--load", "talk.snap")
        self.assertEqual(first + rest, whole)
        again, _ = self.chat("Say hello.\n/reset\nSay hello.\n")
        self.assertEqual(again, first + first)

    def test_answers_as_the_program_does(self) -> None:
        program = os.environ.get("RUNNEL_PROGRAM")
        if not program:
            self.skipTest("RUNNEL_PROGRAM names no program to compare with")
        for options in ([], ["--temp", "1", "--seed", "5", "--top-p", "0.9", "--repeat-penalty", "1.1"], ["--stop", "a"],
                        ["--regex", "[a-z]{3,6}"], ["--choice", "yes", "--choice", "no"], ["--system", "You rhyme.", "--json"]):
            said = "Say hello.\nAnd again.\n"
            mine, errors = self.chat(said, *options)
            done = subprocess.run([program, "chat", str(FILE), "--device", "cpu", "-t", "1", "-n", "8", "--temp", "0", *options]
                                  if "--temp" not in options else
                                  [program, "chat", str(FILE), "--device", "cpu", "-t", "1", "-n", "8", *options],
                                  input=said, capture_output=True, text=True, check=True, cwd=self.folder)
            self.assertEqual((mine, errors), (done.stdout.splitlines(), done.stderr), options)

    def test_calls_of_tools_are_shown_and_their_results_read(self) -> None:
        tools = Path(self.folder) / "tools.json"
        tools.write_text(json.dumps([{"name": "now", "description": "The time of day"}]))
        lines, errors = self.chat("What time is it?\nnoon\n", "-n", "40", "--tools", str(tools), "--tool-choice", "now")
        self.assertEqual(errors, "")
        self.assertEqual(lines[0].partition("{")[0], "call: now ")

    def test_says_what_is_wrong_and_goes_on(self) -> None:
        lines, errors = self.chat("/nothing\n/load missing.snap\n/save\n//help\n/help\n/quit\nnever said\n")
        for part in ("no command /nothing", "missing.snap", "needs a file"):
            self.assertIn(part, errors)
        self.assertIn("/reset       forget", "\n".join(lines))
        self.assertNotIn("/rewind", "\n".join(lines))

    def test_a_kept_one_goes_on(self) -> None:
        first, _ = self.chat("Say hello.\n", "--conversation", "plans")
        commands = "/list\n/again\n/branch\n/rewind\n/list\nSay goodbye.\n/edit Say \\\nhello.\n/search goodbye\n/forget 2\n/stats\n/thought\n"
        lines, errors = self.chat(commands, "--conversation", "plans")
        self.assertEqual(errors, "")
        self.assertEqual(lines[0], "1  you    Say hello.")
        self.assertTrue(lines[1].startswith("2  model  ") and lines[1].endswith("(cut short)"), lines[1])
        text = "\n".join(lines)
        for part in ("1 *  2 messages", "plans: Say «goodbye»", "last answer   8 tokens", "state         ", "There was no thought."):
            self.assertIn(part, text)


if __name__ == "__main__":
    unittest.main()
