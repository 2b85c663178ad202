"""Prints what a command reports, from any thread, above the progress bars of tqdm."""

import os
import sys
from typing import TextIO

from tqdm import tqdm


def say(text: str, file: TextIO | None = None) -> None:
    """Prints a line on a file, by default standard output; discards it if nobody reads the file or the disk is full."""
    try:
        with tqdm.external_write_mode(file):
            print(text, file=file, flush=True)
    except OSError:
        silence(file)


def silence(file: TextIO | None = None) -> None:
    """Discards everything that is printed on a file, by default standard output, from now on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), (file or sys.stdout).fileno())
