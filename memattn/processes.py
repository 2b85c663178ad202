"""Processes on one machine: usable cores, locks between processes, and processes that end with their parent."""

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

from memattn.errors import RunError

PARENT = "MEMATTN_PARENT"  # environment variable of a command: id of the process that it ends with


def cores() -> int:
    """Returns the number of cores that this process may use, which containers and schedulers limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def command() -> str:
    """Returns this process' command line. A program with an absolute path, such as memattn-sweep, loses its folder."""
    arguments = sys.orig_argv[1:]  # empty at Python's prompt
    if arguments and os.path.isabs(arguments[0]):
        return shlex.join([os.path.basename(arguments[0]), *arguments[1:]])
    return shlex.join(["python", *arguments])


@contextlib.contextmanager
def locked(path: str, what: str, doing: str, *, wait: bool = False) -> Iterator[None]:
    """Holds a lock file inside the context. On a file system without locks, warns and continues.

    The folder of the file is made if it is missing. At the end, the file is removed before the lock is released: the
    filelock of a waiting process, which may have opened the file, notices that it is gone, and makes a new one.

    Args:
      path: the lock file.
      what, doing: what is locked, and what its holder does, for messages: "WHAT: process 7 on host DOING".
      wait: whether to print that line and wait if another process holds the lock; otherwise RunError is raised. A
        process that waited must check whether the work is already done.

    Raises RunError, OSError.
    """
    lock = filelock.FileLock(path, fallback_to_soft=False)
    try:
        lock.acquire(timeout=0.2)  # seconds: its holder may be writing its name, or removing the file
    except filelock.Timeout as error:
        holder = ""
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            holder = file.read()
        line = f"{what}: {holder or 'another process'} {doing}"
        if not wait:
            raise RunError(line) from error
        print(line, file=sys.stderr, flush=True)
        lock.acquire()
    except OSError as error:
        if error.filename:  # an error of the file itself; errors of locking name no file
            raise
        warnings.warn(f"{what}: no lock against a second process: {error.strerror}", stacklevel=3)
    with contextlib.suppress(OSError), open(path, "w", encoding="utf-8") as file:
        file.write(f"process {os.getpid()} on {platform.node()}")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.remove(path)
        lock.release()


def end_with(parent: int) -> None:
    """Sends this process SIGTERM when `parent`, the process that started it, has ended in any way."""

    def watch():
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
