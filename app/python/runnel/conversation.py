# SPDX-License-Identifier: Apache-2.0
"""One stored conversation on a session: send, go back, branch, and read only new tokens."""
from __future__ import annotations

import contextvars
import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import _structs as s
from ._handle import Exclusive, Owner
from ._library import call, handle, initialised, load_store, plain, text_of, whole_number
from ._reading import Reading, ReadProgress
from .generation import FINISHES, Asking, Logprob, Options
from .model import Model
from .snapshot import Snapshot
from .store import Branch, ForgetReport, Message, Store, _id, _report, texts_array

#: Gets a piece of text, whole characters, on another thread. False ends the answer; so does what it raises, which is raised
#: by the call.
OnText = Callable[[str], object]


@dataclass(frozen=True)
class TokenCost:
    """What a call cost, in tokens. `replayed`: read again, because a snapshot was gone or of another model; `relaid`: read
    again, because the chat template lays out earlier turns anew; `fed`: read for the first time; `generated`: written."""

    replayed: int
    relaid: int
    fed: int
    generated: int


@dataclass(frozen=True)
class Turn:
    """A user's message and the answer to it, or one of them.

    user, answer: the messages that were saved, None: none. text, thought: of the answer. finish: "end", "stop_text",
    "length", "cancelled", "callback", or None if nothing was generated. warning: nothing failed, but this should be told;
    usually "". logprobs: with logprobs=N, of each token.
    """

    user: int | None
    answer: int | None
    text: str
    thought: str
    finish: str | None
    cost: TokenCost
    warning: str
    logprobs: tuple[Logprob, ...]


class _Taking:
    """One turn: its options, and what becomes of it."""

    def __init__(self, chat: Conversation, on_text: OnText | None, on_thought: OnText | None, thinking: bool | None,
                 progress: ReadProgress | None, options: dict[str, Any]) -> None:
        self.own = Options(chat, chat.model, **options)
        self.reading = Reading(progress)
        self.text: list[str] = []
        self.thought: list[str] = []
        self.own.c.on_text = _text_callback(self.own.ask, self.text, on_text)
        self.c = initialised(s.TurnOptions, "turn_options")
        self.c.generation = ctypes.pointer(self.own.c)
        self.c.thinking = 0 if thinking is None else 2 if thinking else 1
        self.c.on_thought = _text_callback(self.own.ask, self.thought, on_thought)
        self.c.on_progress = self.reading.on_progress
        self.c.stop = self.reading.stop._as_parameter_
        self.result = initialised(s.GenerationResult, "generation_result")
        self.warning = ctypes.create_string_buffer(1024)
        self.turn = initialised(s.Turn, "turn")
        self.turn.result = ctypes.pointer(self.result)
        self.turn.warning, self.turn.warning_capacity = ctypes.addressof(self.warning), len(self.warning)

    def call(self, name: str, owner: Owner, *arguments: Any) -> None:
        call(name, owner, *arguments, ctypes.byref(self.c), ctypes.byref(self.turn))

    def done(self) -> Turn:
        self.own.raise_failure()
        t = self.turn
        cost = TokenCost(t.replayed, t.relaid, t.fed, t.generated)
        warning = self.warning.raw[:min(t.warning_bytes, len(self.warning))].decode("utf-8", "replace")
        finish = FINISHES[self.result.finish] if t.answer or t.generated else "cancelled" if t.stopped else None
        return Turn(t.user or None, t.answer or None, "".join(self.text), "".join(self.thought), finish, cost, warning,
                    tuple(self.own.logprobs))


def _text_callback(ask: Asking, kept: list[str], told: OnText | None) -> Any:
    def on_text(at: int, count: int, _user: object) -> bool:
        piece = s.text_at(at, count)
        kept.append(piece)
        return told is None or ask(told, piece)

    return s.OnText(on_text)


