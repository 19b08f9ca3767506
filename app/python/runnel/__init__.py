# SPDX-License-Identifier: Apache-2.0
"""Runnel: language models whose whole memory of a conversation is one state of constant size. docs/python.md begins
with an example."""
from ._library import plain as _plain
from .batch import Batch, Fed
from .constraint import Constraint
from .conversation import Conversation, Reply, TokenCost, Turn, make_pack
from .errors import (BusyError, CancelledError, ClosedError, DeviceError, Error, ForkedError, InternalError,
                     InvalidArgumentError, IoError, MalformedError, MismatchError, NotFoundError, OutOfMemoryError,
                     UnsupportedError)
from .generation import AsyncGeneration, Generation, Logprob
from .model import Device, Model, devices
from .session import Session
from .snapshot import Snapshot
from .store import Branch, ConversationInfo, ForgetReport, Hit, Message, Salvaged, Store, Trash, Usage
from .tools import ToolAnswer, ToolCall, ToolEvent, ToolReader, Tools, read_tool_calls

__version__: str = _plain.version().decode()
__all__ = [
    "AsyncGeneration", "Batch", "Branch", "BusyError", "CancelledError", "ClosedError", "Constraint", "Conversation",
    "ConversationInfo", "Device", "DeviceError", "Error", "Fed", "ForgetReport", "ForkedError", "Generation", "Hit",
    "InternalError", "InvalidArgumentError", "IoError", "Logprob", "MalformedError", "Message", "MismatchError", "Model",
    "NotFoundError", "OutOfMemoryError", "Reply", "Salvaged", "Session", "Snapshot", "Store", "TokenCost", "ToolAnswer",
    "ToolCall", "ToolEvent", "ToolReader", "Tools", "Trash", "Turn", "UnsupportedError", "Usage", "devices", "make_pack",
    "read_tool_calls"
]
