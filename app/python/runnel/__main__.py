# SPDX-License-Identifier: Apache-2.0
"""python -m runnel chat [FILE]: a chat in the terminal. Ctrl-C stops an answer, Ctrl-D ends."""
from __future__ import annotations

import argparse
import sys

from . import Error, Model


def chat(model: Model, max_tokens: int) -> None:
    session = model.session()
    messages: list[dict[str, str]] = []
    if model.default_system:
        messages.append({"role": "system", "content": model.default_system})
    read, closed, marks = 0, True, {0: session.snapshot()}
    while True:
        try:
            said = input("> ")
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()
            continue
        if not said.strip():
            continue
        messages.append({"role": "user", "content": said})
        kept, tokens = model.read_chat(messages, read, closed=closed)
        if kept < read:  # the template lays out earlier turns anew
            kept = max(at for at in marks if at <= kept)
            session.restore(marks[kept])
            kept, tokens = model.read_chat(messages, kept, closed=True)
        session.prefill(tokens)
        answer = session.generate(max_tokens=max_tokens, recommended=True)
        try:
            for piece in answer:
                print(piece, end="", flush=True)
        except KeyboardInterrupt:
            answer.close()
        print()
        messages.append({"role": "assistant", "content": answer.text})
        read, closed = len(messages), answer.finish == "end"
        marks[read] = session.snapshot()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m runnel", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    talk = commands.add_parser("chat", help="chat in the terminal")
    talk.add_argument("file", metavar="FILE", help="model file (GGUF)")
    talk.add_argument("--device", default="auto", help="where to compute (default auto)")
    talk.add_argument("-t", "--threads", type=int, default=0, help="threads on the CPU, 0: one per core")
    talk.add_argument("-n", "--max-tokens", type=int, default=1024, help="tokens of an answer, at most")
    asked = parser.parse_args()
    try:
        with Model(asked.file, device=asked.device, threads=asked.threads) as model:
            chat(model, asked.max_tokens)
    except Error as error:
        print(f"runnel: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
