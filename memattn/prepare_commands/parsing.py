"""The command `memattn-prepare parsing`."""

from absl import flags

from memattn import cli
from memattn.data.preparation import advice
from memattn.data.preparation import parsing as tree_preparation
from memattn.errors import ConfigError
from memattn.prepare_commands.common import check_folder, define_folder


def parsing() -> None:
    """Runs the command `memattn-prepare parsing`."""
    names = "file or pattern of files, such as 'wsj/0[2-9]/*.mrg'; several are separated by commas."
    flags.DEFINE_list("train", None, f"Training trees: {names}", required=True)
    flags.DEFINE_list("valid", None, f"Validation trees: {names}", required=True)
    flags.DEFINE_list("test", None, f"Test trees: {names}")
    define_parsing_flags()
    cli.run(_prepare_parsing)


def define_parsing_flags(folder: str | None = None) -> None:
    """Defines the flags that all preparations of trees share. `folder` is the default of --folder; None: required."""
    define_folder(folder, "Folder of the prepared corpus.", required=folder is None)
    meaning = "Least number of occurrences in training of a word of the vocabulary."
    flags.DEFINE_integer("min_count", 2, meaning, lower_bound=1)


def _prepare_parsing() -> int:
    """Prepares constituency trees: the sources are words, the targets brackets, as in Vinyals et al. (2015).

    memattn-prepare parsing --train 'wsj/0[2-9]/*.mrg,wsj/1?/*.mrg,wsj/2[01]/*.mrg' --valid 'wsj/22/*.mrg' \\
        --test 'wsj/23/*.mrg' --folder data/wsj.trees
    """
    options = flags.FLAGS
    splits = {"train": options.train, "valid": options.valid, "test": options.test}
    for split, names in splits.items():
        if names is not None and not (names and all(names)):
            raise ConfigError(f"--{split}: an empty name; give files, separated by commas")
    prepare_trees({split: names for split, names in splits.items() if names}, options.min_count, options.folder)
    return 0


def prepare_trees(splits: dict[str, list[str]], min_count: int, folder: str) -> None:
    """Prepares trees as `parsing.prepare` does, and prints counts and how to train on them.

    Raises ConfigError, DataError, RunError, OSError.
    """
    check_folder(folder)
    manifest = tree_preparation.prepare(splits, min_count, folder)
    train = manifest["counts"]["train"]
    print(
        f"{folder}: {train['pairs']:,} training trees, {train['source_tokens']:,} words, "
        f"{train['target_tokens']:,} target tokens"
    )
    print(advice.training("parsing/small", folder))
