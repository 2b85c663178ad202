"""Makes the folder of a prepared corpus.

The work is done in `FOLDER.unfinished`. The same command resumes it, and repeats only short steps. The folder takes its
name when everything is done. Its manifest says what it was made from.
"""

import importlib.metadata
import json
import os
import platform
import shutil
from collections.abc import Callable, Collection, Iterable

from memattn import __version__, files, processes, reading
from memattn.data.corpus import MANIFEST
from memattn.errors import ConfigError, DataError
from memattn.plain_values import differences

Counts = dict[str, dict[str, int]]  # numbers of the manifest, by split and name

_INPUTS = "settings.json"  # what the unfinished corpus is made from
_VERSION_KEY = "memattn"  # key of memattn's version in _INPUTS, which marks the folder as a preparation
_TYPES: reading.Types = {"counts": dict}  # types of values of a manifest


def make(
    folder: str,
    describe: Callable[[], dict],
    write: Callable[[str], Counts],
    *,
    release: dict[str, str | int] | None = None,
    types: reading.Types = _TYPES,
    work_files: Collection[str] = (),
) -> dict:
    """Makes the folder unless it is complete, and returns its manifest.

    Args:
      folder: where the corpus is to be.
      describe: returns the inputs that determine the corpus: its "settings", and its "sources" as `describe_files`
        describes them.
      write: writes the corpus, except for its manifest, into a folder, and returns the counts.
      release: what the manifest says about the release that the sources are from; None for text of the user's.
      types: types of values that the manifest of a complete folder needs.
      work_files: names of files that `write` needs to resume, and that are not part of the corpus.

    Raises:
      ConfigError: The folder holds something else.
      RunError: Another process is preparing the folder.
      OSError: A file cannot be read or written.
    """
    folder = os.path.normpath(folder)
    if os.path.exists(folder):
        return _check_complete(folder, describe(), types)
    with processes.making(folder, "is preparing it; wait, or use another --folder"):
        inputs = describe()
        if os.path.exists(folder):
            return _check_complete(folder, inputs, types)
        unfinished = f"{folder}{files.UNFINISHED}"
        _start(unfinished, inputs)
        counts = write(unfinished)
        described = {**inputs, "release": release} if release else inputs
        return _finish(unfinished, folder, described, counts, {_INPUTS, *work_files})


def describe_files(paths: Iterable[str]) -> list[dict[str, str | int]]:
    """Returns what a manifest says about source files. Raises OSError."""
    return [{"path": path, "bytes": os.path.getsize(path), "sha256": files.checksum(path)} for path in paths]


def copy_files(paths: Iterable[str], folder: str) -> None:
    """Copies files into a folder. Raises OSError."""
    for path in paths:
        with open(path, "rb") as file:
            files.write(os.path.join(folder, os.path.basename(path)), file.read())


def _check_complete(folder: str, inputs: dict, types: reading.Types) -> dict:
    """Returns the manifest of an existing folder. Raises ConfigError unless it holds the corpus of these inputs.

    `types` are the types of values that the manifest needs.
    """
    path, expected = os.path.join(folder, MANIFEST), _comparable(inputs)
    try:
        manifest = reading.json_file(path, types)
        stored = _comparable(manifest)
        sizes = {name: facts["bytes"] for name, facts in manifest["files"].items()}
        differing = ", ".join(map(str, differences(stored["settings"], expected["settings"]))) or "other files"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problem = error if isinstance(error, DataError) else f"{path}: {getattr(error, 'strerror', None) or error!r}"
        raise ConfigError(f"{folder}: exists, but is not a prepared corpus ({problem}); use another") from error
    if stored != expected:
        raise ConfigError(f"{folder}: holds another corpus ({differing}); use another folder, or remove it")
    for name, size in sizes.items():
        file = os.path.join(folder, name)
        if not os.path.exists(file) or os.path.getsize(file) != size:
            raise ConfigError(f"{file}: missing or changed; remove {folder} to prepare it again")
    return manifest


def _start(unfinished: str, inputs: dict) -> None:
    """Makes the working folder, or keeps one that was started with the same inputs.

    Work on other source files, such as broken ones that were mended since, is removed. Raises ConfigError for work with
    other settings, and for a folder that no preparation has made.
    """
    path = os.path.join(unfinished, _INPUTS)
    if os.path.isdir(unfinished) and set(os.listdir(unfinished)) - set(_interrupted_writes(unfinished, _INPUTS)):
        try:
            stored, expected = _comparable(reading.json_file(path, {_VERSION_KEY: str})), _comparable(inputs)
            differing = differences(stored["settings"], expected["settings"])
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{unfinished}: exists, but is not an unfinished preparation (see its {_INPUTS}); "
                "remove it, or use another --folder"
            ) from error
        if stored == expected:
            return
        if differing:
            settings = ", ".join(map(str, differing))
            raise ConfigError(
                f"{unfinished}: holds an unfinished preparation with other settings: {settings}; give these to resume "
                "it, or remove the folder"
            )
        shutil.rmtree(unfinished)
    os.makedirs(unfinished, exist_ok=True)
    files.write(path, json.dumps({_VERSION_KEY: __version__, **inputs}, indent=2) + "\n")


def _finish(unfinished: str, folder: str, inputs: dict, counts: Counts, work_files: Collection[str]) -> dict:
    """Writes the manifest, gives the folder its name, and removes what is not part of the corpus."""
    for name in _interrupted_writes(unfinished):
        os.remove(os.path.join(unfinished, name))
    names = sorted({*os.listdir(unfinished)} - {MANIFEST, *work_files})
    paths = {name: os.path.join(unfinished, name) for name in names}
    contents = {name: {"bytes": os.path.getsize(path), "sha256": files.checksum(path)} for name, path in paths.items()}
    manifest = {
        **inputs,
        "counts": counts,
        "files": contents,
        "versions": {
            "memattn": __version__,
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in ("numpy", "subword-nmt", "sacremoses")},
        },
        "command": processes.command(),
    }
    files.write(os.path.join(unfinished, MANIFEST), json.dumps(manifest, indent=2) + "\n")
    files.move(unfinished, folder)
    for name in work_files:
        if os.path.exists(os.path.join(folder, name)):
            os.remove(os.path.join(folder, name))
    return manifest


def _comparable(inputs: dict) -> dict:
    """Returns inputs without paths: the same files in another place make the same corpus."""
    sources = {split: [side["sha256"] for side in sides] for split, sides in inputs["sources"].items()}
    return {"settings": inputs["settings"], "sources": sources}


def _interrupted_writes(folder: str, prefix: str = "") -> list[str]:
    """Returns the names, beginning with `prefix`, of files that killed writes left."""
    return [name for name in os.listdir(folder) if name.startswith(prefix) and name.endswith(files.UNFINISHED)]
