"""Downloads files over HTTP, resuming broken transfers, and extracts single files from tar archives."""

import collections
import gzip
import os
import re
import shutil
import tarfile
import time
import zlib
from pathlib import PurePosixPath

import requests
from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema
from tqdm import tqdm

from memattn import files, processes, reading
from memattn.errors import DataError

ATTEMPTS = 5  # without a byte of progress
TIMEOUT = 60  # seconds to wait for a byte
_NO_ADDRESS = (InvalidSchema, InvalidURL, MissingSchema)
_BLOCK = 1 << 13  # bytes; what is lost when a connection breaks


def fetch(url: str, path: str, sha256: str | None = None, pause: float = 1.0) -> None:
    """Downloads a URL to a path, where the file appears once it is whole; a broken download resumes.

    If another process is downloading the file, waits for it. `pause`, in seconds, doubles with each attempt. Raises
    DataError, also if the file's checksum is not `sha256`, OSError.
    """
    if not os.path.exists(path):
        with processes.making(path, "is downloading it; waiting", wait=True):
            if not os.path.exists(path):
                _download(url, path, pause)
    if sha256 and (found := files.checksum(path)) != sha256:
        raise DataError(
            f"{path}: not the file that it should be: its SHA-256 is {found}, not {sha256}; "
            "remove it, and the same command downloads it again"
        )


def _download(url: str, path: str, pause: float) -> None:
    unfinished = f"{path}{files.UNFINISHED}"
    failures, problem, most = 0, "", _size(unfinished)
    while failures < ATTEMPTS:
        try:
            if _attempt(url, unfinished):
                files.move(unfinished, path)
                return
            problem = "the connection was closed too early"
        except _NO_ADDRESS as error:
            raise DataError(f"{url}: not an address: {error}") from error
        except requests.exceptions.RequestException as error:
            response = error.response
            if response is not None and response.status_code < 500 and response.status_code not in (408, 429):
                raise DataError(f"{url}: {response.status_code} {response.reason}") from error
            problem = str(error)
        if _size(unfinished) > most:
            failures, most = 0, _size(unfinished)
        else:
            time.sleep(pause * 2**failures)
            failures += 1
    raise DataError(f"{url}: not downloaded after {ATTEMPTS} attempts: {problem}; the same command resumes")


def _attempt(url: str, unfinished: str) -> bool:
    """Downloads with one connection; returns whether the file is whole."""
    start, version = _size(unfinished), f"{unfinished}.version"
    headers = {"Accept-Encoding": "identity"}
    if start and os.path.exists(version):
        headers |= {"Range": f"bytes={start}-", "If-Range": reading.text(version)}  # else two versions would be mixed
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        if response.status_code == 416:  # the partial file cannot be trusted
            os.remove(unfinished)
            return False
        response.raise_for_status()
        resumed = response.status_code == 206
        start = start if resumed else 0
        length = response.headers.get("Content-Length")
        if length and not re.fullmatch("[0-9]{1,18}", length):
            raise DataError(f"{url}: the server's Content-Length is {length!r}, not a number of bytes")
        size = start + int(length) if length else None
        tag = response.headers.get("ETag") or response.headers.get("Last-Modified")
        if not resumed:
            with open(unfinished, "wb"):
                pass
            if tag and not tag.startswith("W/"):
                files.write(version, tag)
            elif os.path.exists(version):
                os.remove(version)
        name = os.path.basename(unfinished).removesuffix(files.UNFINISHED)
        with tqdm(total=size, initial=start, desc=name, unit="B", unit_scale=True, disable=None) as progress:
            _append(unfinished, response, progress)
    whole = _size(unfinished) == size if size is not None else not _breaks_off(unfinished, name)
    if whole and os.path.exists(version):
        os.remove(version)
    return whole


def _append(path: str, response: requests.Response, progress: tqdm) -> None:
    try:
        with open(path, "ab") as file:
            for block in response.iter_content(_BLOCK):
                file.write(block)
                progress.update(len(block))
            file.flush()
            os.fsync(file.fileno())
    except requests.exceptions.RequestException:
        raise
    except OSError as error:
        error.filename = path  # a full disk is reported without one
        raise


def _breaks_off(path: str, name: str) -> bool:
    """Whether the end of a gzip file is missing; without a length from the server, only the content tells."""
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


def take_out(archive: str, names: list[str], folder: str) -> list[str]:
    """Extracts files by base name from a tar archive into a folder, each atomically; returns their paths.

    Members go to their base name in the folder. An archive with a member that leads elsewhere is refused, as is one
    with several members of a wanted base name.
    Raises DataError, also for an archive that is damaged behind these files, OSError.
    """
    paths = [os.path.join(folder, name) for name in names]
    if all(map(os.path.exists, paths)):
        return paths
    os.makedirs(folder, exist_ok=True)
    try:
        with tarfile.open(archive, "r:*") as tar:
            members = tar.getmembers()
            while tar.fileobj.read(_BLOCK):  # to the checksum at the end
                pass
            for member in members:
                if PurePosixPath(member.name).is_absolute() or ".." in PurePosixPath(member.name).parts:
                    raise DataError(f"{archive}: unsafe: its member {member.name!r} leads out of the folder")
            found = collections.defaultdict(dict)
            for place, member in ((PurePosixPath(member.name), member) for member in members if member.isreg()):
                found[place.name][str(place)] = member  # of members with the same path, the last counts, as for tar
            for name, path in zip(names, paths, strict=True):
                if not found[name]:
                    raise DataError(f"{archive}: holds no file {name}")
                if len(found[name]) > 1:
                    places = " and ".join(found[name])
                    raise DataError(f"{archive}: holds {places}; put the right one into {folder} yourself")
                (member,) = found[name].values()
                with files.writing(path) as file:
                    shutil.copyfileobj(tar.extractfile(member), file)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{archive}: not a whole tar archive ({error}); remove it, and the same command downloads it again"
        ) from error
    return paths


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0
