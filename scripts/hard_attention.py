"""Trains models with soft attention, and with hard attention by REINFORCE (Xu et al., 2015), to copy symbols.

python scripts/hard_attention.py

A row of the table is a trained model, with the share of 500 test sequences that it copies without an error after each
number of training steps in --tests.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import os

from absl import flags
from studies import standalone

from memattn import files


def main() -> int:
    from studies import hard_attention

    from memattn.runs import provenance

    options = flags.FLAGS
    tests = sorted(set(map(int, options.tests)))
    files.make_folder(os.path.dirname(options.output))
    rows = []
    for kind in hard_attention.KINDS:
        for seed in map(int, options.seeds):
            shares = hard_attention.train(kind, max_length=options.max_length, tests=tests, seed=seed)
            row = {"attention": kind, "L": options.max_length, "seed": seed}
            for steps, share in zip(tests, shares, strict=True):
                row[f"after {steps:,} steps"] = f"{100 * share:.1f}%"
                print(f"{kind}, seed {seed}: {100 * share:.1f}% copied after {steps:,} steps", flush=True)
            rows.append(row)
            standalone.write_table(options.output, rows, {"rows": rows, **provenance.conditions()})
    return 0


if __name__ == "__main__":
    standalone.define_numbers("seeds", "1,2,3", "Seeds of weights, sequences and draws.")
    meaning = "Training steps after which a model is tested; the largest ends training."
    standalone.define_numbers("tests", "250,500,1000", meaning)
    flags.DEFINE_integer("max_length", 10, "Length of the longest sequence.", lower_bound=1, upper_bound=200)
    flags.DEFINE_string("output", "runs/results/hard_attention/table", "Files of the table, without their ending.")
    cli.run(main, tensorflow=True)
