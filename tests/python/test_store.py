# SPDX-License-Identifier: Apache-2.0
"""Conversations on disk."""
from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import runnel
from support import FILE, MODEL, UNTYPED


class Stored(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # SQLite removes files of its own meanwhile
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = os.path.join(self.folder, "chats.db")
        self.store = runnel.Store(self.file)
        self.addCleanup(self.store.close)

    def chat(self, name: str = "plans") -> runnel.Conversation:
        return self.store.open(MODEL, name)


class Stores(Stored):
    def said(self, word: str) -> list[int]:
        return sorted(hit.message for hit in self.store.search(word) if hit.role == "user")

    def test_lists_finds_and_searches(self) -> None:
        chat = self.chat()
        turn = chat.send("Where is the lighthouse?", max_tokens=4)
        other = self.store.create(MODEL, "other", system="You are brief.")
        self.assertEqual({c.name for c in self.store.conversations()}, {"plans", "other"})
        self.assertEqual(self.store.find("plans"), chat.id)
        self.assertIsNone(self.store.find("nobody"))
        info = self.store.get(chat.id)
        self.assertEqual((info.name, info.head, info.trash, info.pinned), ("plans", turn.answer, None, False))
        self.assertEqual(info.updated.utcoffset(), type(info.updated - info.created)(0))
        hits = [h for h in self.store.search("lighthouse") if h.role == "user"]  # the answer may have the word, too
        self.assertEqual([(h.conversation, h.message, h.role) for h in hits], [(chat.id, turn.user, "user")])
        self.assertIn("«lighthouse»", hits[0].excerpt)
        assert turn.answer is not None
        path = self.store.path(turn.answer)
        self.assertEqual([m.role for m in path][-2:], ["user", "assistant"])
        self.assertEqual(path[-1].text, turn.text)
        self.assertFalse(path[-1].complete)
        self.assertEqual(path, chat.messages())
        self.assertEqual(len(self.store.tree(chat.id)), len(path))
        self.assertEqual(other.messages(), self.store.tree(other.id))

    def test_renames_pins_and_names(self) -> None:
        chat = self.chat()
        turn = chat.send("Hello", max_tokens=3)
        assert turn.answer is not None and turn.user is not None
        self.store.rename(chat.id, "garden")
        self.store.pin(chat.id)
        self.store.pin_message(turn.answer)
        self.store.name_message(turn.answer, "greeting")
        self.assertEqual((self.store.get(chat.id).name, self.store.get(chat.id).pinned), ("garden", True))
        answer = self.store.path(turn.answer)[-1]
        self.assertEqual((answer.name, answer.pinned, answer.has_snapshot), ("greeting", True, True))
        self.store.set_head(chat.id, turn.user)
        self.assertEqual(self.store.open(MODEL, chat.id).head, turn.user)
        usage = self.store.usage()
        self.assertGreater(usage.pinned_bytes, 0)
        self.store.set_budget(0)
        self.assertEqual(self.store.usage().snapshot_bytes, self.store.usage().pinned_bytes)
        self.store.vacuum()

    def test_deletes_so_that_it_can_be_undone_and_for_good(self) -> None:
        chat = self.chat()
        first = chat.send("The first secret", max_tokens=3)
        second = chat.send("The second secret", max_tokens=3)
        assert first.answer is not None and second.user is not None
        trash = self.store.trash(chat.id)
        self.assertEqual(self.store.conversations(), [])
        self.assertEqual([c.trash for c in self.store.conversations(with_trash=True)], [trash])
        thrown = self.store.trashed()[0]
        self.assertEqual((thrown.id, thrown.conversation, thrown.whole, thrown.name), (trash, chat.id, True, "plans"))
        self.store.undo(trash)
        self.store.undo(self.store.trash_from(second.user))
        self.store.undo(self.store.trash_after(first.answer))
        self.assertEqual(self.said("secret"), [first.user, second.user])
        report = chat.forget_after(first.answer)
        self.assertEqual((report.messages, report.log_emptied, chat.head), (2, True, first.answer))
        self.assertEqual(self.said("secret"), [first.user])
        chat.close()
        self.assertGreater(self.store.forget(chat.id).messages, 1)
        everything = b"".join(p.read_bytes() for p in Path(self.folder).rglob("*") if p.is_file())
        self.assertNotIn(b"secret", everything)
        self.assertEqual(self.store.forget_trash().messages, 0)
        other = self.chat("other")
        other.close()
        self.store.forget_trashed(self.store.trash(other.id))
        self.assertEqual(self.store.trashed(), [])

    def test_exports_and_imports(self) -> None:
        chat = self.chat()
        chat.send("Grüße, 世界", max_tokens=3)
        self.assertIn("Grüße, 世界", self.store.export_markdown(chat.id))
        copied = self.store.import_json(self.store.export_json(chat.id))
        self.assertEqual([m.text for m in self.store.tree(copied)], [m.text for m in self.store.tree(chat.id)])
        with self.assertRaises(runnel.MalformedError):
            self.store.import_json("no JSON")
        with self.assertRaises(runnel.MalformedError):
            self.store.import_chats("{}")
        imported = self.store.import_chats(self.store.export_json(chat.id))
        self.assertEqual([m.text for m in self.store.tree(imported[0])], [m.text for m in self.store.tree(chat.id)])
        with runnel.Store(os.path.join(self.folder, "other.db")) as other:
            saved = other.salvage(self.file)
            self.assertEqual((saved.conversations, saved.unreadable), (3, 0))
            self.assertEqual(len(other.conversations()), 3)

    def test_errors_have_classes(self) -> None:
        folder = os.path.join(self.folder, "missing", "\0")
        with self.assertRaises(runnel.InvalidArgumentError):
            runnel.Store(folder)
        Path(self.folder, "text").write_text("no database, " * 100)
        with self.assertRaises(runnel.MalformedError):
            runnel.Store(os.path.join(self.folder, "text"))
        uses: list[Callable[[], object]] = [
            lambda: self.store.get(99), lambda: self.store.path(99), lambda: self.store.open(MODEL, 99),
            lambda: self.store.forget(99)
        ]
        for use in uses:
            with self.assertRaises(runnel.NotFoundError):
                use()
        with self.assertRaises(runnel.InvalidArgumentError):
            self.store.get(2**63)
        with self.assertRaises(ValueError):
            self.store.open(MODEL, "plans", message=1)

    def test_wrong_types_are_type_errors(self) -> None:
        wrong: list[Callable[[Any], object]] = [
            lambda s: UNTYPED.Store(1.5), lambda s: UNTYPED.Store(self.file, budget_bytes="1"), lambda s: s.get("plans"),
            lambda s: s.find(1), lambda s: s.search(None), lambda s: s.search("a", limit="b"), lambda s: s.rename(1, b"a"),
            lambda s: s.open(None, "plans"), lambda s: s.open(MODEL, 1.5), lambda s: s.open(MODEL, "a", system=1),
            lambda s: s.import_json(b"{}"), lambda s: UNTYPED.make_pack(MODEL, "", "documents")
        ]
        for number, call in enumerate(wrong):
            with self.subTest(number), self.assertRaises(TypeError):
                call(self.store)

    def test_a_closed_store_says_so_and_its_conversations_go_on(self) -> None:
        chat = self.chat()
        self.store.close()
        with self.assertRaises(runnel.ClosedError):
            self.store.conversations()
        self.assertEqual(chat.send("Hello", max_tokens=2).cost.generated, 2)

    def test_threads_share_a_store(self) -> None:
        names: list[str] = []

        def work(number: int) -> None:
            self.store.create(MODEL, f"chat {number}").close()
            names.extend(c.name for c in self.store.conversations())

        threads = [threading.Thread(target=work, args=(number, )) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(names)), 4)

    def test_a_library_that_is_missing_is_named(self) -> None:
        code = ("import runnel\ntry:\n    runnel.Store('a.db')\n"
                "except runnel.UnsupportedError as error:\n    print('librunnel_store' in str(error))\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=self.folder,
                              env={**os.environ, "RUNNEL_STORE_LIBRARY": "no-such.so"})
        self.assertEqual(done.stdout, "True\n")


