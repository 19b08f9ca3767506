# SPDX-License-Identifier: Apache-2.0
"""The chat of `python -m runnel chat`, with the commands of `runnel chat`."""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from .conversation import Conversation
from .errors import Error
from .model import Model
from .snapshot import Snapshot
from .store import Message, Store

HELP = """/help        this list
/reset       forget the conversation and start over
/save FILE   write what the model remembers to a snapshot
/load FILE   continue from a snapshot
/stats       length of the conversation, memory
/quit        leave (so does Ctrl-D)
Ctrl-C stops an answer. A line that ends in \\ continues on the next; // at its start sends a message that begins with /.
"""
KEPT_HELP = """/list        the messages so far
/rewind [N]  go back to the end of message N; without N to before your last one
/branch [N]  the branches of this conversation; with N switch to branch N
/again       another answer to your last message
/edit TEXT   replace your last message
/forget N    delete everything after message N for good
/search TEXT look in all conversations
"""


class Chat:
    """A chat that ends with the program. Its commands are the methods do_…(argument)."""

    help = HELP

    def __init__(self, model: Model, system: str, options: dict[str, Any]) -> None:
        self.model = model
        self.options = {"recommended": True, **options}
        self._system = system
        self._session = model.session()
        self._start()

    def _start(self) -> None:
        self._known = True  # the session has read these messages and nothing else
        system = self._system or self.model.default_system
        self._said = [{"role": "system", "content": system}] if system else []
        self._read = 0  # of the messages
        self._marks = {0: self._session.snapshot()}  # after so many of them

    def answer(self, text: str) -> Iterable[str]:
        """The pieces of an answer."""
        session = self._session
        self._said.append({"role": "user", "content": text})
        session.prefill(self._new_tokens())
        answer = session.generate(**self.options)
        try:
            yield from answer
        finally:
            answer.close()
            self._said.append({"role": "assistant", "content": answer.text})
            self._read = len(self._said)
            self._marks[self._read] = session.snapshot()

    def _new_tokens(self) -> list[int]:
        """What the session, brought to where they follow, must read to answer the last message."""
        session = self._session
        closed = bool(session.recent) and self.model.is_end(session.recent[-1])
        if not self._known:
            return self.model.encode_chat(self._said[-1:], after="closed" if closed else "cut")
        kept, tokens = self.model.read_chat(self._said, self._read, closed=closed)
        if kept < self._read:  # the template lays out earlier turns anew
            kept = max(at for at in self._marks if at <= kept)
            session.restore(self._marks[kept])
            kept, tokens = self.model.read_chat(self._said, kept, closed=True)
        return tokens

    def snapshot(self) -> Snapshot:
        return self._session.snapshot()

    def do_reset(self, _argument: str) -> str:
        self._session.reset()
        self._start()
        return "Started over."

    def do_load(self, argument: str) -> str:
        if not argument:
            raise ValueError("/load needs a file, such as /load talk.snap")
        self._session.restore(Snapshot.load(argument))
        self._start()
        self._known = self._session.position == 0
        return f"Loaded {argument}."

    def do_save(self, argument: str) -> str:
        if not argument:
            raise ValueError("/save needs a file, such as /save talk.snap")
        self.snapshot().save(argument)
        return f"Saved {argument}."

    def do_stats(self, _argument: str) -> str:
        return (f"conversation  {self.snapshot().position:,} tokens\n"
                f"state         {self.model.state_bytes / 1e6:.1f} MB, whatever the length\n"
                f"weights       {self.model.weight_bytes / 1e6:.1f} MB")


