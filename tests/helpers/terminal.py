"""A pseudo-terminal in place of standard output."""

import contextlib
import os
import pty
import threading


class Terminal:
    """The text that a program has written to a pseudo-terminal.

    Attributes:
      written: all characters; complete once the context of `terminal` has ended.
    """

    def __init__(self):
        self.written = ""

    @property
    def screen(self):
        """The lines that stand on the terminal, without blanks at their ends."""
        lines, column = [[]], 0
        for character in self.written:
            if character == "\r":
                column = 0
            elif character == "\n":
                lines.append([])
            else:
                lines[-1][column : column + 1] = character
                column += 1
        return ["".join(line).rstrip() for line in lines]


@contextlib.contextmanager
def terminal(monkeypatch, columns=80):
    """Makes a terminal of this width standard output in this context; yields its `Terminal`."""
    reading, writing = pty.openpty()
    result = Terminal()

    def read():
        with contextlib.suppress(OSError):  # the other end is closed
            while data := os.read(reading, 1 << 16):
                result.written += data.decode("utf-8")

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with os.fdopen(writing, "w", encoding="utf-8") as stdout, monkeypatch.context() as patched:
            patched.setattr("sys.stdout", stdout)
            patched.setenv("COLUMNS", str(columns))
            yield result
    finally:
        reader.join(20)
        os.close(reading)
