"""Writes files so that each is there whole or not at all, with checksums."""

import contextlib
import csv
import hashlib
import io
import os
import secrets
from collections.abc import Iterator
from typing import BinaryIO

UNFINISHED = ".unfinished"


def write(path: str, content: str | bytes) -> None:
    """Writes a file, text in UTF-8. Raises OSError, which names the file."""
    with writing(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextlib.contextmanager
def writing(path: str) -> Iterator[BinaryIO]:
    """A file to write that takes its name once it is whole; of several writers, the last one's. Raises OSError."""
    unfinished = f"{path}.{secrets.token_hex(4)}{UNFINISHED}"
    with naming(path):
        try:
            with open(unfinished, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            move(unfinished, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.remove(unfinished)
            raise


def move(unfinished: str, path: str) -> None:
    """Gives a file or folder its name, which it keeps through a loss of power. Raises OSError."""
    os.replace(unfinished, path)
    with contextlib.suppress(OSError):  # not every file system can
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Names the file in an OSError from within; a full disk is reported without one."""
    try:
        yield
    except OSError as error:
        error.filename = path
        raise


def write_csv(path: str, rows: list[dict]) -> None:
    """Writes rows of the same keys as a CSV file."""
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write(path, text.getvalue())


def checksum(path: str) -> str:
    """SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