class KeptChat(Chat):
    """A chat that a store keeps under a name."""

    help = KEPT_HELP + HELP

    def __init__(self, model: Model, store: Store, name: str, system: str, pack: Snapshot | None,
                 options: dict[str, Any]) -> None:
        self.model = model
        self.options = {"recommended": True, **options}
        self._repeats = 0
        self._chat: Conversation = store.open(model, name, system=system or None, pack=pack)

    def answer(self, text: str) -> Iterable[str]:
        yield from self._chat.stream(text, **self.options)

    def snapshot(self) -> Snapshot:
        return self._chat.snapshot()

    def do_reset(self, _argument: str) -> str:
        self._chat.rewind(self._numbered("0"))
        return "Started over; the earlier messages are a branch."

    def do_load(self, _argument: str) -> str:
        raise ValueError("/load would leave the kept conversation; start without --conversation")

    def do_list(self, _argument: str) -> str:
        return "\n".join(_line(n, m) for n, m in enumerate(self._shown(), 1)) or "No messages yet."

    def do_rewind(self, argument: str) -> str:
        cost = self._chat.rewind(self._numbered(argument) if argument else self._last_of_user().parent)
        return f"Back after {self._chat.position:,} tokens, {cost.replayed or 'none'} of them read again."

    def do_branch(self, argument: str) -> str:
        branches = self._chat.branches()
        if not argument:
            return "\n".join(f"{n}{' * ' if b.current else '   '} {b.messages} messages: {_short(b.preview)}"
                             for n, b in enumerate(branches, 1))
        if not argument.isdecimal() or not 1 <= int(argument) <= len(branches):
            raise ValueError(f'there is no branch "{argument}", expected 1 to {len(branches)}')
        self._chat.rewind(branches[int(argument) - 1].leaf)
        return f"On branch {argument}."

    def do_again(self, _argument: str) -> str:
        self._repeats += 1  # the same seed would give the same answer
        options = {**self.options, "seed": self.options.get("seed", 0) + self._repeats}
        self._chat.regenerate(on_text=_show, **options)
        return "\n"

    def do_edit(self, argument: str) -> str:
        if not argument:
            raise ValueError("/edit needs the new text of your last message")
        self._chat.edit(self._last_of_user().id, argument)
        self._chat.answer(on_text=_show, **self.options)
        return "\n"

    def do_forget(self, argument: str) -> str:
        after = self._numbered(argument)
        if after is None:
            raise ValueError("to forget the whole conversation leave and use `runnel conversation delete`")
        return f"Forgot {self._chat.forget_after(after).messages} messages."

    def do_search(self, argument: str) -> str:
        if not argument:
            raise ValueError("/search needs words to look for")
        hits = self._chat.store.search(argument)
        return "\n".join(f"{hit.name}: {_short(hit.excerpt, 160)}" for hit in hits) or "Nothing found."

    def _shown(self) -> list[Message]:
        return [m for m in self._chat.messages() if m.role != "system"]

    def _last_of_user(self) -> Message:
        users = [m for m in self._shown() if m.role == "user"]
        if not users:
            raise ValueError("there is no message yet")
        return users[-1]

    def _numbered(self, argument: str) -> int | None:
        messages = self._shown()
        if not argument.isdecimal() or int(argument) > len(messages):
            raise ValueError(f'there is no message "{argument}", expected 0 to {len(messages)} (see /list)')
        if int(argument) > 0:
            return messages[int(argument) - 1].id
        return messages[0].parent if messages else self._chat.head


def converse(chat: Chat) -> None:
    """Until the input ends or the user leaves."""
    shown = sys.stdin.isatty() and sys.stdout.isatty()
    message = ""
    while True:
        try:
            message += input(("… " if message else "> ") if shown else "")
        except EOFError:
            if shown:
                print()
            if not message:
                return
        except KeyboardInterrupt:
            print()
            message = ""
            continue
        if message.endswith("\\"):
            message = message[:-1] + "\n"
            continue
        said, message = message, ""
        if not said.strip():
            continue
        try:
            if said.startswith("/") and not said.startswith("//"):
                command, _, argument = said[1:].partition(" ")
                if command in ("quit", "exit"):
                    return
                remark = _command(chat, command)(argument.strip())
            else:
                remark = _answer(chat, said[1:] if said.startswith("//") else said)
            if remark:
                print(remark, end="" if remark.endswith("\n") else "\n")
        except KeyboardInterrupt:
            print()
        except (Error, ValueError, OSError) as error:
            print(f"runnel: {error}", file=sys.stderr)


def _command(chat: Chat, name: str) -> Callable[[str], str]:
    if name == "help":
        return lambda _argument: chat.help
    found: Callable[[str], str] | None = getattr(chat, "do_" + name, None) if name.isalpha() else None
    if found is None:
        raise ValueError(f"no command /{name}; /help lists them")
    return found


def _answer(chat: Chat, text: str) -> str:
    try:
        for piece in chat.answer(text):
            _show(piece)
    finally:
        print(flush=True)
    return ""


def _show(piece: str) -> None:
    print(piece, end="", flush=True)


def _line(number: int, message: Message) -> str:
    who = "you  " if message.role == "user" else "model"
    return f"{number}  {who}  {_short(message.text)}{'' if message.complete else ' (cut short)'}"


def _short(text: str, limit: int = 72) -> str:
    line = "".join(" " if ord(c) < 32 else c for c in text)
    return line if len(line) <= limit else line[:limit] + "…"
