"""What is printed: whole lines, from any thread, even once nobody reads them. Importing this changes nothing."""

import os
import sys
import threading

_saying = threading.Lock()


def say(text: str, end: str = "\n") -> None:
    """Prints, from one thread at a time; once nobody reads standard output or its disk is full, discards the text."""
    with _saying:
        try:
            print(text, end=end, flush=True)
        except OSError:
            silence()


def silence() -> None:
    """Discards what is printed from now on, once nobody reads standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
