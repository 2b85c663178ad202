"""A terminal in place of standard output."""

import contextlib
import io


class Terminal(io.StringIO):
    """The text that a program has written to a terminal."""

    def isatty(self):
        return True

    @property
    def screen(self):
        """The lines that stand on the terminal, without blanks at their ends."""
        lines, column = [[]], 0
        for character in self.getvalue():
            if character == "\r":
                column = 0
            elif character == "\n":
                lines.append([])
            else:
                lines[-1][column : column + 1] = character
                column += 1
        return ["".join(line).rstrip() for line in lines]


@contextlib.contextmanager
def terminal(monkeypatch):
    """Makes a terminal standard output in this context; yields its `Terminal`."""
    output = Terminal()
    with monkeypatch.context() as patched:
        patched.setattr("sys.stdout", output)
        yield output
