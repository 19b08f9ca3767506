# SPDX-License-Identifier: Apache-2.0
"""The chat of `python -m runnel chat`, with the commands of `runnel chat`."""
from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .conversation import Conversation
from .errors import Error
from .generation import Generation
from .model import Model
from .snapshot import Snapshot
from .store import Message, Store
from .tools import ToolCall, ToolEvent, ToolReader, Tools

HELP = """/help        this list
/reset       forget the conversation and start over
/save FILE   write what the model remembers to a snapshot
/load FILE   continue from a snapshot
/stats       length of the conversation, speed, memory
/quit        leave (so does Ctrl-D, or Ctrl-C twice)
Ctrl-C stops an answer. A line that ends in \\ continues on the next; // at its start sends a message that begins with /.
"""
KEPT_HELP = """/thought     what the model thought before its last answer
/list        the messages so far
/rewind [N]  go back to the end of message N; without N to before your last one
/branch [N]  the branches of this conversation; with N switch to branch N
/again       another answer to your last message
/edit TEXT   replace your last message
/forget N    delete everything after message N for good
/search TEXT look in all conversations
"""


class Remark(str):
    """What is said on a terminal alone: in a pipe there are answers."""


class Speed:
    """How fast the last message was read and its answer was made."""

    def __init__(self) -> None:
        self.read = self.said = 0  # tokens
        self.read_s = self.said_s = 0.0

    def lines(self) -> str:
        def of(tokens: int, seconds: float) -> str:
            return f"{tokens:,} tokens, " + (f"{tokens / seconds:.1f} tokens/s" if tokens and seconds else "-")

        return f"last message  {of(self.read, self.read_s)}\nlast answer   {of(self.said, self.said_s)}\n"


