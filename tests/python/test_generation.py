# SPDX-License-Identifier: Apache-2.0
"""Generating."""
from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
import unittest
import weakref
from collections.abc import Callable

import runnel
from support import MODEL, drawn, prompted


class Generating(unittest.TestCase):
    def test_an_iterator_gives_what_one_call_gives(self) -> None:
        for options in ({}, {"temperature": 1.2, "seed": 7, "top_p": 0.9}, {"stop": ["is"]}):
            answer = prompted().generate(max_tokens=24, **options)
            pieces = list(answer)
            self.assertEqual("".join(pieces), prompted().complete(max_tokens=24, **options))
            self.assertEqual(answer.text, "".join(pieces))
            self.assertIn(answer.finish, ("length", "end", "stop_text"))

    def test_leaving_early_leaves_the_session_after_the_last_token(self) -> None:
        session = prompted()
        before = session.position
        answer = session.generate(max_tokens=50)
        for count, _ in enumerate(answer, 1):
            if count == 4:
                break
        answer.close()
        self.assertEqual(answer.finish, "callback")
        self.assertEqual(session.position, before + len(answer.tokens))
        whole = prompted().generate(max_tokens=10)
        self.assertEqual(whole.read(), answer.text + session.complete(max_tokens=10 - len(answer.tokens)))

    def test_async(self) -> None:
        async def ask() -> str:
            return "".join([piece async for piece in prompted().agenerate(max_tokens=12)])

        self.assertEqual(asyncio.run(ask()), prompted().complete(max_tokens=12))

    def test_logprobs(self) -> None:
        answer = prompted().generate(max_tokens=3, logprobs=2)
        answer.read()
        self.assertEqual([one.token for one in answer.logprobs], answer.tokens)
        self.assertTrue(all(one.logprob <= 0 and len(one.top) == 2 for one in answer.logprobs))

    def test_wrong_options_are_named(self) -> None:
        with self.assertRaisesRegex(TypeError, "top_q"):
            prompted().generate(top_q=1)
        with self.assertRaisesRegex(runnel.InvalidArgumentError, "top_p"):
            prompted().generate(top_p=7)
        with self.assertRaises(TypeError):
            prompted().generate(stop="text")
        with self.assertRaises(runnel.InvalidArgumentError):
            MODEL.session().generate()

    def test_a_constraint_shapes_the_answer(self) -> None:
        try:
            digits = runnel.Constraint.regex(MODEL, "[0-9]{4}")
        except runnel.UnsupportedError as error:
            self.skipTest(str(error))
        self.assertRegex(prompted().complete(constraint=digits), r"\A[0-9]{4}\Z")
        with self.assertRaises(runnel.InvalidArgumentError):
            runnel.Constraint.json_schema(MODEL, {"not": {}})

    def test_another_call_ends_a_generation_that_goes_on(self) -> None:
        session, other = prompted(), prompted()
        answer = session.generate(max_tokens=50)
        for count, _ in enumerate(answer, 1):
            self.assertGreater(session.position, 0)  # looking changes nothing
            if count == 5:
                break
        session.prefill(" And")
        self.assertEqual(answer.finish, "callback")
        self.assertEqual(answer.text, other.complete(max_tokens=len(answer.tokens)))
        other.prefill(" And")
        self.assertEqual(bytes(session.logits), bytes(other.logits))
        with self.assertRaisesRegex(runnel.BusyError, "another call"):
            next(answer)

    def test_interrupts_lose_no_token(self) -> None:
        whole = prompted().generate(max_tokens=40, stop=["\n\n\n"])
        whole.read()

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        session, interrupts = prompted(), 0
        answer = session.generate(max_tokens=40, stop=["\n\n\n"])
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            while answer.finish is None:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.0007 * (interrupts % 23))
                    answer.read()
                except KeyboardInterrupt:
                    interrupts += 1
                    if interrupts > 400:  # a slow machine
                        break
            signal.setitimer(signal.ITIMER_REAL, 0)
            answer.read()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertGreater(interrupts, 3)
        self.assertEqual(answer.tokens, whole.tokens)
        self.assertEqual(answer.text, whole.text)

    def test_an_interrupt_comes_within_a_token(self) -> None:
        session = prompted()
        seen: list[int] = []

        def interrupt(*_: object) -> None:
            seen.append(len(answer.tokens))
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        answer = session.generate(max_tokens=100_000, ignore_end=True)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with self.assertRaises(KeyboardInterrupt):
                answer.read()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        answer.close()
        self.assertLessEqual(len(answer.tokens), seen[0] + 1)
        self.assertEqual(session.position, prompted().position + len(answer.tokens))

    def test_an_interrupt_ends_a_completion_and_the_session_goes_on(self) -> None:
        session = prompted()
        pieces: list[str] = []
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            session.complete(max_tokens=1_000_000, ignore_end=True, on_text=pieces.append)
        read = session.position - prompted().position
        never_stopped = prompted().complete(max_tokens=read, ignore_end=True)
        self.assertEqual("".join(pieces), never_stopped[:len("".join(pieces))])
        self.assertLessEqual(len(never_stopped) - len("".join(pieces)), 1)  # a character of which a byte was missing
        self.assertEqual(len(drawn(session, 3)), 3)

    def test_logits_are_given_to_a_callback_which_may_change_them(self) -> None:
        wanted = MODEL.encode(" banana")[0]
        seen: list[list[int]] = []

        def on_logits(logits: memoryview[float], tokens: list[int]) -> bool:
            seen.append(tokens)
            self.assertEqual(len(logits), MODEL.vocab_size)
            logits[wanted] = 1e6
            return len(tokens) < 3

        answer = prompted().generate(on_logits=on_logits)
        answer.read()
        self.assertEqual(answer.finish, "callback")
        self.assertEqual(set(answer.tokens), {wanted})
        self.assertEqual(seen[:3], [[], [wanted], [wanted] * 2])

    def test_what_a_callback_raises_ends_the_generation_and_is_the_callers(self) -> None:
        def fail(*_: object) -> None:
            raise LookupError("of the caller")

        session = prompted()
        before = session.position
        with self.assertRaisesRegex(LookupError, "of the caller"):
            session.complete(on_text=fail)
        self.assertEqual(session.position, before + 1)
        answer = session.generate(on_logits=fail)
        with self.assertRaisesRegex(LookupError, "of the caller"):
            next(answer)
        self.assertEqual(answer.finish, "callback")
        self.assertTrue(session.complete(max_tokens=2))

    def test_a_callback_may_not_use_its_session(self) -> None:
        session = prompted()
        uses: list[Callable[..., object]] = [lambda *_: session.prefill([1]), lambda *_: session.position]
        for use in uses:
            with self.assertRaises(runnel.BusyError):
                session.generate(on_logits=use).read()
            with self.assertRaises(runnel.BusyError):
                session.complete(on_text=use)
        self.assertTrue(session.complete(max_tokens=2))

    def test_what_c_would_cut_is_refused_by_name(self) -> None:
        for option, value in (("max_tokens", -1), ("top_k", 2**33), ("seed", 2**64), ("logit_bias", {2**40: 1.0})):
            with self.assertRaisesRegex(runnel.InvalidArgumentError, option):
                prompted().generate(**{option: value})
        with self.assertRaisesRegex(runnel.InvalidArgumentError, "zero byte"):
            prompted().generate(stop=["a\0b"])
        for option, wrong in (("temperature", "1"), ("max_tokens", 1.5), ("stop", [1]), ("constraint", "[0-9]"),
                              ("samplers", 1), ("logprobs", "2")):
            with self.subTest(option), self.assertRaises(TypeError):
                prompted().generate(**{option: wrong})

    def test_leaving_an_async_one_leaves_the_session_after_the_last_token(self) -> None:
        async def leave(session: runnel.Session) -> str:
            answer = session.agenerate(max_tokens=50)
            text = ""
            async for piece in answer:
                text += piece
                if len(text) > 8:
                    break
            await answer.aclose()
            return text

        async def cancel(session: runnel.Session) -> None:
            came = asyncio.Event()

            async def read() -> None:
                async for _ in session.agenerate(max_tokens=100_000, ignore_end=True):
                    came.set()

            task = asyncio.create_task(read())
            await came.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        session = prompted()
        text = asyncio.run(leave(session))
        read = session.position - prompted().position
        self.assertEqual(text, prompted().complete(max_tokens=read))
        session = prompted()
        asyncio.run(cancel(session))
        read = session.position - prompted().position
        self.assertGreater(read, 0)
        never_left = prompted()
        never_left.complete(max_tokens=read, ignore_end=True)
        self.assertEqual(drawn(session, 8), drawn(never_left, 8))

    def test_what_was_dropped_is_gone_without_a_collection(self) -> None:
        gc.disable()  # not only when the collector looks for cycles
        try:
            uses: list[Callable[[runnel.Session], object]] = [
                lambda s: s.complete(max_tokens=2, on_text=lambda _: True),
                lambda s: s.generate(max_tokens=2, logprobs=1, on_logits=lambda *_: True).read(),
                lambda s: s.prefill([1, 2], progress=lambda *_: None), lambda s: next(s.generate())
            ]
            for use in uses:
                session = prompted()
                use(session)
                gone = weakref.ref(session)
                del session
                for _ in range(1000):  # the thread that worked for it may not be through
                    if gone() is None:
                        break
                    time.sleep(0.01)
                self.assertIsNone(gone())
        finally:
            gc.enable()



if __name__ == "__main__":
    unittest.main()
