"""Flags, checks and messages that several commands of memattn-prepare share."""

import os
import re
from collections.abc import Mapping

from absl import flags

from memattn import files
from memattn.errors import ConfigError

_LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")


def define_folder(default: str | None, meaning: str, *, required: bool = False) -> None:
    """Defines --folder; an empty value is refused."""
    flags.DEFINE_string("folder", default, meaning, required=required)
    flags.register_validator("folder", lambda folder: folder != "", "is empty")


def check_folder(folder: str) -> None:
    """Raises OSError if the folder of a corpus is missing, and cannot be made."""
    if not os.path.exists(folder):
        files.make_folder(os.path.dirname(os.path.normpath(folder)))


def check_language(flag: str, code: str) -> None:
    """Raises ConfigError if the value of a flag is not the code of a language."""
    if not _LANGUAGE_CODE.fullmatch(code):
        raise ConfigError(f"--{flag}: {code!r} is not the code of a language, such as de, zh or pt-BR")


def print_source(release: Mapping[str, str | int] | None) -> None:
    """Prints the record of a release, such as where its files are from, and their license."""
    for name, fact in (release or {}).items():
        print(f"{name}: {fact}")
