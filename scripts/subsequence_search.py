"""Trains embeddings for subsequence search with several poolings, and searches with each.

python scripts/subsequence_search.py

The sequences are synthetic: held tones, and warped, cropped, noisy copies of them (Raffel and Ellis, 2016, have music).
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

from absl import flags
from studies import standalone


def main() -> int:
    from studies import subsequence

    subsequence.make(flags.FLAGS)
    return 0


if __name__ == "__main__":
    standalone.define_numbers("seeds", "1,2,3", "Seeds of weights and sequences.")
    flags.DEFINE_integer("steps", 3_000, "Training steps of a pooling, 20 pairs each.", lower_bound=1)
    flags.DEFINE_string("output", "runs/results/subsequence/table", "Files of the table, without their ending.")
    cli.run(main, tensorflow=True)
