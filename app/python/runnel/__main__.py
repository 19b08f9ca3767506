# SPDX-License-Identifier: Apache-2.0
"""python -m runnel chat [FILE]: a chat in the terminal, with the options and commands of `runnel chat`; /help lists the
commands, docs/python.md what is not there."""
from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path
from typing import Any

from . import Constraint, Error, Model, Snapshot, Store, Tools
from ._chat import Chat, KeptChat, converse
from ._models import CARRIED

# Numbers of a generation, as the program names them.
_NUMBERS: dict[str, tuple[str, type]] = {
    "--temp": ("temperature", float), "--top-k": ("top_k", int), "--top-p": ("top_p", float), "--min-p": ("min_p", float),
    "--repeat-penalty": ("repetition_penalty", float), "--presence-penalty": ("presence_penalty", float),
    "--frequency-penalty": ("frequency_penalty", float), "--penalty-window": ("penalty_window", int),
    "--dry-multiplier": ("dry_multiplier", float), "--dry-base": ("dry_base", float),
    "--dry-allowed-length": ("dry_allowed_length", int), "--dry-range": ("dry_range", int),
    "--top-nsigma": ("top_n_sigma", float), "--typical": ("typical_p", float),
    "--xtc-probability": ("xtc_probability", float), "--xtc-threshold": ("xtc_threshold", float),
    "--dynatemp-range": ("dynatemp_range", float), "--dynatemp-exp": ("dynatemp_exponent", float),
    "--mirostat": ("mirostat", int), "--mirostat-ent": ("mirostat_tau", float), "--mirostat-lr": ("mirostat_eta", float),
    "--no-repeat-ngram": ("no_repeat_ngram", int), "--seed": ("seed", int),
}
_ALSO = {"--temp": "--temperature", "--repeat-penalty": "--repetition-penalty", "--top-nsigma": "--top-n-sigma"}
_CONSTRAINTS = ("json", "json_schema", "grammar", "regex", "choice")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m runnel", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    talk = commands.add_parser("chat", help="chat in the terminal")
    talk.add_argument("file", metavar="FILE", nargs="?", help="model file (GGUF); without it: the default model")
    talk.add_argument("-m", "--model", choices=list(CARRIED), help="a model that comes with Runnel")
    talk.add_argument("--device", default="auto", help="where to compute (default auto)")
    talk.add_argument("-t", "--threads", type=int, default=0, help="threads on the CPU, 0: one per core")
    talk.add_argument("--window", type=int, help="window slots: how many of the newest tokens are seen word for word")
    talk.add_argument("--chat-template", metavar="FILE|NAME", help="chatml, plain, rwkv or a file with a Jinja template")
    talk.add_argument("--system", default="", help="system prompt, instead of the model's own")
    talk.add_argument("--think", choices=["on", "off"], help="of a kept conversation: make the model think before, or not")
    talk.add_argument("--conversation", metavar="NAME",
                      help="keep the conversation under this name, and continue it if it exists")
    talk.add_argument("--library", metavar="FILE", help="library of conversations, instead of the usual one")
    talk.add_argument("--pack", metavar="PACK", help="begin a kept conversation after a state pack")
    talk.add_argument("--load", metavar="SNAPSHOT", help="start from a snapshot")
    talk.add_argument("--save", metavar="SNAPSHOT", help="write a snapshot when leaving")
    draw = talk.add_argument_group("Generation", "docs/samplers.md; else as the model's file recommends")
    draw.add_argument("-n", "--max-tokens", type=int, default=1024, help="tokens of an answer, at most")
    for name, (into, kind) in _NUMBERS.items():
        draw.add_argument(*filter(None, [name, _ALSO.get(name)]), dest=into, type=kind, metavar="N" if kind is int else "X")
    for name, into, what in (("--stop", "stop", "end before this text"), ("--ban-text", "banned_texts", "a text never to be said"),
                             ("--dry-breaker", "dry_breakers", 'text that DRY does not look across, "" for none')):
        draw.add_argument(name, dest=into, action="append", metavar="TEXT", help=what + "; repeatable")
    draw.add_argument("--samplers", metavar="NAMES", help="order of the samplers")
    draw.add_argument("--logit-bias", action="append", type=_bias, metavar="ID=VALUE",
                      help='add VALUE to a token, or to those of a "TEXT" in double quotes; repeatable')
    draw.add_argument("--ignore-end", action="store_true", help="go on after the end of the text")
    kept = talk.add_argument_group("Constraints (docs/constraints.md)").add_mutually_exclusive_group()
    kept.add_argument("--json", action="store_true", help="answer with a JSON object")
    kept.add_argument("--json-schema", metavar="FILE", type=Path, help="answer with JSON of this schema")
    kept.add_argument("--grammar", metavar="FILE", type=Path, help="answer with a text of this GBNF grammar")
    kept.add_argument("--regex", metavar="RE", help="answer with a text that matches RE as a whole")
    kept.add_argument("--choice", metavar="TEXT", action="append", help="answer with this or another --choice; repeatable")
    kept.add_argument("--tools", metavar="FILE", type=Path,
                      help="tools that the model may call (docs/tools.md): calls are printed, results are read, a line each")
    talk.add_argument("--tool-choice", default="auto", metavar="auto|required|NAME", help="with --tools (default auto)")
    return parser


