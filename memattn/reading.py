"""Reads text, JSON, CSV and arrays of files that may hold anything."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from memattn.errors import DataError, abbreviated

Types = Mapping[Any, type]  # by key; a key is a str, or a tuple of str for a value in a nested mapping


def lines(path: str) -> Iterator[bytes]:
    """Yields the lines of a file, plain or .gz, with their ends. Raises DataError for a broken archive, OSError."""
    try:
        with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
            yield from file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: not a complete gzip file: {error}; remove it and fetch it again") from error


def text(path: str) -> str:
    """Returns the content of a UTF-8 file. Raises DataError for any other file; OSError."""
    with open(path, "rb") as file:
        return decoded(file.read(), path)


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
    """Returns the value of a JSON document. Raises ValueError."""
    try:
        return json.loads(document)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error


def check_types(content: Any, types: Types) -> None:
    """Raises ValueError unless the content is a mapping with these keys, and values of these types."""
    for keys, expected in types.items():
        path, value = (keys,) if isinstance(keys, str) else keys, content
        for key in path:
            if not isinstance(value, dict) or key not in value:
                raise ValueError(f"{'.'.join(path)} is missing")
            value = value[key]
        if not isinstance(value, expected) or isinstance(value, bool):
            raise ValueError(f"{'.'.join(path)}: expected {expected.__name__}, not {abbreviated(value)}")
