"""Writes the corpora of the copy task (section 4.1 of the paper): the paper's four by default.

python data/copy_task.py
python data/copy_task.py --max_length 30 --num_symbols 50 --train_examples 10000

Training makes the corpus of a task where it is missing; this is for those who want the files.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

from absl import flags

from memattn.data import tasks
from memattn.data.config import CopyConfig

LARGEST = 2**31 - 1


def main() -> None:
    options = flags.FLAGS
    numbers = {name: getattr(options, name) for name in ("num_symbols", "train_examples", "valid_examples", "seed")}
    for length in options.max_length:
        config = CopyConfig(max_length=length, **numbers)
        tasks.prepare(config, config.folder)
        print(config.folder)


if __name__ == "__main__":
    meaning = "Longest source, in symbols."
    flags.DEFINE_multi_integer("max_length", [20, 50, 100, 200], meaning, lower_bound=1, upper_bound=LARGEST)
    for name, meaning, least in (
        ("num_symbols", "Number of symbols.", 1),
        ("train_examples", "Training pairs.", 1),
        ("valid_examples", "Validation pairs.", 1),
        ("seed", "Seed of symbols and lengths.", 0),
    ):
        flags.DEFINE_integer(name, getattr(CopyConfig, name), meaning, lower_bound=least, upper_bound=LARGEST)
    cli.run(main)
