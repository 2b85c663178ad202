"""Downloads the files of a release by pooch, and extracts archives."""

import gzip
import os
import sys
import tarfile
import zlib
from collections.abc import Mapping

import pooch

from memattn import files
from memattn.errors import DataError

pooch.get_logger().setLevel("WARNING")


def fetch(checksums: Mapping[str, str | None], base_url: str, folder: str) -> None:
    """Downloads files into a folder, unless they are there. A failed download is repeated up to three times.

    Args:
      checksums: SHA-256, or `md5:` and an MD5, by the names of the files; None checks nothing.
      base_url: address of the release, where the files have these names.
      folder: where they go.

    Raises DataError, also for a file with another checksum.
    """
    files.make_folder(folder)
    release = pooch.create(folder, base_url, registry=checksums, retry_if_failed=3, allow_updates=False)
    download = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), headers={"Accept-Encoding": "identity"})
    for name, expected in checksums.items():
        path = os.path.join(folder, name)
        if os.path.exists(path) and not pooch.hashes.hash_matches(path, expected):
            raise DataError(f"{path}: its checksum is not {expected}; remove it, and the same command downloads it")
        try:
            release.fetch(name, downloader=download)
        except (ValueError, OSError) as error:  # of pooch, and of requests or the disk
            missing = [name for name in checksums if not os.path.exists(os.path.join(folder, name))]
            advice = f"try again, or first put into {folder} what is missing: {', '.join(missing)}"
            raise DataError(f"{release.get_url(name)}: {_first_cause(error)}; {advice}") from error


def _first_cause(error: BaseException) -> BaseException:
    """Returns the error that made libraries raise others, such as that a host is not known."""
    while error.__context__:
        error = error.__context__
    return error


def extract(archive: str, folder: str) -> None:
    """Extracts a tar archive into a folder, which appears once it is complete; an existing folder is not touched.

    Raises DataError for a damaged archive, and for a member that leads out of the folder; OSError.
    """
    if os.path.exists(folder):
        return
    try:
        with files.making_folder(folder) as unfinished, tarfile.open(archive) as tar:
            tar.extractall(unfinished, filter="data")
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{archive}: not a complete tar archive ({error}); remove it, and the same command downloads it again"
        ) from error
