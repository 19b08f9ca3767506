# SPDX-License-Identifier: Apache-2.0
"""The models that come with Runnel, by name: where they are installed."""
from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from .errors import NotFoundError

# The package of a wheel, and the file to open (of a split model: its first part).
CARRIED = {
    "default": ("runnel_model", "runnel-gsa-0.5b-coder-instruct-00001-of-00003.gguf"),
    "small": ("runnel_model_small", "runnel-gsa-135m-instruct.gguf"),
}


def find(name: str) -> Path:
    """The file of a carried model: of its wheel, beside a source tree's package, or where the program `runnel` has it.
    Raises NotFoundError, which names the places."""
    package, file = CARRIED[name]
    found = importlib.util.find_spec(package)
    places = [Path(found.origin).parent] if found is not None and found.origin is not None else []
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    places += [Path(__file__).resolve().parents[3] / "models", Path(data) / "runnel", Path(sys.prefix) / "share/runnel",
               Path("/usr/local/share/runnel"), Path("/usr/share/runnel")]
    for place in places:
        if (place / file).is_file():
            return place / file
    raise NotFoundError(f'the model "{name}" ({file}) is not installed: pip install {package.replace("_", "-")}, or give '
                        f"a path; it was looked for in {', '.join(map(str, places))}")
