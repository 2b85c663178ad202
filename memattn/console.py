"""Prints what a command reports, from any thread."""

import os
import sys
import threading

_lock = threading.Lock()


def say(text: str, end: str = "\n") -> None:
    """Prints text, from one thread at a time; discards it once nobody reads standard output, or its disk is full."""
    with _lock:
        try:
            print(text, end=end, flush=True)
        except OSError:
            silence()


def silence() -> None:
    """Discards everything that is printed from now on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
