"""Trains models with soft attention, and with hard attention by REINFORCE (Xu et al., 2015), to copy symbols.

python scripts/hard_attention.py

A row of the table is a trained model, with the percentage of 500 test sequences that it copies without an error after
each number of training steps in --tests.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

from absl import flags
from studies import standalone


def main() -> None:
    from studies import hard_attention

    hard_attention.make(flags.FLAGS)


if __name__ == "__main__":
    standalone.define_numbers("seeds", "1,2,3", "Seeds of weights, sequences and draws.")
    meaning = "Training steps after which a model is tested; the largest ends training."
    standalone.define_numbers("tests", "250,500,1000", meaning)
    flags.DEFINE_integer("max_length", 10, "Length of the longest sequence.", lower_bound=1, upper_bound=200)
    flags.DEFINE_string("output", "runs/results/hard_attention/table", "Files of the table, without their ending.")
    cli.run(main, tensorflow=True)
