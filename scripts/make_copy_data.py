"""Writes the copy task's corpora: the paper's four by default.

python scripts/make_copy_data.py
python scripts/make_copy_data.py --max_length 30 --num_symbols 50 --train_examples 10000 --folder data/my_copy
"""

from absl import flags

from memattn import cli
from memattn.config import CopyConfig
from memattn.data import copy_task
from memattn.errors import ConfigError

PAPER_LENGTHS = ["20", "50", "100", "200"]


def main() -> int:
    options = flags.FLAGS
    if options.folder and len(options.max_length) > 1:
        raise ConfigError("--folder: one folder holds one corpus: give one --max_length")
    for length in options.max_length:
        if not length.isdecimal() or int(length) < 1:
            raise ConfigError(f"--max_length: {length!r} is not a whole number of at least 1")
        config = CopyConfig(
            max_length=int(length),
            num_symbols=options.num_symbols,
            train_examples=options.train_examples,
            valid_examples=options.valid_examples,
            seed=options.seed,
        )
        folder = options.folder or config.folder
        try:
            copy_task.prepare(config, folder)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        print(folder)
    return 0


if __name__ == "__main__":
    flags.DEFINE_list("max_length", PAPER_LENGTHS, "Longest source, in symbols; several by commas.")
    flags.DEFINE_integer("num_symbols", 20, "Symbols in the vocabulary.", lower_bound=1)
    flags.DEFINE_integer("train_examples", 100_000, "Training pairs.", lower_bound=1)
    flags.DEFINE_integer("valid_examples", 1_000, "Validation pairs.", lower_bound=1)
    flags.DEFINE_integer("seed", 1, "Seed.", lower_bound=0)
    flags.DEFINE_string("folder", None, "Where to; by default under data/, named after the settings.")
    cli.run(main)
