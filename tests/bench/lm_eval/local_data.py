# SPDX-License-Identifier: Apache-2.0
"""The items of the task files beside this: drawn with a seed, as tests/bench/eval draws them, from files in the folder that
RUNNEL_EVAL_DATA names (lambada.jsonl.xz, arc-easy.jsonl.xz). Nothing is fetched. RUNNEL_EVAL_ITEMS: other than 250."""
from __future__ import annotations

import json
import lzma
import os
import random
from pathlib import Path
from typing import Any

import datasets


def _drawn(name: str, task: str, items: int) -> list[dict[str, Any]]:
    folder = os.environ.get("RUNNEL_EVAL_DATA")
    if not folder:
        raise SystemExit("RUNNEL_EVAL_DATA is not set, expected the folder of " + name)
    with lzma.open(Path(folder) / name, "rt", encoding="utf-8") as file:
        lines = file.read().splitlines(keepends=True)
    return [json.loads(line) for line in random.Random(f"1 {task}").sample(lines, int(os.environ.get("RUNNEL_EVAL_ITEMS") or items))]


def lambada(items: int, **_: object) -> dict[str, datasets.Dataset]:
    return {"test": datasets.Dataset.from_list(_drawn("lambada.jsonl.xz", "lambada", items))}


def arc_easy(items: int, **_: object) -> dict[str, datasets.Dataset]:
    return {"test": datasets.Dataset.from_list(_drawn("arc-easy.jsonl.xz", "arc", items))}
