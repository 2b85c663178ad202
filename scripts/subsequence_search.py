"""Trains embeddings for subsequence search with several poolings, and searches with each.

python scripts/subsequence_search.py

The sequences are synthetic: held tones, and warped, cropped, noisy copies of them (Raffel & Ellis, 2016, have music).
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import os
import time

from absl import flags
from studies import standalone

from memattn import files


def main() -> int:
    from studies import subsequence

    from memattn.runs import provenance

    options = flags.FLAGS
    files.make_folder(os.path.dirname(options.output))
    rows = []
    for name in ("mean and deviation, untrained", *subsequence.POOLINGS):
        for seed in map(int, options.seeds):
            start = time.monotonic()
            steps = options.steps if name in subsequence.POOLINGS else 0
            encoders = subsequence.train(name, steps=steps, seed=seed) if steps else None
            result = subsequence.evaluate(encoders, rows=options.sequences, seed=seed)
            rows.append({"pooling": name, "seed": seed, **result, "training steps": steps})
            print(f"{name}, seed {seed}: {result}, {time.monotonic() - start:.0f} s", flush=True)
            standalone.write_table(options.output, rows, {"rows": rows, **provenance.conditions()})
    return 0


if __name__ == "__main__":
    standalone.define_numbers("seeds", "1,2,3", "Seeds of weights and sequences.")
    flags.DEFINE_integer("steps", 3_000, "Training steps of a pooling, 20 pairs each.", lower_bound=1)
    flags.DEFINE_integer("sequences", 2_000, "Sequences that are searched.", lower_bound=100, upper_bound=10_000)
    flags.DEFINE_string("output", "runs/results/subsequence/table", "Files of the table, without their ending.")
    cli.run(main, tensorflow=True)
