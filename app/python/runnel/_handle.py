# SPDX-License-Identifier: Apache-2.0
"""Who owns what C made, who may use it now, and how a long call is waited for.

A handle may be shared by several objects (a view of logits keeps its session's memory), so an `Owner` frees it when the
last reference goes: closing an object only drops the object's own reference, and a call that is running keeps one.
"""
from __future__ import annotations

import contextvars
import ctypes
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from .errors import BusyError, ClosedError, ForkedError

T = TypeVar("T")
Self = TypeVar("Self", bound="Handle")


class Owner:
    """Frees a handle of the C API with its last reference. ctypes takes it where a pointer is expected."""

    __slots__ = ("_as_parameter_", "pid", "_free", "_needs", "_getpid")

    def __init__(self, pointer: ctypes.c_void_p, free: Callable[[ctypes.c_void_p], object], *needs: Owner) -> None:
        self._as_parameter_ = pointer
        self.pid = os.getpid()
        self._free = free
        self._needs = needs  # freed after it
        self._getpid = os.getpid

    def __del__(self) -> None:
        if self._getpid() == self.pid:  # the threads of a model do not exist in a forked child
            self._free(self._as_parameter_)


class Handle:
    """An object of the C API: closed once, of use in the process that made it, and never pickled by itself."""

    _name = "object"
    _pickle = "make it anew"  # what to do instead of pickling

    def __init__(self, owner: Owner) -> None:
        self._owner: Owner | None = owner

    def _live(self) -> Owner:
        owner = self._owner
        if owner is None:
            raise ClosedError(f"the {self._name} is closed")
        if owner.pid != os.getpid():
            raise ForkedError(
                f"the {self._name} was made before os.fork() by process {owner.pid}; load the model in this process, or "
                'start processes with the method "spawn"')
        return owner

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._owner is None

    def close(self) -> None:
        """Gives its memory back, as soon as no call and no view uses it. Later uses raise ClosedError."""
        self._owner = None

    def __enter__(self: Self) -> Self:
        self._live()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"a {type(self).__name__} does not pickle: {self._pickle}")

    def __copy__(self: Self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is not copied: {self._pickle}")


class Exclusive(Handle):
    """A handle that one thread uses at a time. Another thread gets BusyError, it does not wait."""

    def __init__(self, owner: Owner) -> None:
        super().__init__(owner)
        self._user: dict[int, int] = {}  # {0: who}; setdefault() and pop() are atomic
        self._in_callback = False  # of a call on this thread, which is inside of C meanwhile

    def _hold(self) -> Hold:
        """For a short call on this thread. An interrupt may cut anything short, so what is left of a hold of this thread
        is no obstacle to its next one: between two of its bytecodes no call of its own is running."""
        return Hold(self, threading.get_ident())

    def _callback_hold(self) -> Hold:
        """For a call with callbacks, which run on a thread that may not come back to this object."""
        return Hold(self, 0)


class Hold:
    """The right to use an Exclusive, as a context manager that gives its Owner."""

    __slots__ = ("_handle", "_who")

    def __init__(self, handle: Exclusive, who: int) -> None:
        self._handle = handle
        self._who = who or -id(self)

    def __enter__(self) -> Owner:
        owner = self._handle._live()
        if self._handle._in_callback or self._handle._user.setdefault(0, self._who) != self._who:
            raise BusyError(f"the {self._handle._name} is in use by another thread or by the call that this callback "
                            "belongs to; one thread uses it at a time")
        return owner

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if self._handle._user.get(0) == self._who:
            self._handle._user.pop(0, None)


def wait_for(work: Callable[[], T], stop: Callable[[], object]) -> T:
    """Runs `work` on a thread of its own and waits: Python handles signals between bytecodes of the main thread alone,
    which must therefore not be inside of C for long. What a handler raises (KeyboardInterrupt) calls `stop`, waits for
    the end, which is then near, and goes on. A second one does not wait: `work` ends by itself and holds what it uses.
    """
    result: list[T] = []
    failure: list[BaseException] = []
    begun = threading.Lock()  # taken by the thread that runs `work`, or by the one that gives it up before
    ended = threading.Lock()
    ended.acquire()
    context = contextvars.copy_context()

    def body() -> None:
        if not begun.acquire(blocking=False):
            return
        try:
            result.append(context.run(work))
        except BaseException as error:  # noqa: B036: it is raised where the call was made
            failure.append(error)
        finally:
            ended.release()

    try:
        threading.Thread(target=body, name="runnel").start()
        ended.acquire()
    except BaseException:
        stop()
        if not begun.acquire(blocking=False):
            ended.acquire()
        raise
    if failure:
        try:
            raise failure[0]
        finally:
            failure.clear()  # else the traceback and this frame keep each other
    return result[0]
