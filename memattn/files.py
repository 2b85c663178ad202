"""Reads files that may hold anything, and writes files atomically: each is complete or absent."""

import contextlib
import csv
import gzip
import io
import json
import os
import secrets
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from memattn.errors import ConfigError, DataError, abbreviated

UNFINISHED = ".unfinished"


def byte_lines(path: str) -> Iterator[bytes]:
    """Yields the lines of a file, plain or .gz, with their ends. Raises DataError for a broken archive, OSError."""
    try:
        with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
            yield from file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: not a complete gzip file: {error}; remove it and fetch it again") from error


def read_lines(path: str) -> list[str]:
    """Returns the lines of a UTF-8 file, plain or .gz, without their ends. Raises DataError, OSError."""
    return decode_lines(b"".join(byte_lines(path)), path, 1)


def decode_lines(content: bytes, path: str, first: int) -> list[str]:
    """Returns lines without their ends, of which the first has the number `first` in its file. Raises DataError."""
    lines = _decoded(content, path, first).split("\n")
    if not content or content.endswith(b"\n"):
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def read_text(path: str) -> str:
    """Returns the content of a UTF-8 file. Raises DataError for any other file; OSError."""
    with open(path, "rb") as file:
        return _decoded(file.read(), path, 1)


def _decoded(content: bytes, path: str, first: int) -> str:
    """Returns UTF-8 text whose first line has the number `first` in its file; line 1 without a byte order mark."""
    try:
        return content.decode("utf-8-sig" if first == 1 else "utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + first
        raise DataError(f"{path}:{line}: not UTF-8 text: byte 0x{content[error.start]:02x}") from error


def read_csv(path: str) -> list[dict[str, str]]:
    """Returns the rows of a CSV file whose first line names the columns. Raises DataError, OSError, csv.Error."""
    return list(csv.DictReader(io.StringIO(read_text(path), newline="")))


def read_array(path: str, dimensions: int, kinds: str) -> np.ndarray:
    """Maps an array of NumPy's .npy format into memory.

    Raises DataError unless the array has this number of dimensions, and numbers whose `dtype.kind` is one of `kinds`.
    """
    try:
        content = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # NumPy passes on errors of all kinds, such as tokenize.TokenError
        raise DataError(f"{path}: not a complete array of NumPy's .npy format; make or copy the file again") from error
    if content.ndim != dimensions or content.dtype.kind not in kinds:
        what = "ints" if kinds == "iu" else "floats"
        raise DataError(f"{path}: not a {'one' if dimensions == 1 else 'two'}-dimensional array of {what}")
    return content


def read_json(path: str, types: Mapping[str, type] | None = None) -> Any:
    """Returns the content of a JSON file, checked by `parse_json`. Raises DataError, OSError."""
    document = read_text(path)
    try:
        return parse_json(document, types or {})
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error


def parse_json(document: str, types: Mapping[str, type]) -> Any:
    """Returns the value of a JSON document.

    Raises ValueError unless it is JSON and, if `types` has keys, a mapping with these keys and values of these types.
    """
    try:
        content = json.loads(document)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error
    for key, expected in types.items():
        if not isinstance(content, dict) or key not in content:
            raise ValueError(f"{key} is missing")
        if not isinstance(content[key], expected):
            raise ValueError(f"{key}: expected {expected.__name__}, not {abbreviated(content[key])}")
    return content


def write(path: str, content: str | bytes) -> None:
    """Writes a file, str in UTF-8. Raises OSError, which names the file."""
    with writing(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


def write_array(path: str, array: np.ndarray) -> None:
    """Writes an array in NumPy's .npy format. Raises OSError."""
    content = io.BytesIO()  # into a file on a full disk, NumPy may write a part and raise no error
    np.save(content, array)
    write(path, content.getvalue())


def write_lines(path: str, lines: Iterable[str]) -> None:
    """Writes lines, which have no ends yet, into a file. Raises OSError."""
    write(path, "".join(f"{line}\n" for line in lines))


@contextlib.contextmanager
def writing(path: str) -> Iterator[BinaryIO]:
    """Opens a file that gets its name `path` once it is complete; the last of several writers wins. Raises OSError."""
    folder, name = os.path.split(path)
    unfinished = os.path.join(folder, f"{name[:40]}.{secrets.token_hex(4)}{UNFINISHED}")  # `name` may be the longest
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


def make_folder(path: str) -> None:
    """Makes a folder if it is missing, "" being the current one. Raises OSError if no file can be written into it."""
    with naming(path):
        if path:
            os.makedirs(path, exist_ok=True)
        tempfile.TemporaryFile(dir=path or os.curdir).close()


def move(unfinished: str, path: str) -> None:
    """Gives a file or folder its final name, which survives a power failure. Raises OSError."""
    os.replace(unfinished, path)
    with contextlib.suppress(OSError):  # not supported by every file system
        descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


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
