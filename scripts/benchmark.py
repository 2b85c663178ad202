"""Measures memattn, and other libraries on the same work.

decode      beam search of a batch of sources
train       one training step
parts       the parts of a training step of memattn: encoder and decoder, forward and backward, and the optimizer
trained     beam search of trained runs on a split, in turns, with their scores
latency     one sentence at a time
tokens      one decoder step against the length of the source
paper       decode times in the layout of the paper's Tables 1 and 3
data        the input pipeline on a corpus of millions of pairs
replicas    bytes that a training step moves between GPUs (counted, not timed)

Options of one: python scripts/benchmark.py decode --help
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

from benchmarks import data, decode, latency, paper, parts, replicas, tokens, train, trained


def main() -> None:
    benchmarks = {
        "decode": decode,
        "train": train,
        "parts": parts,
        "trained": trained,
        "latency": latency,
        "tokens": tokens,
        "paper": paper,
        "data": data,
        "replicas": replicas,
    }
    cli.run_one({name: module.run for name, module in benchmarks.items()}, __doc__)


if __name__ == "__main__":
    main()
