# SPDX-License-Identifier: Apache-2.0
"""The Python package over the built library and the small model. Run by ctest, or
RUNNEL_LIBRARY=… PYTHONPATH=app/python python3 -m unittest discover tests/python."""
import asyncio
import ctypes
import gc
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import runnel
from runnel import _structs

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "models/runnel-gsa-135m-instruct.gguf"
PROMPT = "The capital of France is"
MODEL = runnel.Model(FILE, device="cpu", threads=2)


def prompted():
    session = MODEL.session()
    session.prefill(PROMPT)
    return session


class Structures(unittest.TestCase):
    def test_lie_in_memory_as_the_headers_say(self):
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


class Models(unittest.TestCase):
    def test_encode_and_decode(self):
        text = "Grüße, 世界 🙂"
        self.assertEqual(MODEL.decode(MODEL.encode(text)), text)
        self.assertEqual(b"".join(MODEL.token_bytes(t) for t in MODEL.encode(text)).decode(), text)
        self.assertIn(MODEL.end_tokens[0], range(MODEL.vocab_size))
        self.assertTrue(MODEL.is_end(MODEL.end_tokens[0]))

    def test_bytes_and_descriptors_give_the_same_model(self):
        asked = prompted().complete(max_tokens=5)
        with open(FILE, "rb") as file:
            for source in (file.read(), file.fileno()):
                with runnel.Model(source, device="cpu", threads=2) as model:
                    self.assertEqual(model.fingerprint, MODEL.fingerprint)
                    session = model.session()
                    session.prefill(PROMPT)
                    self.assertEqual(session.complete(max_tokens=5), asked)

    def test_a_pipe_is_refused_by_name(self):
        read, write = os.pipe()
        try:
            with self.assertRaises(runnel.IoError):
                runnel.Model(read, device="cpu")
        finally:
            os.close(read)
            os.close(write)

    def test_errors_have_classes(self):
        with self.assertRaises(runnel.NotFoundError) as caught:
            runnel.Model("no-such-file.gguf", device="cpu")
        self.assertIn("no-such-file.gguf", str(caught.exception))
        with self.assertRaises(runnel.MalformedError):
            runnel.Model(b"this is no model", device="cpu")
        with self.assertRaises(TypeError):
            runnel.Model(None)
        with self.assertRaises(TypeError):
            MODEL.decode(["a"])
        with self.assertRaises(runnel.InvalidArgumentError):
            MODEL.token_bytes(MODEL.vocab_size)

    def test_progress_that_raises_stops_the_load(self):
        def progress(share):
            raise KeyError(share)

        with self.assertRaises(KeyError):
            runnel.Model(FILE, device="cpu", progress=progress)

    def test_a_closed_model_says_so_and_its_sessions_go_on(self):
        model = runnel.Model(FILE, device="cpu", threads=1)
        session = model.session()
        model.close()
        with self.assertRaises(runnel.ClosedError):
            model.encode("a")
        self.assertEqual(session.prefill([1, 2]), 2)


class Generating(unittest.TestCase):
    def test_an_iterator_gives_what_one_call_gives(self):
        for options in ({}, {"temperature": 1.2, "seed": 7, "top_p": 0.9}, {"stop": ["is"]}):
            answer = prompted().generate(max_tokens=24, **options)
            pieces = list(answer)
            self.assertEqual("".join(pieces), prompted().complete(max_tokens=24, **options))
            self.assertEqual(answer.text, "".join(pieces))
            self.assertIn(answer.finish, ("length", "end", "stop_text"))

    def test_leaving_early_leaves_the_session_after_the_last_token(self):
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

    def test_async(self):
        async def ask():
            return "".join([piece async for piece in prompted().agenerate(max_tokens=12)])

        self.assertEqual(asyncio.run(ask()), prompted().complete(max_tokens=12))

    def test_logprobs(self):
        answer = prompted().generate(max_tokens=3, logprobs=2)
        answer.read()
        self.assertEqual([one.token for one in answer.logprobs], answer.tokens)
        self.assertTrue(all(one.logprob <= 0 and len(one.top) == 2 for one in answer.logprobs))

    def test_wrong_options_are_named(self):
        with self.assertRaisesRegex(TypeError, "top_q"):
            prompted().generate(top_q=1)
        with self.assertRaisesRegex(runnel.InvalidArgumentError, "top_p"):
            prompted().generate(top_p=7)
        with self.assertRaises(TypeError):
            prompted().generate(stop="text")
        with self.assertRaises(runnel.InvalidArgumentError):
            MODEL.session().generate()

    def test_a_constraint_shapes_the_answer(self):
        try:
            digits = runnel.Constraint.regex(MODEL, "[0-9]{4}")
        except runnel.UnsupportedError as error:
            self.skipTest(str(error))
        self.assertRegex(prompted().complete(constraint=digits), r"\A[0-9]{4}\Z")
        with self.assertRaises(runnel.InvalidArgumentError):
            runnel.Constraint.json_schema(MODEL, {"not": {}})


