# SPDX-License-Identifier: Apache-2.0
"""The small model, loaded once for all tests of the package."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import runnel

#: The package without its types, to call it wrongly.
UNTYPED: Any = runnel

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "models/runnel-gsa-135m-instruct.gguf"
PROMPT = "The capital of France is"
MODEL = runnel.Model(FILE, device="cpu", threads=1)  # more would wait for each other on a busy machine


def prompted() -> runnel.Session:
    session = MODEL.session()
    session.prefill(PROMPT)
    return session


def drawn(session: runnel.Session, count: int) -> list[int]:
    """The next `count` tokens, those of an end included, whose text may be empty."""
    answer = session.generate(max_tokens=count, ignore_end=True)
    answer.read()
    return answer.tokens