class Conversation(Exclusive):
    """A stored conversation whose session stands at its head; made by Store.open() and Store.create(). One thread uses it at
    a time; others get BusyError. Several may have one conversation open, in several processes: each goes on from its own
    head, and what they add becomes branches.

    >>> turn = chat.send("What shall we plant?", max_tokens=100)
    >>> again = chat.regenerate(temperature=0.8, seed=1)    # another answer beside it: no token is read again
    >>> chat.rewind(turn.user)                              # what follows becomes another branch

    Calls that answer take on_text and on_thought (get pieces as they come), thinking (True or False for models that can do
    both; None: as trained), progress (of the tokens that are read) and the options of Session.generate().

    All calls raise what a callback raised, KeyboardInterrupt after the token or pass under way, ClosedError, ForkedError,
    IoError where nothing can be written, DeviceError. After any of them the conversation is where it was, or at what was
    saved: an answer that was cut short is kept as far as it was said.
    """

    _name = "conversation"
    _pickle = "open it by its id in the other process, or pickle its snapshot()"

    def __init__(self, store: Store, model: Model, owner: Owner) -> None:
        super().__init__(owner)
        self.store = store
        self.model = model
        self.id: int = plain.conversation_get_id(owner)
        cost = initialised(s.TokenCost, "token_cost")
        call("conversation_cost", owner, ctypes.byref(cost))
        #: Of opening it: nothing is read again where a snapshot of this model was kept.
        self.cost = _cost(cost)

    @property
    def head(self) -> int | None:
        """The message that the session stands after; None: before the first."""
        with self._hold() as owner:
            return int(plain.conversation_head(owner)) or None

    @property
    def position(self) -> int:
        """Tokens that the session has consumed."""
        with self._hold() as owner:
            return int(plain.conversation_position(owner))

    def snapshot(self) -> Snapshot:
        """The session's state, for a session of one's own."""
        with self._hold() as owner:
            return Snapshot(Owner(handle("conversation_snapshot", owner), plain.snapshot_free))

    def messages(self) -> list[Message]:
        """Those of the current branch, up to the head."""
        head = self.head
        return self.store.path(head) if head is not None else []

    def branches(self) -> list[Branch]:
        """The branches of the whole tree, most recently changed first."""
        return self.store.branches(self.id)

    def send(self, text: str, *, on_text: OnText | None = None, on_thought: OnText | None = None,
             thinking: bool | None = None, progress: ReadProgress | None = None, **options: Any) -> Turn:
        """Saves a user's message and the answer to it. Raises InvalidArgumentError for an empty text or a value out of its
        range, TypeError for an unknown option."""
        data = text_of("text", text, whole=True)
        return self._turn("conversation_send", (data, len(data)),
                          _Taking(self, on_text, on_thought, thinking, progress, options))

    def stream(self, text: str | None = None, *, on_thought: OnText | None = None, thinking: bool | None = None,
               progress: ReadProgress | None = None, **options: Any) -> Reply:
        """send() as an iterator of the answer's pieces, with `.turn` at its end; without a text answer(). Nothing is sent
        before the first piece is asked for."""
        data = text_of("text", text, whole=True) if text is not None else None
        return Reply(self, data, on_thought, thinking, progress, options)

    def add_user(self, text: str, *, progress: ReadProgress | None = None) -> Turn:
        """Saves a user's message and reads it, to be answered by answer()."""
        data = text_of("text", text, whole=True)
        return self._turn("conversation_add_user", (data, len(data)), _Taking(self, None, None, None, progress, {}))

    def answer(self, *, on_text: OnText | None = None, on_thought: OnText | None = None, thinking: bool | None = None,
               progress: ReadProgress | None = None, **options: Any) -> Turn:
        """Answers the head. Raises InvalidArgumentError if that is no user's message."""
        return self._turn("conversation_answer", (), _Taking(self, on_text, on_thought, thinking, progress, options))

    def regenerate(self, *, on_text: OnText | None = None, on_thought: OnText | None = None,
                   thinking: bool | None = None, progress: ReadProgress | None = None, **options: Any) -> Turn:
        """Another answer beside the one at the head, as a new branch."""
        return self._turn("conversation_regenerate", (), _Taking(self, on_text, on_thought, thinking, progress, options))

    def resume(self, *, on_text: OnText | None = None, on_thought: OnText | None = None, thinking: bool | None = None,
               progress: ReadProgress | None = None, **options: Any) -> Turn:
        """Goes on with the answer at the head, which was cut short: the same message, longer (a copy beside it where
        something follows it already). The turn's text is what came now. Raises InvalidArgumentError for a complete one."""
        return self._turn("conversation_resume", (), _Taking(self, on_text, on_thought, thinking, progress, options))

    def edit(self, message: int, text: str, *, progress: ReadProgress | None = None) -> Turn:
        """Another text beside a user's message, as a new branch: read, to be answered by answer(). Raises NotFoundError,
        InvalidArgumentError for a message that is no user's."""
        data = text_of("text", text, whole=True)
        return self._turn("conversation_edit", (_id("message", message), data, len(data)),
                          _Taking(self, None, None, None, progress, {}))

    def rewind(self, message: int | None, *, progress: ReadProgress | None = None) -> TokenCost:
        """Goes to any message (None: before the first); the next one starts a branch there. Nothing is deleted. Raises
        NotFoundError, CancelledError where `progress` stopped it."""
        reading, cost = Reading(progress), initialised(s.TokenCost, "token_cost")
        self._read(reading, "conversation_rewind", message, cost)
        return _cost(cost)

    def forget_after(self, message: int | None, *, progress: ReadProgress | None = None) -> ForgetReport:
        """Deletes everything after `message` (None: everything) for good, on all branches, and goes there."""
        reading, report = Reading(progress), initialised(s.ForgetReport, "forget_report")
        self._read(reading, "conversation_forget_after", message, report)
        return _report(report)

    def _read(self, reading: Reading, name: str, message: int | None, result: Any) -> None:
        hold, options, at = self._callback_hold(), reading.put(initialised(s.ConversationOptions, "conversation_options")), _id("message", message or 0)

        def work() -> None:
            with hold as owner:
                call(name, owner, at, ctypes.byref(options), ctypes.byref(result))

        reading.run(work)

    def _turn(self, name: str, arguments: tuple[Any, ...], taking: _Taking) -> Turn:
        hold = self._callback_hold()

        def work() -> None:
            with hold as owner:
                taking.call(name, owner, *arguments)

        taking.reading.run(work)
        return taking.done()


