"""An array in NumPy's .npy format that grows on disk."""

import os
from typing import Any

import numpy as np

from memattn import files


class Appender:
    """A one-dimensional .npy file that is written piece by piece.

    Args:
      path: the file.
      dtype: type of the values.
      length: number of values to keep of an existing file; with 0, the file is made or emptied.

    Attributes:
      length: number of values so far.
    """

    def __init__(self, path: str, dtype: Any, length: int = 0):
        self._path, self._dtype, self.length = path, np.dtype(dtype), length
        with files.naming(path):
            self._file = open(path, "r+b" if length else "w+b")  # noqa: SIM115 (closed by __exit__)
            self._write_header()
            self._file.truncate(self._file.tell() + length * self._dtype.itemsize)
            self._file.seek(0, os.SEEK_END)

    def append(self, values: np.ndarray) -> None:
        """Adds values at the end."""
        with files.naming(self._path):
            self._file.write(values.astype(self._dtype).tobytes())
        self.length += len(values)

    def flush(self) -> None:
        """Writes all values to disk."""
        with files.naming(self._path):
            self._file.seek(0)
            self._write_header()
            self._file.seek(0, os.SEEK_END)
            self._file.flush()
            os.fsync(self._file.fileno())

    def __enter__(self) -> "Appender":
        return self

    def __exit__(self, *_) -> None:
        with files.naming(self._path):
            self._file.close()

    def _write_header(self) -> None:
        """Writes the header, whose size does not depend on the length: NumPy leaves room for an axis to grow."""
        description = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(self._file, description)