class Sessions(unittest.TestCase):
    def test_logits_are_a_view_that_shows_the_latest(self):
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

    def test_score_is_what_stepping_gives(self):
        tokens = MODEL.encode(" Paris, of course.")
        rows = prompted().score(tokens)
        self.assertEqual(rows.shape, (len(tokens), MODEL.vocab_size))
        session = prompted()
        session.prefill(tokens)
        last = session.logits
        self.assertLess(max(abs(rows[len(tokens) - 1, i] - last[i]) for i in range(0, MODEL.vocab_size, 97)), 0.05)

    def test_choices_and_embeddings(self):
        session = prompted()
        likely = session.score_choices([" Paris", " banana"])
        self.assertGreater(likely[0], likely[1])
        vector = MODEL.session().embedding("A cat sleeps.")
        self.assertEqual(len(vector), MODEL.hidden_size)
        self.assertAlmostEqual(sum(x * x for x in vector), 1.0, 4)

    def test_forks_and_resets(self):
        session = prompted()
        fork = session.fork()
        self.assertEqual(session.complete(max_tokens=6), fork.complete(max_tokens=6))
        session.reset()
        self.assertEqual(session.position, 0)

    def test_a_progress_that_raises_is_the_callers(self):
        session = MODEL.session()

        def progress(done, total):
            raise LookupError(done)

        with self.assertRaises(LookupError):
            session.prefill(list(range(4000)), progress=progress)
        self.assertLess(session.position, 4000)
        self.assertEqual(session.prefill([1]), 1)

    def test_an_interrupt_stops_reading_and_the_session_goes_on(self):
        session = MODEL.session()
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            for _ in range(1000):
                session.prefill([7] * 20000)
        self.assertGreaterEqual(session.position, 0)
        session.prefill(PROMPT)
        self.assertTrue(session.complete(max_tokens=3))

    def test_two_threads_do_not_share_a_session(self):
        session = MODEL.session()
        inside, seen = threading.Event(), []

        def progress(done, total):
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

    def test_a_forked_child_is_told(self):
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

    def test_nothing_but_snapshots_pickles(self):
        for one in (MODEL, prompted()):
            with self.assertRaises(TypeError):
                pickle.dumps(one)

    def test_batches_fail_feed_by_feed(self):
        one, two = MODEL.session(), MODEL.session()
        done = runnel.Batch(MODEL).run([(one, [1, 2, 3]), (two, [10**8]), (one, [4])])
        self.assertEqual(done[0].consumed, 3)
        self.assertIsNone(done[0].error)
        self.assertIsInstance(done[1].error, runnel.InvalidArgumentError)
        self.assertIsInstance(done[2].error, runnel.InvalidArgumentError)
        alone = MODEL.session()
        alone.prefill([1, 2, 3])
        self.assertEqual(bytes(alone.logits), bytes(one.logits))

    def test_sessions_that_are_dropped_take_nothing(self):
        def resident():
            gc.collect()
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        for _ in range(20):
            MODEL.session().prefill([1])
        before = resident()
        for _ in range(200):
            MODEL.session().prefill([1])
        self.assertLess(resident() - before, 4 * MODEL.state_bytes)


class Snapshots(unittest.TestCase):
    def test_a_pickle_goes_on_in_another_process_bit_for_bit(self):
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

    def test_damaged_ones_and_other_models_have_classes(self):
        data = bytearray(prompted().snapshot().to_bytes())
        data[len(data) // 2] ^= 0xFF
        with self.assertRaises(runnel.MalformedError):
            runnel.Snapshot.from_bytes(bytes(data))
        with self.assertRaises(runnel.MalformedError):
            runnel.Snapshot.from_bytes(b"")
        small = runnel.Model(FILE, device="cpu", threads=1, window=16)
        with self.assertRaises(runnel.MismatchError):
            small.session().restore(prompted().snapshot())

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = prompted().snapshot()
            kept.save(folder + "/a.snap", compress=True)
            self.assertEqual(runnel.Snapshot.load(folder + "/a.snap"), kept)
            with self.assertRaises(ValueError):
                kept.save(folder + "/b.snap", encoding="f64")


class Documents(unittest.TestCase):
    def test_examples_of_the_documents_run(self):
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

    def test_the_chat_answers(self):
        done = subprocess.run([sys.executable, "-m", "runnel", "chat", str(FILE), "--device", "cpu", "-n", "12"],
                              input="Say hello.\nAnd again.\n", capture_output=True, text=True, check=True)
        self.assertGreater(len(done.stdout.replace(">", "").strip()), 10)

    def test_types(self):
        try:
            import mypy  # noqa: F401
        except ImportError:
            self.skipTest("mypy is not installed")
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "-p", "runnel"], capture_output=True, text=True,
                              env={**os.environ, "MYPYPATH": str(ROOT / "app/python")})
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