class Chat:
    """A chat that ends with the program. Its commands are the methods do_…(argument)."""

    help = HELP

    def __init__(self, model: Model, system: str, options: dict[str, Any], tools: Tools | None = None) -> None:
        self.model = model
        self.options = {"recommended": True, **options}
        self.speed = Speed()
        self._system = system
        self._tools = tools
        self._called = 0  # calls so far
        self._session = model.session()
        self._start()

    def greeting(self) -> str:
        """What is known of it at its beginning."""
        at = self.snapshot().position
        return (f"{self.model.name or 'Model'} on {self.model.device}, {self.model.state_bytes / 1e6:.1f} MB of memory, "
                "whatever the length" + (f", continuing after {at:,} tokens" if at else ""))

    def _start(self) -> None:
        self._known = True  # the session has read these messages and nothing else
        system = self._system or self.model.default_system
        self._said: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        self._read = 0  # of the messages
        self._marks = {0: self._session.snapshot()}  # after so many of them

    def answer(self, text: str) -> Iterable[str]:
        """The pieces of an answer; with tools also of those that follow the results of calls."""
        fresh: list[dict[str, Any]] = [{"role": "user", "content": text}]
        while fresh:
            self._said += fresh
            answer = self._begin(len(fresh))
            began = time.perf_counter()
            try:
                if self._tools is None:
                    yield from answer
                else:
                    yield from self._with_calls(answer)
            finally:
                answer.close()
                if self._tools is None:
                    self._said.append({"role": "assistant", "content": answer.text})
                self.speed.said, self.speed.said_s = len(answer.tokens), time.perf_counter() - began
                self._read = len(self._said)
                self._marks[self._read] = self._session.snapshot()
            fresh = _results(self._said[-1].get("tool_calls", []))

    def _begin(self, fresh: int) -> Generation:
        """Reads the last `fresh` messages."""
        began = time.perf_counter()
        self.speed.read = self._session.prefill(self._new_tokens(fresh))
        self.speed.read_s = time.perf_counter() - began
        return self._session.generate(**self.options)

    def _with_calls(self, answer: Generation) -> Iterator[str]:
        """Its text, then a line for each call; keeps both as the last message."""
        reader = ToolReader(self.model)
        said: dict[str, Any] = {"role": "assistant", "content": ""}
        calls: list[ToolCall] = []
        broken = ""

        def take(events: list[ToolEvent]) -> str:
            nonlocal broken
            shown = ""
            for event in events:
                if event.kind in ("text", "broken"):
                    shown += event.text
                    broken = event.reason or broken
                elif event.kind == "begin":
                    self._called += 1
                    calls.append(ToolCall(event.text, "", f"call_{self._called}"))
                elif event.kind == "arguments":
                    calls[-1] = ToolCall(calls[-1].name, calls[-1].arguments + event.text, calls[-1].id)
                if event.kind == "broken" and event.begun:
                    calls.pop()
            said["content"] += shown
            return shown

        try:
            for piece in answer:
                yield take(reader.push(piece))
        finally:
            rest = take(reader.finish(cut=answer.finish == "length"))
            if calls:
                said["tool_calls"] = calls
            self._said.append(said)
        yield rest + ("\n" if said["content"] and calls else "")
        yield "\n".join(f"call: {one.name} {one.arguments}" for one in calls)
        if broken:
            print(f"runnel: the model's call {broken}", file=sys.stderr)

    def _new_tokens(self, fresh: int) -> list[int]:
        """What the session, brought to where they follow, must read to answer the last messages."""
        session = self._session
        closed = bool(session.recent) and self.model.is_end(session.recent[-1])
        if not self._known:
            return self.model.encode_chat(self._said[-fresh:], after="closed" if closed else "cut", tools=self._tools)
        kept, tokens = self.model.read_chat(self._said, self._read, closed=closed, tools=self._tools)
        if kept < self._read:  # the template lays out earlier turns anew
            kept = max(at for at in self._marks if at <= kept)
            session.restore(self._marks[kept])
            kept, tokens = self.model.read_chat(self._said, kept, closed=True, tools=self._tools)
        return tokens

    def snapshot(self) -> Snapshot:
        return self._session.snapshot()

    def do_reset(self, _argument: str) -> str:
        self._session.reset()
        self._start()
        return Remark("Started over.")

    def do_load(self, argument: str) -> str:
        if not argument:
            raise ValueError("/load needs a file, such as /load talk.snap")
        self._session.restore(Snapshot.load(argument))
        self._start()
        self._known = self._session.position == 0
        return Remark(f"Loaded {argument}.")

    def do_save(self, argument: str) -> str:
        if not argument:
            raise ValueError("/save needs a file, such as /save talk.snap")
        self.snapshot().save(argument)
        return Remark(f"Saved {argument}.")

    def do_stats(self, _argument: str) -> str:
        return (f"conversation  {self.snapshot().position:,} tokens\n{self.speed.lines()}"
                f"state         {self.model.state_bytes / 1e6:.1f} MB, whatever the length\n"
                f"weights       {self.model.weight_bytes / 1e6:.1f} MB")


