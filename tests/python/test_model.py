# SPDX-License-Identifier: Apache-2.0
"""Models."""
from __future__ import annotations

import contextlib
import io
import os
import unittest
from collections.abc import Callable
from typing import Any

import runnel
from support import FILE, MODEL, PROMPT, UNTYPED, prompted


class Models(unittest.TestCase):
    def test_encode_and_decode(self) -> None:
        text = "Grüße, 世界 🙂"
        self.assertEqual(MODEL.decode(MODEL.encode(text)), text)
        self.assertEqual(b"".join(MODEL.token_bytes(t) for t in MODEL.encode(text)).decode(), text)
        self.assertIn(MODEL.end_tokens[0], range(MODEL.vocab_size))
        self.assertTrue(MODEL.is_end(MODEL.end_tokens[0]))

    def test_bytes_and_descriptors_give_the_same_model(self) -> None:
        asked = prompted().complete(max_tokens=5)
        with open(FILE, "rb") as file:
            for source in (file.read(), file.fileno()):
                with runnel.Model(source, device="cpu", threads=2) as model:
                    self.assertEqual(model.fingerprint, MODEL.fingerprint)
                    session = model.session()
                    session.prefill(PROMPT)
                    self.assertEqual(session.complete(max_tokens=5), asked)

    def test_a_pipe_is_refused_by_name(self) -> None:
        read, write = os.pipe()
        try:
            with self.assertRaises(runnel.IoError):
                runnel.Model(read, device="cpu")
        finally:
            os.close(read)
            os.close(write)

    def test_errors_have_classes(self) -> None:
        with self.assertRaises(runnel.NotFoundError) as caught:
            runnel.Model("no-such-file.gguf", device="cpu")
        self.assertIn("no-such-file.gguf", str(caught.exception))
        with self.assertRaises(runnel.MalformedError):
            runnel.Model(b"this is no model", device="cpu")
        with self.assertRaises(TypeError):
            UNTYPED.Model(None)
        with self.assertRaises(TypeError):
            UNTYPED.Model.decode(MODEL, ["a"])
        with self.assertRaises(runnel.InvalidArgumentError):
            MODEL.token_bytes(MODEL.vocab_size)

    def test_progress_that_raises_stops_the_load(self) -> None:
        def progress(share: float) -> None:
            raise KeyError(share)

        with self.assertRaises(KeyError):
            runnel.Model(FILE, device="cpu", progress=progress)

    def test_a_closed_model_says_so_and_its_sessions_go_on(self) -> None:
        model = runnel.Model(FILE, device="cpu", threads=1)
        session = model.session()
        model.close()
        with self.assertRaises(runnel.ClosedError):
            model.encode("a")
        self.assertEqual(session.prefill([1, 2]), 2)

    def test_what_c_would_cut_is_refused_by_name(self) -> None:
        for option, value in (("threads", 2**32 + 1), ("memory_limit", -1), ("window", 2**64), ("offset", -1)):
            with self.assertRaisesRegex(runnel.InvalidArgumentError, "window_slots" if option == "window" else option):
                with open(FILE, "rb") as file:
                    UNTYPED.Model(file.fileno(), device="cpu", **{option: value})
        with self.assertRaisesRegex(runnel.InvalidArgumentError, "zero byte"):
            runnel.Model("models\0.gguf", device="cpu")
        self.assertEqual(MODEL.decode(MODEL.encode("a\0b")), "a\0b")

    def test_wrong_types_are_type_errors(self) -> None:
        wrong: list[Callable[[Any], object]] = [
            lambda m: UNTYPED.Model(1.5), lambda m: UNTYPED.Model(FILE, device=5),
            lambda m: UNTYPED.Model(FILE, threads="2"),
            lambda m: m.encode(b"bytes"), lambda m: m.encode(None), lambda m: m.decode("text"), lambda m: m.decode(7),
            lambda m: m.token_bytes("a"), lambda m: m.is_end(None), lambda m: m.encode_chat([{"role": "user", "content": 1}]),
            lambda m: UNTYPED.Session(None), lambda m: UNTYPED.Batch(None), lambda m: UNTYPED.Constraint.regex(m, 5)
        ]
        for number, call in enumerate(wrong):
            with self.subTest(number), self.assertRaises(TypeError):
                call(MODEL)

    def test_what_was_closed_says_so(self) -> None:
        with runnel.Model(FILE, device="cpu", threads=1) as model:
            session = model.session()
            snapshot = session.snapshot()
        uses: list[Callable[[], object]] = [lambda: model.session(), lambda: model.decode([1]), lambda: model.end_tokens]
        for use in uses:
            with self.assertRaises(runnel.ClosedError):
                use()
        session.close()
        session.close()
        snapshot.close()
        uses = [
            lambda: session.position, lambda: session.prefill([1]), lambda: session.generate(), lambda: session.logits,
            lambda: snapshot.position, lambda: snapshot.to_bytes()
        ]
        for use in uses:
            with self.assertRaises(runnel.ClosedError):
                use()

    def test_tqdm_shows_the_load(self) -> None:
        try:
            import tqdm  # noqa: F401
        except ImportError:
            self.skipTest("tqdm is not installed")
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            runnel.Model(FILE, device="cpu", threads=1, progress=True).session().prefill([5] * 600, progress=True)
        self.assertIn("load: 100%", told.getvalue())
        self.assertIn("600/600", told.getvalue())



if __name__ == "__main__":
    unittest.main()
