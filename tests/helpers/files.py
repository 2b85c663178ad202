"""Reads files and folders, damages files, and makes archives."""

import io
import os
import tarfile

from memattn.files import read_lines


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


def tar_gz(members):
    """Returns the bytes of a compressed tar archive, from the contents of its members by their names."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()
