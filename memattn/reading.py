"""Reads files that may hold anything: only regular files, within limits of size, line length and nesting."""

import csv
import errno
import functools
import gzip
import io
import json
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from memattn.errors import DataError, abbreviated

LONGEST_LINE = 1 << 24  # bytes of a line of text, its end included
LARGEST = 1 << 26  # bytes of a file that is read at once
LARGEST_CONFIG = 1 << 20  # bytes of YAML
DEEPEST = 100  # levels of lists and mappings in JSON
_TYPE_NAMES = {bool: "true or false", int: "int", float: "number", str: "str", list: "list", dict: "mapping"}

# The type, or tuple of types, of each value. A key is a str, or a tuple of str for a value in a nested mapping.
Types = Mapping[Any, Any]


def check_regular(path: str) -> None:
    """Raises OSError for anything but a regular file: reading a device or a pipe might never end."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", path)


def open_regular(path: str) -> BinaryIO:
    """Opens a regular file for reading. Raises OSError, also for anything else, such as a folder or a device."""
    check_regular(path)
    return open(path, "rb")


def open_regular_or_pipe(path: str) -> BinaryIO:
    """Opens a regular file, or a pipe such as a shell's <(command). A pipe without a writer is empty.

    Raises OSError for anything else.
    """
    if not stat.S_ISFIFO(os.stat(path).st_mode):
        return open_regular(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # does not wait for a writer
    os.set_blocking(descriptor, True)
    return open(descriptor, "rb")


def lines(path: str, *, pipes: bool = False) -> Iterator[bytes]:
    """Yields the lines of a file, plain or .gz, with their ends. `pipes` allows a pipe.

    Raises DataError for a broken archive, for a line of more than LONGEST_LINE bytes, and for a file whose lines end
    with a carriage return alone; OSError.
    """
    with (open_regular_or_pipe if pipes else open_regular)(path) as stored:
        try:
            with gzip.GzipFile(fileobj=stored) if path.endswith(".gz") else stored as file:
                for number, line in enumerate(iter(functools.partial(file.readline, LONGEST_LINE + 1), b""), 1):
                    if len(line) > LONGEST_LINE or (number == 1 and not line.endswith(b"\n")):
                        check_line(line, f"{path}:{number}")
                    yield line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"{path}: not a complete gzip file: {error}; remove it and fetch it again") from error


def check_line(line: bytes, place: str) -> None:
    """Raises DataError for a line that is too long, or has carriage returns in place of line feeds."""
    if b"\r" in line[:-1]:
        raise DataError(f"{place}: lines end with a carriage return alone, as on old Macs; convert: tr '\\r' '\\n'")
    if len(line) > LONGEST_LINE:
        raise DataError(f"{place}: a line of more than {LONGEST_LINE:,} bytes")


def text(path: str, most: int = LARGEST) -> str:
    """Returns the content of a UTF-8 file of at most `most` bytes. Raises DataError for any other file; OSError."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise DataError(f"{path}: larger than {most:,} bytes")
    return decoded(content, path)


def decoded(content: bytes, path: str, *, first: int = 1, encoding: str = "utf-8") -> str:
    """Returns UTF-8 text whose first line has the number `first` in its file. Raises DataError for other bytes."""
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + first
        raise DataError(f"{path}:{line}: not UTF-8 text: byte 0x{content[error.start]:02x}") from error


def csv_file(path: str) -> list[dict[str, str]]:
    """Returns the rows of a CSV file whose first line names the columns. Raises DataError, OSError, csv.Error."""
    return list(csv.DictReader(io.StringIO(text(path), newline="")))


def array(path: str, dimensions: int, kinds: str) -> np.ndarray:
    """Maps an array of NumPy's .npy format into memory.

    Raises DataError unless the array has this number of dimensions, and numbers whose `dtype.kind` is one of `kinds`.
    """
    try:
        check_regular(path)
        content = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # NumPy passes on errors of all kinds, such as tokenize.TokenError
        raise DataError(f"{path}: not a complete array of NumPy's .npy format: {error}") from error
    if content.ndim != dimensions or content.dtype.kind not in kinds:
        what = "ints" if kinds == "iu" else "floats"
        raise DataError(f"{path}: not a {'one' if dimensions == 1 else 'two'}-dimensional array of {what}")
    return content


def json_file(path: str, types: Types | None = None) -> Any:
    """Returns the content of a JSON file; with `types`, checked by `check_types`. Raises DataError, OSError."""
    document = text(path)
    try:
        content = json_value(document)
        if types is not None:
            check_types(content, types)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error
    return content


def json_value(document: str) -> Any:
    """Returns the value of a JSON document. Raises ValueError, also for one that is nested too deep."""
    try:
        value = json.loads(document)
        if "\\u" in document:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"half of a surrogate pair: {error}") from error
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise ValueError(f"nested deeper than {DEEPEST} levels") from error
    _check_nesting(value)
    return value


def _check_nesting(value: Any) -> None:
    """Raises ValueError for lists and mappings that are nested deeper than DEEPEST levels."""
    level = [value]
    for _ in range(DEEPEST + 1):
        inside = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (dict, list))]
        level = [each for values in inside for each in values]
        if not level:
            return
    raise ValueError(f"nested deeper than {DEEPEST} levels")


def check_types(content: Any, types: Types) -> None:
    """Raises ValueError unless the content is a mapping with these keys, and values of these types.

    An int counts as a float, and a bool only as a bool.
    """
    if not isinstance(content, dict):
        raise ValueError(f"expected a mapping, not {abbreviated(content)}")
    for keys, expected in types.items():
        several = expected if isinstance(expected, tuple) else (expected,)
        _check_type(content, (keys,) if isinstance(keys, str) else keys, several)


def _check_type(content: Any, keys: tuple[str, ...], types: tuple[type, ...]) -> None:
    value = content
    for place, key in enumerate(keys):
        where = f"{'.'.join(keys[:place])}: " if place else ""
        if not isinstance(value, dict):
            raise ValueError(f"{where}expected a mapping, not {abbreviated(value)}")
        if key not in value:
            raise ValueError(f"{where}{key} is missing")
        value = value[key]
    fits = any(isinstance(value, (int, float) if each is float else each) for each in types)
    if not fits or (isinstance(value, bool) and bool not in types):
        expected = " or ".join("null" if each is type(None) else _TYPE_NAMES[each] for each in types)
        raise ValueError(f"{'.'.join(keys)}: expected {expected}, not {abbreviated(value)}")
