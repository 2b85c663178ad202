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
from memattn.errors import ConfigError
from memattn.evaluation import formatting


def main() -> int:
    from studies.raffel2016 import subsequence

    from memattn.runs import provenance

    options = flags.FLAGS
    wrong = [seed for seed in options.seeds if not seed.isdecimal() or int(seed) >= 2**31]
    if wrong or not options.seeds:
        raise ConfigError(f"--seeds: {wrong[0] if wrong else 'empty'}; give integers from 0 to {2**31 - 1}")
    os.makedirs(os.path.dirname(options.output) or ".", exist_ok=True)
    rows = []
    for name in ("mean and deviation, untrained", *subsequence.POOLINGS):
        for seed in map(int, options.seeds):
            start = time.monotonic()
            steps, encoders = 0, None
            if name in subsequence.POOLINGS:
                steps = options.steps
                encoders = subsequence.train(name, steps=steps, seed=seed)
            result = subsequence.evaluate(encoders, rows=options.sequences, seed=seed)
            rows.append({"pooling": name, "seed": seed, **result, "training steps": steps})
            print(f"{name}, seed {seed}: {result}, {time.monotonic() - start:.0f} s", flush=True)
            _write(rows, provenance.conditions())
    return 0


def _write(rows: list[dict], conditions: dict) -> None:
    output = flags.FLAGS.output
    files.write(f"{output}.json", json.dumps({"rows": rows, **conditions}, indent=2) + "\n")
    files.write_csv(f"{output}.csv", rows)
    files.write(f"{output}.md", formatting.markdown(rows))


if __name__ == "__main__":
    flags.DEFINE_list("seeds", "1,2,3", "Seeds of weights and sequences.")
    flags.DEFINE_integer("steps", 3_000, "Training steps of a pooling, 20 pairs each.", lower_bound=1)
    flags.DEFINE_integer("sequences", 2_000, "Sequences that are searched.", lower_bound=100, upper_bound=10_000)
    flags.DEFINE_string("output", "results/subsequence/table", "Files of the table, without their ending.")
    cli.run(main, tensorflow=True)
