# SPDX-License-Identifier: Apache-2.0
"""Snapshots: files, bytes and pickles."""
from __future__ import annotations

import pickle
import pickletools
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable
from typing import Any

import runnel
from support import FILE, prompted


class Snapshots(unittest.TestCase):
    def test_a_pickle_goes_on_in_another_process_bit_for_bit(self) -> None:
        options = {"temperature": 1.1, "seed": 3}
        whole = prompted().generate(max_tokens=30, **options)
        whole.read()
        session = prompted()
        first = session.generate(max_tokens=11, **options)
        first.read()
        code = ("import pickle, sys, runnel\n"
                f"model = runnel.Model({str(FILE)!r}, device='cpu', threads=2)\n"
                "session = model.session()\n"
                "session.restore(pickle.load(sys.stdin.buffer))\n"
                f"rest = session.generate(max_tokens=19, **{options!r})\n"
                "rest.read()\n"
                "print(*rest.tokens)\n")
        done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(session.snapshot()), capture_output=True,
                              check=True)
        self.assertEqual(first.tokens + [int(t) for t in done.stdout.split()], whole.tokens)

    def test_damaged_ones_and_other_models_have_classes(self) -> None:
        data = bytearray(prompted().snapshot().to_bytes())
        data[len(data) // 2] ^= 0xFF
        with self.assertRaises(runnel.MalformedError):
            runnel.Snapshot.from_bytes(bytes(data))
        with self.assertRaises(runnel.MalformedError):
            runnel.Snapshot.from_bytes(b"")
        small = runnel.Model(FILE, device="cpu", threads=1, window=16)
        with self.assertRaises(runnel.MismatchError):
            small.session().restore(prompted().snapshot())

    def test_files(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            kept: Any = prompted().snapshot()
            kept.save(folder + "/a.snap", compress=True)
            self.assertEqual(runnel.Snapshot.load(folder + "/a.snap"), kept)
            with self.assertRaises(ValueError):
                kept.save(folder + "/b.snap", encoding="f64")

    def test_pickles_are_the_bytes_of_the_format(self) -> None:
        kept = prompted().snapshot()
        made, arguments = kept.__reduce_ex__(4)
        self.assertEqual((made, arguments), (runnel.Snapshot.from_bytes, (kept.to_bytes(), )))
        names = {argument for _, argument, _ in pickletools.genops(pickle.dumps(kept)) if isinstance(argument, str)}
        self.assertEqual(names, {"runnel.snapshot", "Snapshot.from_bytes"})
        self.assertEqual(pickle.loads(pickle.dumps(kept)), kept)

    def test_damaged_pickles_have_classes(self) -> None:
        data = bytearray(pickle.dumps(prompted().snapshot()))
        data[len(data) // 2] ^= 0xFF
        with self.assertRaises(runnel.MalformedError):
            pickle.loads(bytes(data))

    def test_wrong_types_are_type_errors(self) -> None:
        wrong: list[Callable[[Any], object]] = [
            lambda s: s.from_bytes("text"), lambda s: s.from_bytes(5),
            lambda s: s.from_bytes(None), lambda s: s.load(None), lambda s: s.save(1.5)
        ]
        kept = prompted().snapshot()
        for number, call in enumerate(wrong):
            with self.subTest(number), self.assertRaises(TypeError):
                call(kept)
        self.assertEqual(runnel.Snapshot.from_bytes(bytearray(kept.to_bytes())), kept)
        with self.assertRaises(runnel.InvalidArgumentError):
            kept.save("a\0b")



if __name__ == "__main__":
    unittest.main()
