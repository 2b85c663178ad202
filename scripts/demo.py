"""Trains four models to copy, times decoder steps of models with the same attention, and writes tables and pictures.

python scripts/demo.py --output runs/demo

Both memories have 8 slots; a source has up to 20 symbols. The models that are timed have random weights. If
training is stopped, the same command resumes it.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

from absl import flags


def main() -> None:
    from studies import demo

    demo.make(flags.FLAGS.output)


if __name__ == "__main__":
    flags.DEFINE_string("output", "runs/demo", "Folder of the runs, tables and pictures.")
    cli.run(main, tensorflow=True)
