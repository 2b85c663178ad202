"""The command `memattn-prepare copy`."""

from absl import flags

from memattn import cli
from memattn.config import CopyConfig
from memattn.data import task_corpus
from memattn.errors import ConfigError
from memattn.prepare_commands.common import define_folder

_PAPER_LENGTHS = ["20", "50", "100", "200"]
_LARGEST_INT = 2**31 - 1


def copy() -> None:
    """Runs the command `memattn-prepare copy`."""
    flags.DEFINE_list("max_length", _PAPER_LENGTHS, "Longest source, in symbols; several are separated by commas.")
    for name, meaning, least in (
        ("num_symbols", "Number of symbols.", 1),
        ("train_examples", "Training pairs.", 1),
        ("valid_examples", "Validation pairs.", 1),
        ("seed", "Seed of symbols and lengths.", 0),
    ):
        default = getattr(CopyConfig, name)
        flags.DEFINE_integer(name, default, meaning, lower_bound=least, upper_bound=_LARGEST_INT)
    define_folder(None, "Folder of the corpus; by default under data/, named after the settings.")
    cli.run(_write_copy_corpora)


def _write_copy_corpora() -> int:
    """Writes the copy task's corpora (section 4.1 of the paper): the paper's four by default.

    memattn-prepare copy
    memattn-prepare copy --max_length 30 --num_symbols 50 --train_examples 10000 --folder data/my_copy
    """
    options = flags.FLAGS
    if not options.max_length:
        raise ConfigError("--max_length: empty; give one or more")
    if options.folder and len(options.max_length) > 1:
        raise ConfigError("--folder: one folder holds one corpus: give one --max_length")
    for length in options.max_length:
        if not length.isdecimal() or len(length) > 10 or not 1 <= int(length) <= _LARGEST_INT:
            raise ConfigError(f"--max_length: {length!r} is not an int of at least 1 that fits 32 bits")
        config = CopyConfig(
            max_length=int(length),
            num_symbols=options.num_symbols,
            train_examples=options.train_examples,
            valid_examples=options.valid_examples,
            seed=options.seed,
        )
        folder = options.folder or config.folder
        task_corpus.prepare(config, folder)
        print(folder)
    return 0
