"""What processes share: the machine's cores, locks on files, and ending together."""

import contextlib
import os
import platform
import shlex
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator

import filelock

from memattn import reading
from memattn.errors import DataError, RunError

PARENT = "MEMATTN_PARENT"  # environment variable of a command: the process that it ends with
_NAMED = 0.2  # seconds; enough for a new holder of a lock to write its name


def cores() -> int:
    """Cores that this process may use; in a container or under a scheduler, fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def command() -> str:
    """The command line; a program given by its absolute path, such as memattn-sweep, is shown by name."""
    called = sys.orig_argv[1:]  # nothing at Python's prompt
    if called and os.path.isabs(called[0]):
        return shlex.join([os.path.basename(called[0]), *called[1:]])
    return shlex.join(["python", *called])


@contextlib.contextmanager
def locked(path: str, what: str, doing: str, *, wait: bool = False) -> Iterator[bool]:
    """Holds a lock file, whose folder is made if missing; yields whether the lock is held.

    If another process holds it, raises RunError with the line "WHAT: process 7 on host DOING"; with `wait`, prints that
    line and waits. If the file system has no locks, warns and continues. Raises OSError.
    """
    lock = filelock.FileLock(path, fallback_to_soft=False)
    try:
        try:
            lock.acquire(timeout=_NAMED)
        except filelock.Timeout as error:
            line = f"{what}: {_holder(path)} {doing}"
            if not wait:
                raise RunError(line) from error
            print(line, file=sys.stderr, flush=True)
            lock.acquire()
    except OSError as error:
        if error.filename:  # of the file itself; locking does not name it
            raise
        warnings.warn(f"{what}: no lock against a second process: {error.strerror}", stacklevel=3)
    with contextlib.suppress(OSError), open(path, "w", encoding="utf-8") as file:
        file.write(f"process {os.getpid()} on {platform.node()}")
    try:
        yield lock.is_locked
    finally:
        lock.release()


@contextlib.contextmanager
def making(path: str, doing: str, *, wait: bool = False) -> Iterator[bool]:
    """As `locked`, for making a file or folder: only one process does, and holds `path`.lock.

    The lock file is removed after the work: whoever gets the lock must check whether `path` exists.
    """
    lock = f"{path}.lock"
    with locked(lock, path, doing, wait=wait) as held:
        yield held
        with contextlib.suppress(OSError):
            os.remove(lock)


def _holder(path: str) -> str:
    with contextlib.suppress(OSError, DataError):
        if name := reading.text(path):
            return name
    return "another process"


def end_with(parent: int) -> None:
    """Sends this process SIGTERM once `parent`, the process that started it, has ended in any way."""

    def watch():
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
