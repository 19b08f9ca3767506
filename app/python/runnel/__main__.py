# SPDX-License-Identifier: Apache-2.0
"""python -m runnel chat [FILE]: a chat in the terminal, with the commands of `runnel chat`; /help lists them."""
from __future__ import annotations

import argparse
import sys
from typing import Any

from . import Error, Model, Snapshot, Store
from ._chat import Chat, KeptChat, converse

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m runnel", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    talk = commands.add_parser("chat", help="chat in the terminal")
    talk.add_argument("file", metavar="FILE", nargs="?", default="default", help="model file (GGUF), default or small")
    talk.add_argument("--device", default="auto", help="where to compute (default auto)")
    talk.add_argument("-t", "--threads", type=int, default=0, help="threads on the CPU, 0: one per core")
    talk.add_argument("-n", "--max-tokens", type=int, default=1024, help="tokens of an answer, at most")
    talk.add_argument("--system", default="", help="system prompt, instead of the model's own")
    talk.add_argument("--conversation", metavar="NAME",
                      help="keep the conversation under this name, and continue it if it exists")
    talk.add_argument("--library", metavar="FILE", help="library of conversations, instead of the usual one")
    talk.add_argument("--pack", metavar="PACK", help="begin a kept conversation after a state pack")
    talk.add_argument("--load", metavar="SNAPSHOT", help="start from a snapshot")
    talk.add_argument("--save", metavar="SNAPSHOT", help="write a snapshot when leaving")
    for name in _SAMPLING:
        kind = int if name in ("top_k", "seed") else float
        talk.add_argument("--" + name.replace("_", "-"), type=kind,
                          help="docs/samplers.md; else as the model's file recommends")
    return parser


def _chat(asked: argparse.Namespace) -> None:
    options: dict[str, Any] = {"max_tokens": asked.max_tokens}
    options.update((name, getattr(asked, name)) for name in _SAMPLING if getattr(asked, name) is not None)
    with Model(asked.file, device=asked.device, threads=asked.threads) as model:
        if asked.conversation is None:
            chat = Chat(model, asked.system, options)
        else:
            pack = Snapshot.load(asked.pack) if asked.pack else None
            chat = KeptChat(model, Store(asked.library), asked.conversation, asked.system, pack, options)
        if asked.load:
            chat.do_load(asked.load)
        converse(chat)
        if asked.save:
            chat.do_save(asked.save)


def main() -> int:
    parser = _parser()
    asked = parser.parse_args()
    if asked.conversation is None and (asked.pack or asked.library):
        parser.error("--pack and --library need --conversation")
    if asked.conversation is not None and asked.load:
        parser.error("--load would leave the kept conversation")
    try:
        _chat(asked)
    except (Error, ValueError) as error:
        print(f"runnel: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
