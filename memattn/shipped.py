"""Finds and lists the configs that come with memattn, which have names such as copy/small."""

import os
from pathlib import Path

from memattn.errors import ConfigError
from memattn.options import did_you_mean

_PARENT = Path(__file__).resolve().parents[1]
_FOLDERS = (
    _PARENT / "configs",  # in a clone; beside an installed package, it may be another one's, which lacks _ALWAYS_THERE
    _PARENT / "share/memattn/configs",  # installed with pip install --target
    (_PARENT / "../../../share/memattn/configs").resolve(),  # in an environment, or by --user or --prefix: beside lib/
)
_ALWAYS_THERE = "copy/demo.yaml"


def find(name: str) -> str:
    """Returns the path of the shipped config `name`; `name` itself if it is a path. Raises ConfigError for neither."""
    path = name if os.path.isfile(name) else path_of(name) or name
    try:
        os.stat(path)
    except OSError as error:
        end = advice(name) if isinstance(error, FileNotFoundError) else ""
        raise ConfigError(f"{name}: cannot read the config: {error.strerror}{end}") from error
    return path


def path_of(name: str) -> str | None:
    """Returns the path of the shipped config `name`, such as copy/small; None if there is none."""
    path = str(_folder() / f"{name}.yaml")
    return path if os.path.isfile(path) else None  # Path.is_file raises for a name that is too long


def _folder() -> Path:
    """Returns the folder of the shipped configs; it may be missing if the package was installed in another way."""
    return next((folder for folder in _FOLDERS if (folder / _ALWAYS_THERE).is_file()), _FOLDERS[-1])


def advice(name: str) -> str:
    """Returns the end of an error message about a config that was not found: the shipped ones, and the nearest."""
    known = names()
    return "; ".join(["", f"shipped configs: {', '.join(known)}", *did_you_mean(name, known)])


def names() -> list[str]:
    """Returns the names of all shipped configs but those of the studies."""
    folder = _folder()
    paths = (path.relative_to(folder) for path in folder.rglob("*.yaml"))
    return sorted(path.with_suffix("").as_posix() for path in paths if path.parts[0] != "studies")