class Conversations(Stored):
    def test_goes_on_where_it_was_with_no_token_read_again(self) -> None:
        chat = self.chat()
        turn = chat.send("Say hello.", max_tokens=6)
        self.assertEqual((turn.cost.generated, turn.finish, turn.warning), (6, "length", ""))
        kept, position = chat.snapshot(), chat.position
        chat.close()
        again = self.chat()
        self.assertEqual((again.cost.replayed, again.cost.fed, again.head, again.position), (0, 0, turn.answer, position))
        self.assertEqual(again.snapshot(), kept)
        more = again.send("And again.", max_tokens=3)
        self.assertEqual(more.cost.replayed, 0)
        self.assertEqual(again.position, position + more.cost.fed + more.cost.generated)

    def test_gives_what_a_session_gives(self) -> None:
        chat = self.chat()
        turn = chat.send("Say hello.", max_tokens=6)
        messages = [{"role": m.role, "content": m.text} for m in chat.messages()[:-1]]
        if messages[0]["role"] == "user" and MODEL.default_system:
            messages.insert(0, {"role": "system", "content": MODEL.default_system})
        session = MODEL.session()
        session.prefill(MODEL.encode_chat(messages))
        self.assertEqual(session.complete(max_tokens=6), turn.text)

    def test_branches(self) -> None:
        chat = self.chat()
        first = chat.send("Say hello.", max_tokens=3)
        second = chat.regenerate(max_tokens=3, temperature=1.5, seed=5)
        self.assertEqual((second.user, second.cost.fed, second.cost.replayed), (None, 0, 0))
        assert first.user is not None
        edited = chat.edit(first.user, "Say goodbye.")
        self.assertIsNone(edited.finish)
        answered = chat.answer(max_tokens=2)
        self.assertEqual(chat.head, answered.answer)
        self.assertEqual({b.leaf for b in chat.branches()}, {first.answer, second.answer, answered.answer})
        self.assertEqual(chat.rewind(first.answer).replayed, 0)
        self.assertEqual(chat.head, first.answer)
        chat.rewind(None)
        self.assertIsNone(chat.head)
        self.assertEqual(chat.messages(), [])
        with self.assertRaises(runnel.InvalidArgumentError):
            chat.answer()

    def test_goes_on_with_an_answer_that_was_cut(self) -> None:
        one, two = self.chat("one"), self.chat("two")
        cut = one.send("Tell me a story.", max_tokens=5)
        rest = one.resume(max_tokens=5)
        whole = two.send("Tell me a story.", max_tokens=10)
        self.assertEqual(rest.answer, cut.answer)
        self.assertEqual(cut.text + rest.text, whole.text)
        self.assertEqual(one.messages()[-1].text, whole.text)

    def test_an_iterator_gives_what_one_call_gives(self) -> None:
        one, two = self.chat("one"), self.chat("two")
        options: dict[str, Any] = {"max_tokens": 8, "temperature": 1.0, "seed": 4, "logprobs": 1}
        told: list[str] = []
        turn = one.send("Tell me a story.", on_text=told.append, **options)
        reply = two.stream("Tell me a story.", **options)
        self.assertEqual("".join(reply), turn.text)
        self.assertEqual("".join(told), turn.text)
        assert reply.turn is not None
        self.assertEqual((reply.text, reply.turn.text, reply.turn.finish), (turn.text, turn.text, "length"))
        self.assertEqual(reply.turn.logprobs, turn.logprobs)
        self.assertEqual(len(turn.logprobs), 8)
        self.assertEqual(list(reply), [])

    def test_leaving_an_iterator_keeps_what_was_said(self) -> None:
        chat = self.chat()
        text = ""
        for piece in chat.stream("Tell me a story.", max_tokens=200):
            text += piece
            if len(text) > 12:
                break
        self.assertEqual(chat.messages()[-1].text, text)
        self.assertFalse(chat.messages()[-1].complete)
        reply = chat.stream("Another one.", max_tokens=200)
        next(reply)
        with self.assertRaises(runnel.BusyError):
            chat.send("At the same time.")
        reply.close()
        reply.close()
        self.assertTrue(chat.send("Go on.", max_tokens=2).answer)
        never = chat.stream("Never asked for.")
        never.close()
        self.assertNotIn("Never asked for.", [m.text for m in chat.messages()])

    def test_an_iterator_that_is_held_at_the_end_does_not_hang(self) -> None:
        code = (f"import runnel\nmodel = runnel.Model({str(FILE)!r}, device='cpu', threads=1)\n"
                f"store = runnel.Store({self.file!r})\n"
                "reply = store.open(model, 'left').stream('Tell me a story.', max_tokens=500)\n"
                "print(next(reply))\n")
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
        found = self.store.find("left")
        assert found is not None
        self.assertEqual([m.role for m in self.store.tree(found)][-1], "assistant")

    def test_what_a_callback_raises_is_the_callers(self) -> None:
        chat = self.chat()

        def fail(*_: object) -> None:
            raise LookupError("of the caller")

        with self.assertRaisesRegex(LookupError, "of the caller"):
            chat.send("Hello", on_text=fail)
        self.assertEqual([m.role for m in chat.messages()][-2:], ["user", "assistant"])
        head = chat.head
        with self.assertRaisesRegex(LookupError, "of the caller"):
            chat.send("A long text. " * 300, progress=fail)
        self.assertEqual(chat.head, head)  # a message that was not read to its end is not kept
        with self.assertRaises(TypeError):
            chat.send("Hello", no_such_option=1)
        self.assertEqual(chat.head, head)
        with self.assertRaises(runnel.InvalidArgumentError):
            next(chat.stream("Hello", top_p=7))
        self.assertEqual(chat.head, head)  # options are looked at before the message is kept
        self.assertTrue(chat.send("Hello", max_tokens=2).answer)

    def test_a_callback_may_not_use_its_conversation(self) -> None:
        chat = self.chat()
        with self.assertRaises(runnel.BusyError):
            chat.send("Hello", on_text=lambda _: chat.head)
        self.assertTrue(chat.send("Hello", max_tokens=2).answer)

    def test_an_interrupt_keeps_what_was_said_and_it_goes_on(self) -> None:
        chat = self.chat()
        said: list[str] = []

        def on_text(piece: str) -> None:
            said.append(piece)
            if len(said) == 3:
                os.kill(os.getpid(), signal.SIGINT)

        with self.assertRaises(KeyboardInterrupt):
            chat.send("Tell me a story.", on_text=on_text, max_tokens=1_000_000, ignore_end=True)
        self.assertEqual(chat.messages()[-1].text, "".join(said))
        self.assertEqual(self.store.open(MODEL, chat.id).cost.replayed, 0)
        self.assertTrue(chat.send("Go on.", max_tokens=2).answer)

    def test_begins_after_a_pack(self) -> None:
        pack = runnel.make_pack(MODEL, "You keep a lighthouse.", ["The tower is forty metres high."])
        chat = self.store.create(MODEL, "keeper", pack=pack)
        self.assertEqual(chat.position, pack.position)
        self.assertIn("tower", "".join(m.text for m in chat.messages()) + str(self.store.tree(chat.id)))
        self.assertEqual((chat.cost.replayed, chat.cost.fed), (0, 0))
        narrow = runnel.Model(FILE, device="cpu", threads=1, window=16)
        other = self.store.create(narrow, "other", pack=pack)  # what does not belong to it is read from its text
        self.assertEqual(other.cost.replayed + other.cost.fed, pack.position)

    def test_guards(self) -> None:
        chat = self.chat()
        with self.assertRaisesRegex(TypeError, "does not pickle"):
            pickle.dumps(chat)
        with self.assertRaisesRegex(TypeError, "does not pickle"):
            pickle.dumps(self.store)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                inherited: list[Callable[[], object]] = [
                    self.store.conversations, lambda: chat.head, lambda: next(chat.stream("a"))
                ]
                for use in inherited:
                    try:
                        use()
                    except runnel.ForkedError:
                        os.write(write, b"f")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(write)
        self.assertEqual(os.read(read, 20), b"fff")
        os.close(read)
        chat.close()
        uses: list[Callable[[], object]] = [
            lambda: chat.head, lambda: chat.send("a"), lambda: chat.snapshot(), lambda: next(chat.stream("a"))
        ]
        for use in uses:
            with self.assertRaises(runnel.ClosedError):
                use()


if __name__ == "__main__":
    unittest.main()
