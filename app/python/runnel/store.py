# SPDX-License-Identifier: Apache-2.0
"""Conversations on disk: lists, search and deletion, which need no model. conversation.py talks."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TypeVar

from . import _structs as s
from ._handle import Handle, Owner
from ._library import call, handle, initialised, load_store, path_of, plain, put_number, text_of, whole_number
from .model import Model, _sized_bytes
from .snapshot import Encoding, Snapshot, _encoding

if TYPE_CHECKING:
    from ._reading import ReadProgress
    from .conversation import Conversation

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class ConversationInfo:
    """A stored conversation. `messages` counts those of all branches; `head` is the last message of the current branch,
    None before the first; `trash` is not None where it was deleted and can still be undone."""

    id: int
    name: str
    created: datetime
    updated: datetime
    messages: int
    pinned: bool
    head: int | None
    trash: int | None


@dataclass(frozen=True)
class Message:
    """A message of a conversation's tree. `parent` is None for the first of its branch; `role` is "system", "user" or
    "assistant"; `complete` is false for an answer that was cut short; `name` is what the user called it, usually ""."""

    id: int
    parent: int | None
    conversation: int
    role: str
    text: str
    created: datetime
    complete: bool
    pinned: bool
    has_snapshot: bool
    name: str


@dataclass(frozen=True)
class Branch:
    """A path through the tree, from the first message to `leaf`. `fork` is the last message that it shares with another
    branch, None if there is none; `preview` is the beginning of the first message after that."""

    leaf: int
    fork: int | None
    messages: int
    updated: datetime
    current: bool
    preview: str


@dataclass(frozen=True)
class Hit:
    """A message that a search found. `name` is the conversation's, `role` the message's; in `excerpt`, around the first
    match, matches stand between guillemets."""

    conversation: int
    message: int
    name: str
    role: str
    excerpt: str


@dataclass(frozen=True)
class ForgetReport:
    """What was deleted for good. `log_emptied` is false only while another process reads: its log keeps the text until
    the next time."""

    messages: int
    snapshots: int
    log_emptied: bool


@dataclass(frozen=True)
class Trash:
    """A deletion that can be undone: of a `whole` conversation, or of `messages` of it, of which the first begins with
    `excerpt`."""

    id: int
    at: datetime
    conversation: int
    whole: bool
    messages: int
    name: str
    excerpt: str


@dataclass(frozen=True)
class Salvaged:
    """What could be read of a damaged library. `unreadable` counts messages that are known to be lost."""

    conversations: int
    messages: int
    unreadable: int


@dataclass(frozen=True)
class Usage:
    """Bytes on disk. Snapshots of pinned messages, `pinned_bytes` of `snapshot_bytes`, are never dropped."""

    snapshots: int
    snapshot_bytes: int
    pinned_bytes: int
    budget_bytes: int
    database_bytes: int


class Store(Handle):
    """A library of conversations in one SQLite file, with their snapshots in a folder beside it. Any number of threads
    and processes use one at a time.

    >>> store = Store("chats.db")
    >>> chat = store.open(model, "plans")
    >>> print(chat.send("What shall we plant?", max_tokens=100).text)

    file: the database, made if it is missing; None: the one of `runnel chat --conversation`.
    budget_bytes: of all snapshots; beyond it the least recently used are dropped, and what they held is read again when
        it is needed. None: 1 GB; 0: pinned ones only.
    encoding, compress: how states are kept; f32 continues bit for bit.
    busy_timeout: seconds to wait for another process that is writing.

    Raises UnsupportedError where librunnel_store is missing or a newer version made the file, IoError, MalformedError for
    what is no such database. All calls raise NotFoundError for a conversation or message that is not there, IoError where
    the file or the disk can only be read (`read_only`), ClosedError, ForkedError.
    """

    _name = "store"
    _pickle = "open the file in the other process"

    def __init__(self, file: str | os.PathLike[str] | None = None, *, budget_bytes: int | None = None,
                 encoding: Encoding = "f32", compress: bool = True, busy_timeout: float = 10.0) -> None:
        load_store()
        data = _default_file() if file is None else path_of("file", file)
        options = initialised(s.StoreOptions, "store_options")
        options.file = data
        if budget_bytes is not None:
            put_number(options, "budget_bytes", budget_bytes)
        options.encoding = _encoding(encoding)
        options.compress = bool(compress)
        put_number(options, "busy_timeout_ms", round(1000 * busy_timeout))
        super().__init__(Owner(handle("store_open", ctypes.byref(options)), plain.store_free))
        self.file: str = os.fsdecode(data)

    @property
    def read_only(self) -> bool:
        """Whether it can only be read, as on a disk that is mounted so."""
        return bool(plain.store_is_read_only(self._live()))

    # ---- talking ----

    def open(self, model: Model, conversation: int | str, *, message: int | None = None, system: str | None = None,
             pack: Snapshot | None = None, progress: ReadProgress | None = None) -> Conversation:
        """A conversation by its name, made if there is none, or by its id, where it was left or at one of its messages.

        message: with an id only. system: the system prompt of one that is made; None: the model's own. pack: of
        make_pack(), one that is made begins after it. progress: gets (done, all) of tokens that are read again, on
        another thread.

        Raises NotFoundError for an id that is not there, UnsupportedError for a model without a chat format,
        MismatchError for another model's pack, KeyboardInterrupt between passes: nothing is made then.
        """
        from .conversation import open_conversation  # a conversation knows its store

        return open_conversation(self, model, conversation, message, system, pack, progress)

    def create(self, model: Model, name: str, *, system: str | None = None, pack: Snapshot | None = None,
               progress: ReadProgress | None = None) -> Conversation:
        """A new conversation, whether there is one of that name or not. Raises as open()."""
        from .conversation import create_conversation

        return create_conversation(self, model, name, system, pack, progress)

    # ---- looking ----

    def conversations(self, *, with_trash: bool = False) -> list[ConversationInfo]:
        """Those that are stored, newest first; with_trash: also those that were deleted and can be undone."""
        return _each(s.OnConversation, _conversation, "store_list", self._live(), with_trash)

    def get(self, conversation: int) -> ConversationInfo:
        """What is known of one."""
        return _each(s.OnConversation, _conversation, "store_get", self._live(), _id("conversation", conversation))[0]

    def find(self, name: str) -> int | None:
        """The most recently used conversation of that name; None if there is none."""
        found = ctypes.c_int64()
        call("store_find", self._live(), text_of("name", name), ctypes.byref(found))
        return found.value or None

    def tree(self, conversation: int) -> list[Message]:
        """All messages of a conversation, parents before children."""
        return _each(s.OnMessage, _message, "store_tree", self._live(), _id("conversation", conversation))

    def path(self, message: int) -> list[Message]:
        """From the first message of its branch to `message`."""
        return _each(s.OnMessage, _message, "store_path", self._live(), _id("message", message))

    def branches(self, conversation: int) -> list[Branch]:
        """Most recently changed first."""
        return _each(s.OnBranch, _branch, "store_branches", self._live(), _id("conversation", conversation))

    def search(self, query: str, *, limit: int = 100) -> list[Hit]:
        """Messages with all words of `query`, or, where no word matches, with `query` somewhere inside. Raises
        InvalidArgumentError for a limit below 1."""
        return _each(s.OnHit, _hit, "store_search", self._live(), text_of("query", query),
                     whole_number("limit", limit, ctypes.c_int32))

    def usage(self) -> Usage:
        """What it takes on disk."""
        u = initialised(s.StoreUsage, "store_usage")
        call("store_get_usage", self._live(), ctypes.byref(u))
        return Usage(u.snapshots, u.snapshot_bytes, u.pinned_bytes, u.budget_bytes, u.database_bytes)

    # ---- changing ----

    def rename(self, conversation: int, name: str) -> None:
        """Gives a conversation another name."""
        call("store_rename", self._live(), _id("conversation", conversation), text_of("name", name))

    def pin(self, conversation: int, pinned: bool = True) -> None:
        """Pinned: its snapshots are never dropped."""
        call("store_pin", self._live(), _id("conversation", conversation), bool(pinned))

    def pin_message(self, message: int, pinned: bool = True) -> None:
        """The same of one message."""
        call("store_pin_message", self._live(), _id("message", message), bool(pinned))

    def name_message(self, message: int, name: str) -> None:
        """Calls a message something; "" takes that back."""
        call("store_name_message", self._live(), _id("message", message), text_of("name", name))

    def set_head(self, conversation: int, message: int | None) -> None:
        """Where the conversation will be opened next; None: before the first message."""
        call("store_set_head", self._live(), _id("conversation", conversation), _id("message", message or 0))

    def set_budget(self, budget_bytes: int) -> None:
        """Sets the bytes of all snapshots, as Store() takes them; what is beyond goes now."""
        call("store_set_budget", self._live(), whole_number("budget_bytes", budget_bytes, ctypes.c_uint64))

    def vacuum(self) -> None:
        """Gives unused pages of the database back to the file system."""
        call("store_vacuum", self._live())

    # ---- deleting ----

    def trash(self, conversation: int) -> int:
        """Deletes a conversation so that undo() of what this gives brings it back: hidden at once, but in the file until
        it is forgotten."""
        return self._trash("store_trash_conversation", _id("conversation", conversation))

    def trash_after(self, message: int) -> int:
        """The same of everything after `message`, on all branches."""
        return self._trash("store_trash_after", _id("message", message))

    def trash_from(self, message: int) -> int:
        """The same of `message` and everything after it; other answers beside it stay."""
        return self._trash("store_trash_from", _id("message", message))

    def _trash(self, name: str, row: int) -> int:
        made = ctypes.c_int64()
        call(name, self._live(), row, ctypes.byref(made))
        return made.value

    def trashed(self) -> list[Trash]:
        """What can be undone, newest first."""
        return _each(s.OnTrash, _trash_of, "store_trash", self._live())

    def undo(self, trash: int) -> None:
        """Brings back what a trash…() deleted."""
        call("store_undo", self._live(), _id("trash", trash))

    def forget(self, conversation: int) -> ForgetReport:
        """Deletes a conversation for good: afterwards (with `log_emptied`) no file of the store holds its text, tokens or
        snapshots."""
        return self._forget("store_forget_conversation", _id("conversation", conversation))

    def forget_after(self, message: int) -> ForgetReport:
        """The same of everything after `message`, on all branches."""
        return self._forget("store_forget_after", _id("message", message))

    def forget_trash(self, older_than: timedelta | float = 0) -> ForgetReport:
        """The same of what was deleted at least that long (seconds) ago; 0: all of it."""
        seconds = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
        return self._forget("store_forget_trash", whole_number("older_than", round(1000 * seconds), ctypes.c_int64))

    def forget_trashed(self, trash: int) -> ForgetReport:
        """The same of one deletion, with what was deleted after it below the same messages. Raises NotFoundError if it was
        undone or forgotten."""
        return self._forget("store_forget_trash_entry", _id("trash", trash))

    def _forget(self, name: str, value: int) -> ForgetReport:
        report = initialised(s.ForgetReport, "forget_report")
        call(name, self._live(), value, ctypes.byref(report))
        return _report(report)

    # ---- the file ----

    def export_markdown(self, conversation: int, leaf: int | None = None) -> str:
        """The branch that ends at `leaf` (None: the current one), for reading."""
        at, end = _id("conversation", conversation), _id("leaf", leaf or 0)
        return _sized_bytes(lambda *room: call("store_export_markdown", self._live(), at, end, *room), 65536).decode()

    def export_json(self, conversation: int) -> str:
        """The whole tree, for import_json()."""
        at = _id("conversation", conversation)
        return _sized_bytes(lambda *room: call("store_export_json", self._live(), at, *room), 65536).decode()

    def import_json(self, json: str) -> int:
        """A new conversation of what export_json() gave; gives its id. Raises MalformedError, which says where."""
        made = ctypes.c_int64()
        data = text_of("json", json, whole=True)
        call("store_import_json", self._live(), data, len(data), ctypes.byref(made))
        return made.value

    def import_chats(self, json: str) -> list[int]:
        """All chats of an export of this library, of ChatGPT (conversations.json) or of Open WebUI, with their branches;
        gives their ids in the order of the file. Raises MalformedError if it is none of these, and nothing is stored."""
        made: list[int] = []
        data = text_of("json", json, whole=True)
        call("store_import_chats", self._live(), data, len(data), s.OnImported(lambda row, _user: made.append(row)), None)
        return made

    def salvage(self, file: str | os.PathLike[str]) -> Salvaged:
        """Copies what can still be read of a damaged library into this one, under new ids; the file is only read. Raises
        MalformedError or IoError if nothing can be read."""
        r = initialised(s.SalvageReport, "salvage_report")
        call("store_salvage", self._live(), path_of("file", file), ctypes.byref(r))
        return Salvaged(r.conversations, r.messages, r.unreadable)


def _default_file() -> bytes:
    places = [os.environb.get(name) for name in (b"XDG_DATA_HOME", b"HOME")]
    return _sized_bytes(lambda *room: call("store_default_file", *places, *room), 4096)


def _id(what: str, row: Any) -> int:
    return whole_number(what, row, ctypes.c_int64)


def _each(kind: Any, take: Callable[[Any], T], name: str, *arguments: Any) -> list[T]:
    """What a function of lists gives to its callback, element by element."""
    taken: list[T] = []
    failure: list[BaseException] = []

    def each(at: Any, _user: object) -> bool:
        try:
            taken.append(take(at.contents))
        except BaseException as error:  # noqa: B036: an interrupt, too
            failure.append(error)
        return not failure

    call(name, *arguments, kind(each), None)
    if failure:
        raise failure.pop()
    return taken


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def _time(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _conversation(c: Any) -> ConversationInfo:
    return ConversationInfo(c.id, _text(c.name), _time(c.created), _time(c.updated), c.messages, c.pinned, c.head or None,
                            c.trash or None)


def _message(m: Any) -> Message:
    return Message(m.id, m.parent or None, m.conversation, _text(m.role), s.text_at(m.text, m.bytes), _time(m.created),
                   m.complete, m.pinned, m.has_snapshot, _text(m.name))


def _branch(b: Any) -> Branch:
    return Branch(b.leaf, b.fork or None, b.messages, _time(b.updated), b.current, _text(b.preview))


def _trash_of(t: Any) -> Trash:
    return Trash(t.id, _time(t.at), t.conversation, t.whole, t.messages, _text(t.name), _text(t.excerpt))


def _hit(h: Any) -> Hit:
    return Hit(h.conversation, h.message, _text(h.name), _text(h.role), _text(h.excerpt))


def _report(r: Any) -> ForgetReport:
    return ForgetReport(r.messages, r.snapshots, r.log_emptied)


def texts_array(texts: Sequence[str], what: str) -> tuple[Any, int]:
    """A list of texts as C has them."""
    if isinstance(texts, str):
        raise TypeError(f"{what} is a text, expected a list of texts")
    return (ctypes.c_char_p * len(texts))(*[text_of(f"a text of {what}", t) for t in texts]), len(texts)
