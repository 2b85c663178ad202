"""Downloads files over HTTP, resuming broken transfers, and extracts single files from tar archives."""

import gzip
import os
import re
import shutil
import tarfile
import time
import zlib
from pathlib import PurePosixPath
from typing import IO, cast

import requests
from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema
from tqdm import tqdm

from memattn import files, processes, reading
from memattn.errors import DataError

ATTEMPTS = 5  # without a byte of progress
TIMEOUT = 60  # seconds to wait for a byte
_BLOCK = 1 << 13  # bytes; at most this much is lost when a connection breaks
_INVALID_URL = (InvalidSchema, InvalidURL, MissingSchema)
_RETRIED = (408, 429)  # statuses below 500 that may change: timeout, too many requests


def fetch(url: str, path: str, sha256: str | None = None, pause: float = 1.0, *, md5: str | None = None) -> None:
    """Downloads a URL to a path, where the file appears when it is complete; a broken download resumes.

    If another process is downloading the file, waits for it.

    Args:
      url: what to download.
      path: where to; an existing file is not downloaded again.
      sha256: expected SHA-256; None checks nothing.
      pause: seconds to wait after a failed attempt, doubled after each.
      md5: expected MD5, for a file whose publisher gives no SHA-256; None checks nothing.

    Raises DataError, also for another checksum, OSError.
    """
    if not os.path.exists(path):
        with processes.making(path, "is downloading it; waiting", wait=True):
            if not os.path.exists(path):
                _download(url, path, pause)
    for algorithm, name, expected in (("sha256", "SHA-256", sha256), ("md5", "MD5", md5)):
        if expected and (checksum := files.checksum(path, algorithm)) != expected:
            raise DataError(
                f"{path}: not the file that it should be: its {name} is {checksum}, not {expected}; "
                "remove it, and the same command downloads it again"
            )


def _download(url: str, path: str, pause: float) -> None:
    """Attempts to download until the file is complete, or ATTEMPTS in a row brought nothing."""
    unfinished = f"{path}{files.UNFINISHED}"
    failures, problem, largest = 0, "", _size(unfinished)
    advice = f"the same command takes a file that you put at {path}, such as the download of a browser"
    while failures < ATTEMPTS:
        try:
            if _attempt(url, unfinished):
                files.move(unfinished, path)
                return
            problem = "the connection was closed too early"
        except _INVALID_URL as error:
            raise DataError(f"{url}: not an address: {error}") from error
        except requests.exceptions.RequestException as error:
            response = error.response
            if response is not None and response.status_code < 500 and response.status_code not in _RETRIED:
                raise DataError(f"{url}: {response.status_code} {response.reason}; {advice}") from error
            problem = str(error)
        if _size(unfinished) > largest:
            failures, largest = 0, _size(unfinished)
        else:
            failures += 1
            if failures < ATTEMPTS:
                time.sleep(pause * 2 ** (failures - 1))
    raise DataError(f"{url}: not downloaded after {ATTEMPTS} attempts: {problem}; {advice}")


def _attempt(url: str, unfinished: str) -> bool:
    """Downloads with one connection; returns whether the file is complete.

    The version of the file, as the server names it, is kept beside the unfinished file: only the same version resumes.
    """
    start, version_path = _size(unfinished), f"{unfinished}.version"
    headers = {"Accept-Encoding": "identity"}
    if start and os.path.exists(version_path):
        headers |= {"Range": f"bytes={start}-", "If-Range": reading.text(version_path)}
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        if response.status_code == 416:  # the partial file cannot be trusted
            os.remove(unfinished)
            return False
        response.raise_for_status()
        if response.status_code != 206:
            _start_anew(unfinished, version_path, response)
            start = 0
        length = response.headers.get("Content-Length")
        if length and not re.fullmatch("[0-9]{1,18}", length):
            raise DataError(f"{url}: the server's Content-Length is {length!r}, not a number of bytes")
        size = start + int(length) if length else None
        name = os.path.basename(unfinished).removesuffix(files.UNFINISHED)
        with tqdm(total=size, initial=start, desc=name, unit="B", unit_scale=True, disable=None) as progress:
            _append(unfinished, response, progress)
    is_complete = _size(unfinished) == size if size is not None else not _is_truncated(unfinished, name)
    if is_complete and os.path.exists(version_path):
        os.remove(version_path)
    return is_complete


