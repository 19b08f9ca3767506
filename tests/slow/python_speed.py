# SPDX-License-Identifier: Apache-2.0
"""What the Python package costs: python_speed.py MODEL [TOKENS]. RUNNEL_PROGRAM names the C++ program, which takes turns with
it; RUNNEL_ROUNDS of those (9). Ends with 0 if all is within its bounds. Run by tests/slow/run python-speed.

The machine's speed drifts, so that each round has its own ratio and the median of them counts.
"""
from __future__ import annotations

import gc
import json
import os
import pickle
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import runnel

FILE = sys.argv[1]
TOKENS = int(sys.argv[2]) if len(sys.argv) > 2 else 256
ROUNDS = int(os.environ.get("RUNNEL_ROUNDS") or 9)
PROGRAM = os.environ["RUNNEL_PROGRAM"]
STARTS = 9
failed = 0


def told(what: str, value: float, unit: str, good: bool, bound: str) -> None:
    global failed
    failed += not good
    print(f"{what}: {value:.3f}{unit} ({bound}){'' if good else ' NOT REACHED'}", flush=True)


def import_seconds() -> float:
    """How long the import takes in a new process in which NumPy cannot be imported."""
    code = ("import sys, time; sys.modules['numpy'] = None; began = time.perf_counter(); import runnel; "
            "print(time.perf_counter() - began)")
    return statistics.median(
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
        for _ in range(STARTS))


def by_program() -> float:
    """Tokens/s of the program's decode."""
    done = subprocess.run([PROGRAM, "bench", FILE, "--device", "cpu", "-p", "0", "-n", str(TOKENS), "-r", "1", "--json"],
                          check=True, capture_output=True, text=True)
    return float(next(row["tokens_per_second"] for row in json.loads(done.stdout)["results"] if row["test"] == "decode"))


def by_python(session: runnel.Session, work: Callable[[runnel.Session], object]) -> float:
    begun = session.fork()
    began = time.perf_counter()
    work(begun)
    return TOKENS / (time.perf_counter() - began)


def in_one_call(session: runnel.Session) -> None:
    session.complete(max_tokens=TOKENS, ignore_end=True)


def piece_by_piece(session: runnel.Session) -> None:
    for _ in session.generate(max_tokens=TOKENS, ignore_end=True):
        pass


def megabytes() -> float:
    """Resident memory of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def growth(many: int, work: Callable[[], object]) -> float:
    """MB that the process grows by in `many` calls, once a tenth of them has come."""
    for _ in range(many // 10):
        work()
    before = megabytes()
    for _ in range(many):
        work()
    return megabytes() - before


def decode(model: runnel.Model) -> None:
    session = model.session()
    session.prefill("Once upon a time")
    ways = {"one call": in_one_call, "piece by piece": piece_by_piece}
    ratios: dict[str, list[float]] = {name: [] for name in ways}
    speeds: dict[str, list[float]] = {name: [] for name in (*ways, "C++")}
    for number in range(ROUNDS):
        order = list(ways) if number % 2 else list(reversed(ways))
        before = by_program()
        own = {name: by_python(session, ways[name]) for name in order}
        program = (before + by_program()) / 2  # on both sides of them
        for name, speed in own.items():
            ratios[name].append(speed / program)
            speeds[name].append(speed)
        speeds["C++"].append(program)
    print(f"medians of {ROUNDS} rounds, {TOKENS} tokens: "
          + ", ".join(f"{name} {statistics.median(values):.1f}" for name, values in speeds.items()) + " tokens/s")
    for name, least in (("one call", 0.97), ("piece by piece", 0.9)):
        ratio = statistics.median(ratios[name])
        told(f"decode by {name} / C++", ratio, "", ratio >= least, f"at least {least}")


def main() -> None:
    took = 1000 * import_seconds()
    told("import runnel without NumPy", took, " ms", took <= 100, "at most 100")
    with runnel.Model(FILE, device="cpu") as model:
        session = model.session()
        session.prefill("Once upon a time")
        for what, many, work in (("sessions made and dropped", 1000, lambda: model.session().prefill([1, 2, 3])),
                                 ("snapshots pickled", 10_000, lambda: pickle.dumps(session.snapshot()))):
            grown = growth(many, work)
            told(f"{many:,} {what}: memory grows by", grown, " MB", grown <= 2, "at most 2")
        decode(model)


main()
sys.exit(failed != 0)
