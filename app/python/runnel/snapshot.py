# SPDX-License-Identifier: Apache-2.0
"""Snapshots: all that a session remembers, as a value."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Literal

from . import _structs as s
from ._handle import Handle, Owner
from ._library import call, handle, path_of, plain
from .model import _sized_bytes

Encoding = Literal["f32", "f16", "int8"]
_ENCODINGS = {"f32": 0, "f16": 1, "int8": 2}


def _encoding(name: str) -> int:
    if name not in _ENCODINGS:
        raise ValueError(f"encoding is {name!r}, expected one of {', '.join(_ENCODINGS)}")
    return _ENCODINGS[name]


class Snapshot(Handle):
    """Immutable; any number of threads and sessions use one. It pickles as the bytes of its file format: no code."""

    _name = "snapshot"

    @staticmethod
    def load(file: str | os.PathLike[str]) -> Snapshot:
        """Raises NotFoundError, IoError, MalformedError for what is no snapshot or damaged, UnsupportedError for a newer
        version's."""
        return Snapshot(Owner(handle("snapshot_load", path_of("file", file)), plain.snapshot_free))

    @staticmethod
    def from_bytes(data: bytes | bytearray | memoryview) -> Snapshot:
        """What to_bytes() gave, which is what a file has. Raises MalformedError for anything else."""
        if not isinstance(data, bytes):
            data = bytes(memoryview(data))
        return Snapshot(Owner(handle("snapshot_from_bytes", data, len(data)), plain.snapshot_free))

    def save(self, file: str | os.PathLike[str], *, encoding: Encoding = "f32", compress: bool = False) -> None:
        """The file is replaced as a whole or not at all. f32 continues bit for bit, f16 and int8 are smaller and round
        (docs/snapshot-format.md). Raises IoError, ValueError for another encoding."""
        call("snapshot_save", self._live(), path_of("file", file), _encoding(encoding), compress)

    def to_bytes(self, *, encoding: Encoding = "f32", compress: bool = False) -> bytes:
        """The bytes of the file that save() writes."""
        code = _encoding(encoding)
        return _sized_bytes(lambda *room: call("snapshot_to_bytes", self._live(), code, compress, *room),
                            self.nbytes + 65536)

    @property
    def position(self) -> int:
        """Tokens that its session had consumed."""
        return int(plain.snapshot_position(self._live()))

    @property
    def fingerprint(self) -> int:
        """Model.fingerprint of the model it belongs to."""
        return int(plain.snapshot_fingerprint(self._live()))

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return int(plain.snapshot_bytes(self._live()))

    @property
    def window_slots(self) -> int | None:
        """The window that it was taken with; None: that of the model's file."""
        window = int(plain.snapshot_window_slots(self._live()))
        return None if window == s.FILE_WINDOW else window

    def __reduce_ex__(self, protocol: object) -> Any:
        return Snapshot.from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Snapshot):
            return NotImplemented
        return self is other or self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash((self.position, self.fingerprint))


def _of_session(owner: Owner) -> Snapshot:
    made = ctypes.c_void_p()
    call("session_snapshot", owner, ctypes.byref(made))
    return Snapshot(Owner(made, plain.snapshot_free))
