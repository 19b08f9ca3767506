# SPDX-License-Identifier: Apache-2.0
"""Sessions, and batches of them."""
from __future__ import annotations

import gc
import os
import pickle
import signal
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import runnel
from support import MODEL, PROMPT, UNTYPED, drawn, prompted


class Sessions(unittest.TestCase):
    def test_logits_are_a_view_that_shows_the_latest(self) -> None:
        session = prompted()
        view = session.logits
        self.assertTrue(view.readonly)
        self.assertEqual((view.format, view.shape), ("f", (MODEL.vocab_size,)))
        first = view[17]
        session.prefill([42])
        self.assertNotEqual(view[17], first)
        self.assertEqual(view[17], session.logits[17])
        kept = session.snapshot()
        session.prefill([99])
        session.restore(kept)
        self.assertEqual(view[17], session.logits[17])
        session.close()
        del session
        gc.collect()
        self.assertIsInstance(view[17], float)

    def test_score_is_what_stepping_gives(self) -> None:
        tokens = MODEL.encode(" Paris, of course.")
        rows = prompted().score(tokens)
        self.assertEqual(rows.shape, (len(tokens), MODEL.vocab_size))
        session = prompted()
        session.prefill(tokens)
        last = session.logits
        self.assertLess(max(abs(rows[len(tokens) - 1, i] - last[i]) for i in range(0, MODEL.vocab_size, 97)), 0.05)

    def test_choices_and_embeddings(self) -> None:
        session = prompted()
        likely = session.score_choices([" Paris", " banana"])
        self.assertGreater(likely[0], likely[1])
        vector = MODEL.session().embedding("A cat sleeps.")
        self.assertEqual(len(vector), MODEL.hidden_size)
        self.assertAlmostEqual(sum(x * x for x in vector), 1.0, 4)

    def test_forks_and_resets(self) -> None:
        session = prompted()
        fork = session.fork()
        self.assertEqual(session.complete(max_tokens=6), fork.complete(max_tokens=6))
        session.reset()
        self.assertEqual(session.position, 0)

    def test_a_progress_that_raises_is_the_callers(self) -> None:
        session = MODEL.session()

        def progress(done: int, total: int) -> None:
            raise LookupError(done)

        with self.assertRaises(LookupError):
            session.prefill(list(range(4000)), progress=progress)
        self.assertLess(session.position, 4000)
        self.assertEqual(session.prefill([1]), 1)

    def test_an_interrupt_stops_reading_and_the_session_goes_on(self) -> None:
        session = MODEL.session()
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            for _ in range(1000):
                session.prefill([7] * 20000)
        self.assertGreaterEqual(session.position, 0)
        session.prefill(PROMPT)
        self.assertEqual(len(drawn(session, 3)), 3)

    def test_other_threads_go_on_while_one_computes(self) -> None:
        session, done = MODEL.session(), threading.Event()

        def read() -> None:
            session.prefill([3] * 300)
            done.set()

        reader = threading.Thread(target=read)
        reader.start()
        turns = 0
        while not done.is_set():
            turns += 1
            time.sleep(0.001)
        reader.join()
        self.assertGreater(turns, 10)  # one or two if the call kept the interpreter's lock

    def test_two_threads_do_not_share_a_session(self) -> None:
        session = MODEL.session()
        inside, seen = threading.Event(), []

        def progress(done: int, total: int) -> None:
            inside.set()
            time.sleep(0.05)

        reader = threading.Thread(target=lambda: session.prefill([3] * 3000, progress=progress))
        reader.start()
        inside.wait(20)
        try:
            session.snapshot()
        except runnel.BusyError as error:
            seen.append(error)
        reader.join()
        self.assertEqual(len(seen), 1)
        self.assertEqual(session.position, 3000)

    def test_a_forked_child_is_told(self) -> None:
        session = prompted()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                session.position
            except runnel.ForkedError:
                os.write(write, b"forked")
            os._exit(0)
        os.waitpid(child, 0)
        os.close(write)
        self.assertEqual(os.read(read, 20), b"forked")
        os.close(read)

    def test_nothing_but_snapshots_pickles(self) -> None:
        for one in (MODEL, prompted()):
            with self.assertRaises(TypeError):
                pickle.dumps(one)

    def test_batches_fail_feed_by_feed(self) -> None:
        one, two = MODEL.session(), MODEL.session()
        done = runnel.Batch(MODEL).run([(one, [1, 2, 3]), (two, [10**8]), (one, [4])])
        self.assertEqual(done[0].consumed, 3)
        self.assertIsNone(done[0].error)
        self.assertIsInstance(done[1].error, runnel.InvalidArgumentError)
        self.assertIsInstance(done[2].error, runnel.InvalidArgumentError)
        alone = MODEL.session()
        alone.prefill([1, 2, 3])
        self.assertEqual(bytes(alone.logits), bytes(one.logits))

    def test_sessions_that_are_dropped_take_nothing(self) -> None:
        def resident() -> int:
            gc.collect()
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        for _ in range(20):
            MODEL.session().prefill([1])
        before = resident()
        for _ in range(200):
            MODEL.session().prefill([1])
        self.assertLess(resident() - before, 4 * MODEL.state_bytes)

    def test_numpy_takes_views_which_are_read_only_and_keep_their_memory(self) -> None:
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not installed")
        session = prompted()
        view = numpy.asarray(session.logits)
        self.assertFalse(view.flags.owndata)
        self.assertEqual((view.dtype, view.shape), (numpy.float32, (MODEL.vocab_size,)))
        with self.assertRaises(ValueError):
            view[0] = 1
        with self.assertRaises(ValueError):
            view.flags.writeable = True
        before = view.copy()
        session.prefill([42])
        self.assertFalse((view == before).all())
        rows = numpy.asarray(session.score([1, 2, 3]))
        self.assertEqual(rows.shape, (3, MODEL.vocab_size))
        self.assertTrue((rows[2] == view).all())
        session.close()
        del session
        gc.collect()
        self.assertTrue((rows[2] == view).all())

    def test_wrong_types_are_type_errors(self) -> None:
        wrong: list[Callable[[Any], object]] = [
            lambda s: s.prefill(None), lambda s: s.prefill(5), lambda s: s.prefill([1.5]), lambda s: s.prefill(b"bytes"),
            lambda s: s.score("text"), lambda s: s.restore(b"bytes"), lambda s: s.restore(None),
            lambda s: s.score_choices("text"), lambda s: s.score_choices([5]), lambda s: s.embedding(None),
            lambda s: UNTYPED.Batch(MODEL).run([(s, "text")])
        ]
        session = prompted()
        for number, call in enumerate(wrong):
            with self.subTest(number), self.assertRaises(TypeError):
                call(session)
        with self.assertRaises(ValueError):
            session.prefill([2**40])
        with self.assertRaises(runnel.InvalidArgumentError):
            session.prefill([MODEL.vocab_size])
        self.assertEqual(session.position, prompted().position)

    def test_two_threads_of_generations_do_not_share_a_session(self) -> None:
        session = prompted()
        inside, go_on = threading.Event(), threading.Event()

        def wait(_piece: str) -> None:
            inside.set()
            go_on.wait(20)

        writer = threading.Thread(target=lambda: session.complete(max_tokens=2, on_text=wait))
        writer.start()
        inside.wait(20)
        uses: list[Callable[[], object]] = [lambda: session.logits, session.generate, session.reset, session.fork,
                                            lambda: runnel.Batch(MODEL).run([(session, [1])])]
        for use in uses:
            with self.assertRaises(runnel.BusyError):
                use()
        go_on.set()
        writer.join()
        self.assertEqual(session.position, prompted().position + 2)



if __name__ == "__main__":
    unittest.main()
