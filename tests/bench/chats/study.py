#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Right and looping answers to prompts.jsonl by sampling settings, through `runnel serve`.

  study.py build/cpu/bin/runnel MODEL                             every setting below: long
  study.py PROGRAM MODEL --device cuda --settings greedy,default --parallel 64 --out answers
  study.py PROGRAM MODEL --settings grid.json                     {"name": {"temperature": 0.5, "min_p": 0.1}, …}
  study.py PROGRAM MODEL --settings greedy,default --expect greedy=140,default=130,loops=4
  study.py --rejudge answers                                      judges answers of --out again, no model needed

Prints one Markdown table; --out gets all answers, a file a setting and seed. How answers are judged: judge.py. With --expect
the exit code is 1 if a setting has fewer right answers of 200 (the mean of its seeds) than asked for, or if "default" has
more looping ones than "loops". Only the standard library is needed.
"""
import argparse
import concurrent.futures
import json
import math
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "serve"))
sys.path.insert(0, HERE)
import judge  # noqa: E402
import serving  # noqa: E402

KINDS = ["question", "arithmetic", "list", "code", "long", "text", "chat"]
SERVER_START_SECONDS = 120
# Every field is sent, so that what a model's file recommends does not mix in.
NEUTRAL = {"temperature": 0, "top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1, "presence_penalty": 0,
           "frequency_penalty": 0, "dry_multiplier": 0}
OPTIONS = {"temperature": "--temp", "top_p": "--top-p", "top_k": "--top-k", "min_p": "--min-p",
           "repetition_penalty": "--repeat-penalty", "presence_penalty": "--presence-penalty",
           "frequency_penalty": "--frequency-penalty", "dry_multiplier": "--dry-multiplier", "dry_base": "--dry-base",
           "dry_allowed_length": "--dry-allowed-length", "dry_penalty_last_n": "--dry-range",
           "dry_sequence_breakers": "--dry-breaker"}
# Sequence breakers by the end of a setting's name: usual ones; none; those of code (indentation, quotation marks); and those of
# all that must be said exactly again: code, LaTeX, equations, digits.
BREAKERS = {"": ["\n", ":", "\"", "*"], "open": [], "code": ["  ", "\t", "\""],
            "exact": ["  ", "\t", "\"", "\\", "=", *"0123456789"]}


def with_dry(name, fields):
    """A setting and what DRY makes of it, by allowed length and breakers."""
    yield name, fields
    for length in (2, 3, 4, 6, 8):
        for suffix, breakers in BREAKERS.items():
            yield f"{name}+dry{length}{suffix}", fields | {
                "dry_multiplier": 0.8, "dry_base": 1.75, "dry_allowed_length": length, "dry_penalty_last_n": 1024,
                "dry_sequence_breakers": breakers}


def built_in_settings():
    """All settings by name. "default" is what the model's file says, "penalty" what programs drew with before files did."""
    settings = {"greedy": {}, "default": None, "penalty": {"temperature": 0.7, "top_p": 0.95, "repetition_penalty": 1.15}}
    settings |= with_dry("greedy", {})
    for temperature in (0.3, 0.5, 0.7):
        for min_p in (0.05, 0.1):
            settings |= with_dry(f"t{temperature}m{min_p}", {"temperature": temperature, "min_p": min_p})
    return settings


def chosen_settings(text):
    if text.endswith(".json"):
        with open(text) as file:
            return json.load(file)
    known = built_in_settings()
    if text == "all":
        return known
    for name in text.split(","):
        if name not in known:
            sys.exit(f"--settings names {name!r}, expected a file .json or some of: {', '.join(known)}")
    return {name: known[name] for name in text.split(",")}


def server_options(fields):
    """Command line options for what a setting asks of every request; [] for the model's own defaults."""
    options = []
    for field, value in ((NEUTRAL | fields).items() if fields is not None else []):
        for one in ((value or [""]) if isinstance(value, list) else [value]):
            options += [OPTIONS[field], str(one)]
    return options


