"""Reads files and folders, and damages files."""

import os

from memattn.data.text_files import read_lines


def contents(folder):
    """The bytes of every file below a folder, by its relative path."""
    return {
        os.path.relpath(os.path.join(where, name), folder): read(os.path.join(where, name))
        for where, _, names in os.walk(folder)
        for name in names
    }


def read(path):
    with open(path, "rb") as file:
        return file.read()


def cut(path, size=10):
    """Truncates a file."""
    with open(path, "r+b") as file:
        file.truncate(size)


def lines_of(path):
    """The lines of a file that a run or a test wrote."""
    return read_lines(str(path))
