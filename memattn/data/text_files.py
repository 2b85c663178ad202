"""Reads lines of UTF-8 text files."""

from memattn import reading


def read_lines(path: str) -> list[str]:
    """Returns the lines of a UTF-8 file, plain or .gz, without their ends. Raises DataError, OSError."""
    return decode_lines(b"".join(reading.lines(path)), path, 1)


def decode_lines(content: bytes, path: str, first: int) -> list[str]:
    """Returns the lines of a part of a file.

    Args:
      content: lines with their ends.
      path: the file, for messages.
      first: number of the first line in the file. A byte order mark before line 1 is dropped.

    Raises DataError for bytes that are not UTF-8.
    """
    text = reading.decoded(content, path, first=first, encoding="utf-8-sig" if first == 1 else "utf-8")
    lines = text.split("\n")
    if not content or content.endswith(b"\n"):
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
