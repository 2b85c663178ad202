"""Trains feed-forward and memory attention on the adding and the multiplication problem of Raffel and Ellis (2016).

python scripts/adding_problem.py

A cell of the table is the number of epochs (100,000 sequences each) until all test sequences are right, or the
percentage that is right where training ends before, by --epochs or --minutes: after the epoch with the most validation
sequences right. Cells that the output already has are not trained again.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

from absl import flags


def main() -> None:
    from studies import adding_problem

    adding_problem.make(flags.FLAGS)


if __name__ == "__main__":
    flags.DEFINE_multi_enum("tasks", ["addition", "multiplication"], ["addition", "multiplication"], "Tasks.")
    flags.DEFINE_list("lengths", "50,100,500,1000", "Lengths: 50, 100, 500, 1000, 5000, 10000, 50-10000.")
    meaning = "These two, or such as memory K=8 sigmoid/softmax."
    flags.DEFINE_list("models", "feed-forward attention,unweighted", meaning)
    meaning = "Minutes after which a cell's training is stopped, at the end of an epoch."
    flags.DEFINE_float("minutes", 60.0, meaning, lower_bound=0.0)
    flags.DEFINE_integer("epochs", 100, "Most epochs of a cell.", lower_bound=1)
    flags.DEFINE_string("output", "runs/results/adding_problem/table", "Files of the table, without their ending.")
    cli.run(main, tensorflow=True)
