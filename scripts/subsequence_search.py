"""Trains embeddings for subsequence search with several poolings, and searches with each.

python scripts/subsequence_search.py

The sequences are synthetic: held tones, and warped, cropped, noisy copies of them (Raffel and Ellis, 2016, have music).
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

from absl import flags


def main() -> None:
    from studies import subsequence

    subsequence.make(flags.FLAGS.output)


if __name__ == "__main__":
    flags.DEFINE_string("output", "runs/results/subsequence/table", "Files of the table, without their ending.")
    cli.run(main, tensorflow=True)
