"""Trains embeddings for subsequence search with several poolings, and searches with each.

python scripts/subsequence_search.py --output results/subsequence/table

The sequences are synthetic: held tones, and warped, cropped, noisy copies of them (Raffel & Ellis, 2016, have music).
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import json
import os
import time

from absl import flags

from memattn import files
from memattn.evaluation import tables
from memattn.paper import subsequence
from memattn.runs import provenance


def main() -> int:
    options = flags.FLAGS
    rows = []
    for name in ("mean and deviation, untrained", *subsequence.POOLINGS):
        for seed in map(int, options.seeds):
            start, encoders = time.monotonic(), None
            if name in subsequence.POOLINGS:
                encoders = subsequence.train(name, updates=options.updates, seed=seed)
            found = subsequence.evaluate(encoders, rows=options.sequences, seed=seed)
            seconds = f"{time.monotonic() - start:.0f}"
            rows.append({"pooling": name, "seed": seed, **found, "updates": options.updates * bool(encoders)})
            print(f"{name}, seed {seed}: {found}, {seconds} s", flush=True)
    os.makedirs(os.path.dirname(options.output) or ".", exist_ok=True)
    files.write(f"{options.output}.md", tables.markdown(rows) + "\n")
    files.write(f"{options.output}.json", json.dumps({"rows": rows, **provenance.conditions()}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    flags.DEFINE_list("seeds", "1,2,3", "Seeds of weights and sequences.")
    flags.DEFINE_integer("updates", 3_000, "Updates of a pooling, 20 pairs each.", lower_bound=1)
    flags.DEFINE_integer("sequences", 2_000, "Sequences that are searched.", lower_bound=100)
    flags.DEFINE_string("output", "results/subsequence/table", "Files of the table, without their ending.")
    cli.run(main, tensorflow=True)
