# SPDX-License-Identifier: Apache-2.0
"""Runnel: language models whose whole memory of a conversation is one state of constant size. docs/python.md begins
with an example."""
from ._library import plain as _plain
from .batch import Batch, Fed
from .constraint import Constraint
from .errors import (BusyError, CancelledError, ClosedError, DeviceError, Error, ForkedError, InternalError,
                     InvalidArgumentError, IoError, MalformedError, MismatchError, NotFoundError, OutOfMemoryError,
                     UnsupportedError)
from .generation import AsyncGeneration, Generation, Logprob
from .model import Device, Model, devices
from .session import Session
from .snapshot import Snapshot

__version__: str = _plain.version().decode()
__all__ = [
    "AsyncGeneration", "Batch", "BusyError", "CancelledError", "ClosedError", "Constraint", "Device", "DeviceError", "Error",
    "Fed", "ForkedError", "Generation", "InternalError", "InvalidArgumentError", "IoError", "Logprob", "MalformedError",
    "MismatchError", "Model", "NotFoundError", "OutOfMemoryError", "Session", "Snapshot", "UnsupportedError", "devices"
]
