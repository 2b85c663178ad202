"""Measures memattn, and other libraries on the same work.

decode         beam search of a batch of sources
train          one training step
trained        beam search of trained runs on a split, in turns, with their scores
small_devices  memattn in ONNX beside CTranslate2 and Marian in int8
tokens         one decoder step against the length of the source
paper          decode times in the layout of the paper's Tables 1 and 3

Options of one: python scripts/benchmark.py decode --help
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import functools
import importlib

BENCHMARKS = ("decode", "train", "trained", "small_devices", "tokens", "paper")


def main() -> None:
    cli.run_one({name: functools.partial(_run, name) for name in BENCHMARKS}, __doc__)


def _run(name: str) -> None:
    """Runs a benchmark; those beside it are not imported."""
    benchmark = importlib.import_module(f"benchmarks.{name}")
    benchmark.define_flags()
    cli.run(benchmark.main, tensorflow=True)


if __name__ == "__main__":
    main()
