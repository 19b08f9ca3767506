# SPDX-License-Identifier: Apache-2.0
"""What can go wrong: one class for each error code of the library, and three for misuse from Python."""
from __future__ import annotations

from typing import ClassVar


class Error(Exception):
    """Base of all errors of this package. Its text names the thing, its value and what was expected."""

    code: ClassVar[str] = "unknown"


class InvalidArgumentError(Error, ValueError):
    """A value outside its documented range."""

    code = "invalid_argument"


class NotFoundError(Error, LookupError):
    """A file, tensor, key or device does not exist."""

    code = "not_found"


class IoError(Error, OSError):
    """The operating system refused a read or a write."""

    code = "io"


class MalformedError(Error, ValueError):
    """A file or a text is not what its format says."""

    code = "malformed"


class UnsupportedError(Error):
    """Well-formed, but this build does not run it."""

    code = "unsupported"


class MismatchError(Error):
    """Belongs to another model or version."""

    code = "mismatch"


class OutOfMemoryError(Error, MemoryError):
    """An allocation on the host or on a device failed."""

    code = "out_of_memory"


class DeviceError(Error):
    """A driver or device failed or was lost."""

    code = "device"


class CancelledError(Error):
    """Stopped on request, and nothing of the call stays."""

    code = "cancelled"


class InternalError(Error):
    """A defect of the library; please report the text."""

    code = "internal"


class ClosedError(Error, ValueError):
    """The object was closed."""

    code = "closed"


class BusyError(Error, RuntimeError):
    """A session or conversation is in use by another thread, or by the call whose callback this is."""

    code = "busy"


class ForkedError(Error, RuntimeError):
    """The object was made before os.fork(); its threads are the parent's. Load the model again, or use "spawn"."""

    code = "forked"


_BY_STATUS: dict[int, type[Error]] = {
    1: InvalidArgumentError,
    2: NotFoundError,
    3: IoError,
    4: MalformedError,
    5: UnsupportedError,
    6: MismatchError,
    7: OutOfMemoryError,
    8: DeviceError,
    9: CancelledError,
    10: InternalError,
    11: InternalError,  # too_small is for callers in C: every call here asks again with more room
}


def error_of(status: int, message: str) -> Error:
    """The exception for a status of the C API."""
    return _BY_STATUS.get(status, Error)(message)