class Study:
    """One server, and the requests to it. Sampling goes with the requests if the server takes DRY's fields there, else a
    server is started for each setting."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.server = None
        self.started_with = None
        self.fields_in_requests = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.server:
            self.server.stop()
        self.server = None

    def start(self, options):
        if self.server and self.started_with == options:
            return
        self.stop()
        a = self.arguments
        device = ["--device", a.device] if a.device else []
        self.server = serving.Server(a.program, *device, "--parallel", str(a.parallel), "--queue", str(max(64, a.parallel)),
                                     "--state-memory", str(40 * a.parallel + 64), *options, model=a.model,
                                     seconds=SERVER_START_SECONDS)
        self.started_with = options

    def prepare(self, fields):
        """Starts what is needed for a setting and returns the fields to send with its requests."""
        if self.fields_in_requests is None:
            self.start([])
            status, _ = self.server.ask("/v1/completions", {"prompt": "Hi", "max_tokens": 1, "dry_multiplier": 0.5,
                                                            "dry_sequence_breakers": ["\n"]})
            self.fields_in_requests = status == 200
        if not self.fields_in_requests:
            self.start(server_options(fields))
            return {}
        self.start([])
        return NEUTRAL | fields if fields is not None else {}

    def answers(self, entry, fields, seed):
        """The answers to an entry's turns, each told the ones before, and how many tokens they took."""
        messages, answers, tokens, cut = [], [], 0, False
        for turn in entry["turns"]:
            messages.append({"role": "user", "content": turn})
            body = {"messages": messages, "max_tokens": entry["most_tokens"], "seed": seed} | fields
            status, said = self.server.ask("/v1/chat/completions", body, timeout=3600)
            if status != 200:
                raise RuntimeError(f"{entry['id']}: the server said {status}: {said}")
            text = said["choices"][0]["message"]["content"]
            cut = said["choices"][0]["finish_reason"] == "length"
            tokens += said["usage"]["completion_tokens"]
            messages.append({"role": "assistant", "content": text})
            answers.append(text)
        return {"answers": answers, "tokens": tokens, "cut": cut}


def judged(entry, said, setting, seed):
    last = said["answers"][-1]
    before = said["answers"][-2] if len(said["answers"]) > 1 else ""
    return {"id": entry["id"], "kind": entry["kind"], "setting": setting, "seed": seed,
            "right": judge.right(last, entry["check"], entry["turns"][-1], before),
            "loops": any(judge.loops(a) for a in said["answers"]),
            "repetitive": any(judge.repetitive(a) for a in said["answers"]), "turns": entry["turns"], **said}


def run_setting(study, name, fields, seed, entries, out):
    """All entries by one setting and seed; each entry's own seed follows from both."""
    sent = study.prepare(fields)
    with concurrent.futures.ThreadPoolExecutor(study.arguments.parallel) as pool:
        said = list(pool.map(lambda n: study.answers(entries[n], sent, 1000 * seed + n), range(len(entries))))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda pair: judged(*pair, name, seed), zip(entries, said)))
    if out:
        os.makedirs(out, exist_ok=True)
        write_results(os.path.join(out, f"{name}-{seed}.jsonl"), results)
    return results


def rejudged(folder, entries):
    """The answers in a folder that --out wrote, judged by today's checks and written back: {setting: results}. Answers to
    prompts that have changed since are left out."""
    known = {e["id"]: e for e in entries}
    found = {}
    for name in sorted(os.listdir(folder), key=lambda name: (not name.startswith("greedy-"), name)):
        with open(os.path.join(folder, name)) as file:
            rows = [json.loads(line) for line in file]
        results = [judged(known[r["id"]], {k: r[k] for k in ("answers", "tokens", "cut")}, r["setting"], r["seed"])
                   for r in rows if r["turns"] == known.get(r["id"], {}).get("turns")]
        write_results(os.path.join(folder, name), results)
        found.setdefault(rows[0]["setting"], []).extend(results)
    return found


def write_results(path, results):
    with open(path, "w") as file:
        file.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in results)


def interval(share, count):
    """Wilson's 95 % interval of a share seen in `count` independent trials."""
    z = 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return middle - half, middle + half


def shares(results):
    """The share of right answers by prompt, over the seeds."""
    by_id = {}
    for r in results:
        by_id.setdefault(r["id"], []).append(r["right"])
    return {name: sum(rights) / len(rights) for name, rights in by_id.items()}


def against(results, first):
    """How many prompts more (or fewer) than `first` these results have right, with the 95 % interval of that difference,
    from the prompts that both have: much narrower than two intervals beside each other."""
    ours, theirs = shares(results), shares(first)
    differences = [ours[name] - theirs[name] for name in ours if name in theirs]
    count = len(differences)
    total = sum(differences)
    squares = sum((d - total / count) ** 2 for d in differences)
    return f"{total:+.4g} ± {1.96 * math.sqrt(count * squares / max(1, count - 1)):.1f}"