class _Exchange:
    """Between who wants a piece and the thread that makes it: one of them waits."""

    def __init__(self) -> None:
        self.pieces: list[str] = []  # at most one
        self.turn: Turn | None = None
        self.failure: BaseException | None = None
        self.over = False
        self.leaving = False
        self.made = threading.Semaphore(0)
        self.wanted = threading.Semaphore(0)

    def give(self, piece: str) -> bool:
        self.pieces.append(piece)
        self.made.release()
        while not self.wanted.acquire(timeout=0.2):
            if not threading.main_thread().is_alive():  # the interpreter waits for this thread
                return False
        return not self.leaving

    def run(self, work: Callable[[], Turn]) -> None:
        try:
            self.turn = work()
        except BaseException as error:  # noqa: B036: it is raised where the next piece was asked for
            self.failure = error
        self.over = True
        self.made.release()


class Reply(Iterator[str]):
    """An answer of a conversation on its way: iterating gives its text in pieces of whole characters, each made when it is
    asked for. Leaving the loop (and dropping this, or close()) ends the answer after the piece that was given last; it is
    saved up to there. Until it is over, the conversation is in use. Iterating raises as Conversation.send() does."""

    def __init__(self, chat: Conversation, data: bytes | None, on_thought: OnText | None, thinking: bool | None,
                 progress: ReadProgress | None, options: dict[str, Any]) -> None:
        #: What became of it; None before its end.
        self.turn: Turn | None = None
        self.text = ""
        self._chat = chat
        self._pid = os.getpid()
        self._begun = self._over = False
        self._exchange = exchange = _Exchange()
        taking = _Taking(chat, exchange.give, on_thought, thinking, progress, options)
        self._stop = taking.reading.stop
        hold = chat._callback_hold()

        def work() -> Turn:
            with hold as owner:
                if data is None:
                    taking.call("conversation_answer", owner)
                else:
                    taking.call("conversation_send", owner, data, len(data))
            if taking.reading.failure:
                raise taking.reading.failure.pop()
            return taking.done()

        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(exchange.run, work), name="runnel")

    def __iter__(self) -> Reply:
        return self

    def __next__(self) -> str:
        self._chat._live()
        if self._over:
            raise StopIteration
        exchange = self._exchange
        try:
            if self._begun:
                exchange.wanted.release()
            else:
                self._begun = True
                self._thread.start()
            exchange.made.acquire()
        except BaseException:
            self.close()
            raise
        if exchange.pieces:
            piece = exchange.pieces.pop()
            self.text += piece
            return piece
        self._end()
        raise StopIteration

    def _end(self) -> None:
        self._over = True
        self._thread.join()
        self.turn = self._exchange.turn
        failure, self._exchange.failure = self._exchange.failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Ends it; again does nothing."""
        if self._over or self._pid != os.getpid():
            return
        self._over = True
        if not self._begun or self._thread.ident is None:
            return
        self._exchange.leaving = True
        plain.stop_request(self._stop)
        self._exchange.wanted.release()
        self._end()

    def __enter__(self) -> Reply:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # noqa: BLE001: there may be nothing to close, and nobody would see it
            pass


def open_conversation(store: Store, model: Model, conversation: int | str, message: int | None, system: str | None,
                      pack: Snapshot | None, progress: ReadProgress | None) -> Conversation:
    """Store.open()."""
    if isinstance(conversation, str):
        if message is not None:
            raise ValueError("message is given with a conversation's name, expected its id")
        name = text_of("conversation", conversation)
        return _made(store, model, "conversation_open_named", (name,), system, pack, progress)
    at = (whole_number("conversation", conversation, ctypes.c_int64), _id("message", message or 0))
    return _made(store, model, "conversation_open", at, system, pack, progress)


def create_conversation(store: Store, model: Model, name: str, system: str | None, pack: Snapshot | None,
                        progress: ReadProgress | None) -> Conversation:
    """Store.create()."""
    return _made(store, model, "conversation_create", (text_of("name", name),), system, pack, progress)


def _made(store: Store, model: Model, name: str, arguments: tuple[Any, ...], system: str | None, pack: Snapshot | None,
          progress: ReadProgress | None) -> Conversation:
    if not isinstance(model, Model):
        raise TypeError(f"model is {model!r}, expected a Model")
    own, parent = store._live(), model._live()
    reading = Reading(progress)
    options = reading.put(initialised(s.ConversationOptions, "conversation_options"))
    options.system = text_of("system", system) if system is not None else None
    begin = pack._live() if pack is not None else None
    options.pack = begin._as_parameter_ if begin is not None else None
    made = ctypes.c_void_p()

    def work() -> None:
        call(name, own, parent, *arguments, ctypes.byref(options), ctypes.byref(made))

    try:
        reading.run(work)
    except BaseException:
        if made:  # an interrupt came when it was open
            plain.conversation_free(made)
        raise
    return Conversation(store, model, Owner(made, plain.conversation_free, own, parent))


def make_pack(model: Model, system: str = "", documents: Sequence[str] = (), *,
              progress: ReadProgress | None = None) -> Snapshot:
    """Reads a system prompt and documents once: a snapshot that conversations of this model begin with at no cost
    (Store.open(pack=…), `runnel chat --pack`). Raises UnsupportedError without a tokenizer or librunnel_store."""
    load_store()
    parent = model._live()
    texts, count = texts_array(documents, "documents")
    reading = Reading(progress)
    options = reading.put(initialised(s.ConversationOptions, "conversation_options"))
    data = text_of("system", system)
    made = ctypes.c_void_p()

    def work() -> None:
        call("pack_make", parent, data, texts, count, ctypes.byref(options), ctypes.byref(made))

    try:
        reading.run(work)
    except BaseException:
        if made:
            plain.snapshot_free(made)
        raise
    return Snapshot(Owner(made, plain.snapshot_free))


def _cost(cost: Any) -> TokenCost:
    return TokenCost(cost.replayed, cost.relaid, cost.fed, cost.generated)
