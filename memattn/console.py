"""Prints what a command reports, from any thread, above a progress line if standard output is a terminal."""

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

_lock = threading.Lock()
_progress: Callable[[], Sequence[str]] | None = None
_drawn, _drawn_at = "", 0.0  # the progress line as it stands on the terminal, and since when


def say(text: str, file: TextIO | None = None) -> None:
    """Prints a line on a file, by default standard output; discards it if nobody reads the file or the disk is full."""
    with _lock:
        _erase()
        _write(text + "\n", file or sys.stdout)
        _draw()


def silence(file: TextIO | None = None) -> None:
    """Discards everything that is printed on a file, by default standard output, from now on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), (file or sys.stdout).fileno())


@contextlib.contextmanager
def showing(progress: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Keeps a progress line below all that is printed in this context, if standard output is a terminal.

    The line has the parts that `progress()` returns, cut at the terminal's width. It is drawn anew with each line that
    is printed, and by `redraw`; it is erased at the end.
    """
    global _progress
    with _lock:
        _progress = progress if sys.stdout.isatty() else None
        _draw()
    try:
        yield
    finally:
        with _lock:
            _progress = None
            _erase()


def redraw(*, after: float = 0.0) -> None:
    """Draws the progress line anew, unless it was drawn less than `after` seconds ago."""
    if _progress and time.monotonic() - _drawn_at >= after:
        with _lock:
            _erase()
            _draw()


def _draw() -> None:
    global _drawn, _drawn_at
    if _progress:
        width = shutil.get_terminal_size().columns - 1
        _drawn, _drawn_at = "  ".join(_progress())[:width], time.monotonic()
        _write(_drawn, sys.stdout)


def _erase() -> None:
    global _drawn
    if _drawn:
        _write(f"\r{' ' * len(_drawn)}\r", sys.stdout)
        _drawn = ""


def _write(text: str, file: TextIO) -> None:
    try:
        print(text, end="", file=file, flush=True)
    except OSError:
        silence(file)
