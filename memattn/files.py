"""Writes files atomically: each is complete or absent. Computes checksums."""

import contextlib
import csv
import hashlib
import io
import os
import secrets
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

from memattn.errors import ConfigError

UNFINISHED = ".unfinished"


def write(path: str, content: str | bytes) -> None:
    """Writes a file, str in UTF-8. Raises OSError, which names the file."""
    with writing(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextlib.contextmanager
def writing(path: str) -> Iterator[BinaryIO]:
    """Opens a file that gets its name `path` once it is complete; the last of several writers wins. Raises OSError."""
    unfinished = unfinished_path(path)
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


@contextlib.contextmanager
def making_folder(path: str) -> Iterator[str]:
    """Yields a new folder, which gets its name `path` when the context ends, or is removed if it fails. Raises OSError.

    A killed process leaves a folder beside `path` whose name ends in UNFINISHED.
    """
    parent, name = os.path.split(os.path.normpath(path))
    with tempfile.TemporaryDirectory(prefix=f"{name[:40]}.", suffix=UNFINISHED, dir=parent or os.curdir) as work:
        unfinished = os.path.join(work, "content")  # with the permissions of a new folder; `work` is private
        os.mkdir(unfinished)
        yield unfinished
        move(unfinished, path)


def check_new(path: str) -> None:
    """Raises ConfigError if a folder that is to be made exists."""
    if os.path.exists(path):
        raise ConfigError(f"{path}: exists; use another --output")


def unfinished_path(path: str) -> str:
    """Returns a path beside `path` for what will get its name. The name is short: that of `path` may be the longest."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{name[:40]}.{secrets.token_hex(4)}{UNFINISHED}")


def make_folder(path: str) -> None:
    """Makes a folder if it is missing, "" being the current one. Raises OSError if no file can be written into it."""
    with naming(path):
        if path:
            os.makedirs(path, exist_ok=True)
        tempfile.TemporaryFile(dir=path or os.curdir).close()


def sync(path: str) -> None:
    """Makes the content of a file or folder survive a power failure. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def move(unfinished: str, path: str) -> None:
    """Gives a file or folder its final name, which survives a power failure. Raises OSError."""
    os.replace(unfinished, path)
    with contextlib.suppress(OSError):  # not supported by every file system
        sync(os.path.dirname(path) or ".")


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Sets the file name of any OSError that is raised inside. The error of a full disk has none of its own."""
    try:
        yield
    except OSError as error:
        error.filename = path
        raise


def write_csv(path: str, rows: list[dict]) -> None:
    """Writes rows as a CSV file; a row that lacks a column has an empty cell there. Raises OSError."""
    text = io.StringIO()
    table = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write(path, text.getvalue())


def checksum(path: str) -> str:
    """Returns the SHA-256 of a file, in hexadecimal. Raises OSError."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