def _bias(text: str) -> tuple[int | str, float]:
    """ID=VALUE, ID+VALUE, ID-VALUE or "TEXT"=VALUE."""
    quoted, _, value = text.rpartition("=")
    try:
        if quoted.startswith('"') and quoted.endswith('"') and len(quoted) > 2:
            return quoted[1:-1], float(value)
        digits = len(text) - len(text.lstrip("0123456789"))
        sign, rest = text[digits], text[digits + 1:]
        if digits and sign in "=+-" and (sign == "=" or rest[0] not in "+-"):
            return int(text[:digits]), -float(rest) if sign == "-" else float(rest)
    except (ValueError, IndexError):
        pass
    raise argparse.ArgumentTypeError(f"{text} is no ID=VALUE such as 42=-1.5, ID+VALUE, ID-VALUE or \"TEXT\"=VALUE")


def _constraint(asked: argparse.Namespace, model: Model, tools: Tools | None) -> Constraint | None:
    if asked.json:
        return Constraint.json_object(model, strict=False)
    if asked.json_schema is not None:
        return Constraint.json_schema(model, asked.json_schema.read_text(encoding="utf-8"))
    if asked.grammar is not None:
        return Constraint.grammar(model, asked.grammar.read_text(encoding="utf-8"))
    if asked.regex is not None:
        return Constraint.regex(model, asked.regex)
    if asked.choice:
        return Constraint.choice(model, asked.choice)
    return tools.constraint(model, asked.tool_choice) if tools is not None else None


def _options(asked: argparse.Namespace) -> dict[str, Any]:
    """Those of Session.generate() that were given; without a seed the answers differ each time."""
    options: dict[str, Any] = {"max_tokens": asked.max_tokens, "seed": random.getrandbits(63)}
    names = [into for into, _ in _NUMBERS.values()] + ["stop", "banned_texts", "samplers"]
    options |= {name: getattr(asked, name) for name in names if getattr(asked, name) is not None}
    if asked.dry_breakers is not None:
        options["dry_breakers"] = [text for text in asked.dry_breakers if text]
    if asked.logit_bias:
        options["logit_bias"] = dict(asked.logit_bias)
    return options | ({"ignore_end": True} if asked.ignore_end else {})


def _chat(asked: argparse.Namespace) -> None:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    with Model(asked.file or asked.model or "default", device=asked.device, threads=asked.threads, window=asked.window,
               chat_template=asked.chat_template, cache_directory=Path(cache) / "runnel") as model:
        tools = Tools(asked.tools.read_text(encoding="utf-8")) if asked.tools is not None else None
        options = _options(asked) | {"constraint": _constraint(asked, model, tools)}
        if asked.conversation is None:
            chat = Chat(model, asked.system, options, tools)
        else:
            pack = Snapshot.load(asked.pack) if asked.pack else None
            if asked.think is not None:
                options["thinking"] = asked.think == "on"
            chat = KeptChat(model, Store(asked.library), asked.conversation, asked.system, pack, options)
        if asked.load:
            chat.do_load(asked.load)
        converse(chat)
        if asked.save:
            chat.do_save(asked.save)


def main() -> int:
    parser = _parser()
    asked = parser.parse_args()
    if asked.file is not None and asked.model is not None:
        parser.error("a FILE and --model name two models")
    if asked.conversation is None and (asked.pack or asked.library or asked.think):
        parser.error("--pack, --library and --think need --conversation")
    if asked.conversation is not None and (asked.load or asked.tools):
        parser.error("--load and --tools are not for a kept conversation")
    if asked.pack and asked.system:
        parser.error("--system is not for a conversation that begins after a pack")
    try:
        _chat(asked)
    except (Error, ValueError, OSError) as error:
        print(f"runnel: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
