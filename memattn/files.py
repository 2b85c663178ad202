"""Writes files so that each is there whole or not at all, with checksums."""

import contextlib
import csv
import hashlib
import io
import os
from collections.abc import Iterator


def write(path: str, content: str | bytes) -> None:
    """Writes a file, text in UTF-8. Raises OSError, which names the file."""
    unfinished = f"{path}.unfinished"
    with naming(path):
        try:
            with open(unfinished, "wb") as file:
                file.write(content.encode("utf-8") if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.remove(unfinished)
            raise


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