class KeptChat(Chat):
    """A chat that a store keeps under a name."""

    help = KEPT_HELP + HELP

    def __init__(self, model: Model, store: Store, name: str, system: str, pack: Snapshot | None,
                 options: dict[str, Any]) -> None:
        self.model = model
        self.options = {"recommended": True, **options}
        self.speed = Speed()
        self._thought = ""
        self._repeats = 0
        self._name = name
        self._chat: Conversation = store.open(model, name, system=system or None, pack=pack)

    def answer(self, text: str) -> Iterable[str]:
        began, first = time.perf_counter(), 0.0
        reply = self._chat.stream(text, **self.options)
        try:
            for piece in reply:
                first = first or time.perf_counter()
                yield piece
        finally:
            reply.close()
            if reply.turn is not None:
                cost, self._thought = reply.turn.cost, reply.turn.thought
                self.speed.read, self.speed.said = cost.fed + cost.replayed + cost.relaid, cost.generated
                self.speed.read_s, self.speed.said_s = max(first - began, 0.0), time.perf_counter() - (first or began)

    def greeting(self) -> str:
        read = self._chat.cost.replayed
        return (f"{super().greeting()}; {self._name}: {len(self._shown())} messages, "
                f"{f'{read:,}' if read else 'no'} tokens read again")

    def do_thought(self, _argument: str) -> str:
        return self._thought or "There was no thought."

    def snapshot(self) -> Snapshot:
        return self._chat.snapshot()

    def do_reset(self, _argument: str) -> str:
        self._chat.rewind(self._numbered("0"))
        return Remark("Started over; the earlier messages are a branch.")

    def do_load(self, _argument: str) -> str:
        raise ValueError("/load would leave the kept conversation; start without --conversation")

    def do_list(self, _argument: str) -> str:
        return "\n".join(_line(n, m) for n, m in enumerate(self._shown(), 1)) or Remark("No messages yet.")

    def do_rewind(self, argument: str) -> str:
        cost = self._chat.rewind(self._numbered(argument) if argument else self._last_of_user().parent)
        return Remark(f"Back after {self._chat.position:,} tokens, {cost.replayed or 'none'} of them read again.")

    def do_branch(self, argument: str) -> str:
        branches = self._chat.branches()
        if not argument:
            return "\n".join(f"{n}{' * ' if b.current else '   '} {b.messages} messages: {_short(b.preview)}"
                             for n, b in enumerate(branches, 1))
        if not argument.isdecimal() or not 1 <= int(argument) <= len(branches):
            raise ValueError(f'there is no branch "{argument}", expected 1 to {len(branches)}')
        self._chat.rewind(branches[int(argument) - 1].leaf)
        return Remark(f"On branch {argument}.")

    def do_again(self, _argument: str) -> str:
        self._repeats += 1  # the same seed would give the same answer
        options = {**self.options, "seed": self.options.get("seed", 0) + self._repeats}
        self._thought = self._chat.regenerate(on_text=_show, **options).thought
        return "\n"

    def do_edit(self, argument: str) -> str:
        if not argument:
            raise ValueError("/edit needs the new text of your last message")
        self._chat.edit(self._last_of_user().id, argument)
        self._thought = self._chat.answer(on_text=_show, **self.options).thought
        return "\n"

    def do_forget(self, argument: str) -> str:
        after = self._numbered(argument)
        if after is None:
            raise ValueError("to forget the whole conversation leave and use `runnel conversation delete`")
        return Remark(f"Forgot {self._chat.forget_after(after).messages} messages.")

    def do_search(self, argument: str) -> str:
        if not argument:
            raise ValueError("/search needs words to look for")
        hits = self._chat.store.search(argument)
        return "\n".join(f"{hit.name}: {_short(hit.excerpt, 160)}" for hit in hits) or Remark("Nothing found.")

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
    message, leaving = "", False  # Ctrl-C was pressed at an empty prompt
    if shown:
        print(f"{chat.greeting()}.\nType a message. /help lists the commands.\n")
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
            if leaving or not shown:
                return
            if not message:
                leaving = True
                print("(Ctrl-C again leaves, or type /quit)")
            message = ""
            continue
        leaving = False
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
            if remark and (shown or not isinstance(remark, Remark)):
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


def _results(calls: list[ToolCall]) -> list[dict[str, Any]]:
    """What the user says that the calls gave; nothing where the input ends before all are there."""
    results: list[dict[str, Any]] = []
    try:
        for call in calls:
            print(flush=True)
            said = input(f"Result of {call.name}: " if sys.stdin.isatty() and sys.stdout.isatty() else "")
            results.append({"role": "tool", "content": said, "tool_call_id": call.id})
    except EOFError:
        return []
    return results


def _show(piece: str) -> None:
    print(piece, end="", flush=True)


def _line(number: int, message: Message) -> str:
    who = "you  " if message.role == "user" else "model"
    return f"{number}  {who}  {_short(message.text)}{'' if message.complete else ' (cut short)'}"


def _short(text: str, limit: int = 72) -> str:
    line = "".join(" " if ord(c) < 32 else c for c in text)
    return line if len(line) <= limit else line[:limit] + "…"
