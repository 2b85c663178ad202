"""Gets files of Debian's archive by apt, which must be there: packages, and the descriptions of all packages.

The user's lists of packages stay as they are: apt writes into a temporary folder. Files that are already in the folder
of the downloads are used as they are.
"""

import contextlib
import glob
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence

import recipes

from memattn import files
from memattn.errors import RunError

# Images of containers set Acquire::Languages to "none", which has to be cleared.
_CONFIGURATION = """#clear Acquire::Languages;
Acquire::Languages {{ {languages} }};
Acquire::GzipIndexes "false";
APT::Sandbox::User "";
Dir::State::lists "{folder}/lists";
Dir::Cache "{folder}/cache";
"""


def packages(names: Sequence[str], folder: str) -> list[str]:
    """Returns the paths of the files of packages, NAME_VERSION_ARCHITECTURE.deb, which may be in the folder already.

    Raises ConfigError, RunError, OSError.
    """
    patterns = {name: os.path.join(folder, f"{name}_*.deb") for name in names}
    if missing := [name for name, pattern in patterns.items() if not glob.glob(pattern)]:
        wanted = " and ".join(f"{name}_*.deb" for name in missing)
        with _updated(["none"], f"put {wanted} into {folder}") as (apt, work):
            apt("download", *missing)
            _copy(glob.glob(f"{work}/*.deb"), folder)
    return [max(glob.glob(pattern)) for pattern in patterns.values()]


def unpack(package: str, folder: str) -> None:
    """Unpacks the files of a package into a folder. Raises ConfigError, RunError."""
    recipes.run(["dpkg-deb", "--extract", package, folder], "install dpkg")


def descriptions(languages: Sequence[str], folder: str) -> list[str]:
    """Returns the paths of the lists of packages' descriptions, SUITE_Translation-LANGUAGE, for each language.

    They may be in the folder already. Raises ConfigError, RunError, OSError.
    """
    patterns = {language: os.path.join(folder, f"*Translation-{language}") for language in languages}
    if missing := [language for language, pattern in patterns.items() if not glob.glob(pattern)]:
        wanted = " and ".join(f"Translation-{language}" for language in missing)
        by_hand = f"put {wanted}, unpacked, into {folder}"
        with _updated(missing, by_hand) as (_, work):
            for language in missing:
                lists = glob.glob(f"{work}/lists/*Translation-{language}")
                if not lists:
                    # Without a network, apt-get update only warns.
                    problem = f"apt-get update: the archive has no descriptions in {language!r}, or cannot be reached"
                    raise RunError(problem, by_hand)
                # The lists of updates and of other archives are smaller.
                _copy([max(lists, key=os.path.getsize)], folder)
    return [max(glob.glob(pattern)) for pattern in patterns.values()]


@contextlib.contextmanager
def _updated(languages: Sequence[str], by_hand: str) -> Iterator[tuple[Callable[..., None], str]]:
    """Yields a function that runs apt-get with new lists of packages, and the temporary folder that it works in.

    `by_hand` says how to do without apt. Raises ConfigError, RunError.
    """
    with tempfile.TemporaryDirectory() as work:
        for name in ("lists", "cache/archives"):
            os.makedirs(os.path.join(work, name, "partial"))
        configuration = os.path.join(work, "apt.conf")
        quoted = " ".join(f'"{language}";' for language in languages)
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(_CONFIGURATION.format(languages=quoted, folder=work))

        def apt(*arguments: str) -> None:
            command = ["apt-get", "--config-file", configuration, *arguments]
            recipes.run(command, f"without this downloader of Debian and Ubuntu, {by_hand}", cwd=work)

        apt("update")
        yield apt, work


def _copy(paths: Sequence[str], folder: str) -> None:
    """Copies files into a folder; of the name of a list, only what follows the address of the archive is kept."""
    os.makedirs(folder, exist_ok=True)
    for path in paths:
        target = os.path.join(folder, os.path.basename(path).rpartition("_dists_")[2])
        with open(path, "rb") as file, files.writing(target) as copy:
            shutil.copyfileobj(file, copy)
