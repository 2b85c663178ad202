"""Prepares parallel text of your own: a prefix names the two files of a split, PREFIX.en and PREFIX.de, or .gz of them.

python scripts/prepare_parallel.py --train text/train --valid text/dev --test text/test --source en --target de \
    --form raw --folder data/my_corpus
"""

import os
from typing import get_args

from absl import flags

from memattn import cli, preparation_flags
from memattn.data.text import Form
from memattn.errors import ConfigError


def main() -> int:
    options = flags.FLAGS
    prefixes = {"train": options.train, "valid": options.valid, "test": options.test}
    splits = {
        split: tuple(existing(f"{prefix}.{language}") for language in (options.source, options.target))
        for split, prefix in prefixes.items()
        if prefix
    }
    return preparation_flags.prepare(splits, options.form, options.source, options.target)


def existing(path: str) -> str:
    """The file itself, or its .gz."""
    for candidate in (path, f"{path}.gz"):
        if os.path.exists(candidate):
            return candidate
    raise ConfigError(f"{path}: neither this file nor {path}.gz is there")


if __name__ == "__main__":
    flags.DEFINE_string("train", None, "Prefix of the training text.", required=True)
    flags.DEFINE_string("valid", None, "Prefix of the validation text.", required=True)
    flags.DEFINE_string("test", None, "Prefix of the test text.")
    flags.DEFINE_string("source", None, "Language of the sources, and the end of their files' names.", required=True)
    flags.DEFINE_string("target", None, "Language of the targets, and the end of their files' names.", required=True)
    flags.DEFINE_enum(
        "form", "raw", get_args(Form), "What the lines are: raw text, tokenized by Moses, or also truecased."
    )
    preparation_flags.define()
    cli.run(main)