def draws(fields):
    return fields is None or fields.get("temperature", 0) > 0


def table_row(name, results, entries, first):
    """Counts are means over the seeds, out of the number of prompts; the interval is that of the prompts, since seeds share
    them."""
    count = len(entries)
    seeds = len({r["seed"] for r in results})
    right = sum(r["right"] for r in results) / seeds
    low, high = interval(right / count, count)
    cells = [name, f"{right:.4g}", f"{low * count:.0f} to {high * count:.0f}", against(results, first)]
    for kind in KINDS:
        of = [r for r in results if r["kind"] == kind]
        cells.append(f"{sum(r['right'] for r in of) / seeds:.4g}" if of else "")
    loops = sum(r["loops"] for r in results) / seeds
    repetitive = sum(r["repetitive"] for r in results) / seeds
    cells += [f"{loops:.4g}", f"{repetitive:.4g}", f"{sum(r['tokens'] for r in results) / len(results):.1f}", str(seeds)]
    return "| " + " | ".join(cells) + " |", right, loops


def table_head(entries):
    counts = [f"{kind} of {sum(e['kind'] == kind for e in entries)}" for kind in KINDS]
    cells = ["setting", f"right of {len(entries)}", "95 %", "against the first", *counts, "looping", "repetitive", "tokens", "seeds"]
    return "| " + " | ".join(cells) + " |\n|" + "---|" * len(cells)


def missed(expected, rights, loops):
    """What --expect asked for and did not get, as texts."""
    misses = []
    for part in (expected.split(",") if expected else []):
        name, least = part.split("=")
        if name == "loops":
            if "default" not in loops:
                misses.append("loops: default was not measured")
            elif loops["default"] > float(least):
                misses.append(f"default: {loops['default']:.4g} looping, expected at most {least}")
        elif name not in rights:
            misses.append(f"{name}: not measured")
        elif rights[name] < float(least):
            misses.append(f"{name}: {rights[name]:.4g} right, expected at least {least}")
    return misses


def read_entries(only=None, path=os.path.join(HERE, "prompts.jsonl")):
    with open(path) as file:
        entries = [json.loads(line) for line in file]
    return [e for e in entries if only in (None, e["kind"])]


def measured(arguments, settings, entries):
    """Yields (setting, results of all seeds), one after another as they are had."""
    with Study(arguments) as study:
        for name, fields in settings.items():
            began = time.monotonic()
            seeds = arguments.seeds if draws(fields) else 1
            results = [r for seed in range(seeds) for r in run_setting(study, name, fields, seed, entries, arguments.out)]
            print(f"{name}: {time.monotonic() - began:.0f} s, {sum(r['tokens'] for r in results)} tokens", file=sys.stderr)
            yield name, results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--rejudge", metavar="DIR", help="judge the answers in a folder again, after a check has changed")
    parser.add_argument("--device", help="as for runnel serve: cpu, cuda, …")
    parser.add_argument("--settings", default="all", help="names, separated by commas, or a JSON file; default: all")
    parser.add_argument("--only", choices=KINDS, help="prompts of one kind")
    parser.add_argument("--parallel", type=int, default=8, help="chats at once")
    parser.add_argument("--seeds", type=int, default=2, help="runs of each setting that draws")
    parser.add_argument("--out", help="folder for the answers")
    parser.add_argument("--expect", help="least right answers by setting and most looping ones: greedy=140,default=130,loops=4")
    arguments = parser.parse_args()
    entries = read_entries(arguments.only)
    if arguments.rejudge:
        runs = rejudged(arguments.rejudge, entries).items()
    elif arguments.model:
        runs = measured(arguments, chosen_settings(arguments.settings), entries)
    else:
        parser.error("expected PROGRAM and MODEL, or --rejudge DIR")
    rights, loops = {}, {}
    print(table_head(entries), flush=True)
    first = None
    for name, results in runs:
        first = first or results
        row, rights[name], loops[name] = table_row(name, results, entries, first)
        print(row, flush=True)
    misses = missed(arguments.expect, rights, loops)
    for miss in misses:
        print(miss, file=sys.stderr)
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