def _start_anew(unfinished: str, version_path: str, response: requests.Response) -> None:
    """Empties the unfinished file, and stores the version of the file that the response has."""
    with files.open_in_place(unfinished, "wb"):
        pass
    version = response.headers.get("ETag") or response.headers.get("Last-Modified")
    if version and not version.startswith("W/"):  # W/: a weak tag, which may stay the same when bytes change
        files.write(version_path, version)
    elif os.path.exists(version_path):
        os.remove(version_path)


def _append(path: str, response: requests.Response, progress: tqdm) -> None:
    try:
        with files.open_in_place(path, "ab") as file:
            for block in response.iter_content(_BLOCK):
                file.write(block)
                progress.update(len(block))
            file.flush()
            os.fsync(file.fileno())
    except requests.exceptions.RequestException:
        raise
    except OSError as error:
        error.filename = path  # the error of a full disk has none
        raise


def _is_truncated(path: str, name: str) -> bool:
    """Returns whether the end of a gzip file is missing; needed where the server gave no length."""
    if not name.endswith((".gz", ".tgz")):
        return False
    try:
        with gzip.open(path) as file:
            while file.read(1 << 20):
                pass
    except EOFError:
        return True
    except (gzip.BadGzipFile, zlib.error):  # downloading more does not help; its reader refuses it
        return False
    return not _size(path)


def extract(archive: str, names: list[str], folder: str) -> list[str]:
    """Extracts files from a tar archive into a folder, each atomically; returns their paths.

    Args:
      archive: the archive; it is not read if all files are in the folder.
      names: base names of the files, which become their names in the folder.
      folder: where they go.

    Raises DataError for a damaged archive, for a member that leads out of the folder, and for a name that no file or
    several files have; OSError.
    """
    paths = [os.path.join(folder, name) for name in names]
    if all(map(os.path.exists, paths)):
        return paths
    os.makedirs(folder, exist_ok=True)
    try:
        with tarfile.open(archive, "r:*") as tar:
            members = tar.getmembers()
            while tar.fileobj.read(_BLOCK):  # reads up to the checksum at the end, which is then verified
                pass
            for name, path in zip(names, paths, strict=True):
                if os.path.exists(path):
                    continue
                content = tar.extractfile(_member(members, name, archive, folder))
                with files.writing(path) as file:
                    shutil.copyfileobj(cast(IO[bytes], content), file)  # None only for what is no regular file
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{archive}: not a complete tar archive ({error}); remove it, and the same command downloads it again"
        ) from error
    return paths


def extract_all(archive: str, folder: str) -> None:
    """Extracts a tar archive into a folder, which appears once it is complete; an existing folder is not touched.

    Raises DataError for a damaged archive, and for a member that leads out of the folder or is no file; OSError.
    """
    if os.path.exists(folder):
        return
    if not hasattr(tarfile, "data_filter"):
        raise DataError(f"{archive}: this Python cannot extract archives safely; install 3.10.12, 3.11.4 or later")
    with processes.making(folder, "is extracting it; waiting", wait=True):
        if os.path.exists(folder):
            return
        unfinished = f"{folder}{files.UNFINISHED}"
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            with tarfile.open(archive, "r:*") as tar, files.naming(unfinished):
                tar.extractall(unfinished, filter="data")
        except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(
                f"{archive}: not a complete tar archive ({error}); remove it, and the same command downloads it again"
            ) from error
        files.move(unfinished, folder)


def _member(members: list[tarfile.TarInfo], name: str, archive: str, folder: str) -> tarfile.TarInfo:
    """Returns the only file with a base name. Raises DataError."""
    candidates = {}
    for member in members:
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts:
            raise DataError(f"{archive}: unsafe: its member {member.name!r} leads out of the folder")
        if member.isreg() and path.name == name:
            candidates[str(path)] = member  # of members with the same path, the last counts, as for tar
    if not candidates:
        raise DataError(f"{archive}: holds no file {name}")
    if len(candidates) > 1:
        raise DataError(f"{archive}: holds {' and '.join(candidates)}; put the right one into {folder} yourself")
    return next(iter(candidates.values()))


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0
