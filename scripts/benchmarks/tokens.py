"""Times one decoder step of the search, without the encoder, against the length of the source.

python scripts/benchmark.py tokens

The time of a step is the difference in time between decoding many and few steps, divided by the difference in steps.
"""

import statistics
from operator import itemgetter

from absl import flags

from benchmarks import race, tables
from memattn.evaluation import formatting

FEW, MANY = 20, 420  # decoder steps
MEASURE = "microseconds per token"


def main() -> None:
    options = flags.FLAGS
    rows = []
    for length in options.lengths:
        runners = {}
        for name in options.systems:
            for steps in (FEW, MANY):
                work = race.work_of_size(
                    options,
                    length=steps,
                    source_lengths=length,
                    examples=options.batch_size,
                    batch=options.batch_size,
                    beam=options.beam_size,
                )
                runners[f"{name}, {steps} steps"] = name, work
        measured = race.race(runners, options, warming_up=options.threads)
        for name in options.systems:
            few, many = (measured[f"{name}, {steps} steps"] for steps in (FEW, MANY))
            tokens = (MANY - FEW) * options.batch_size * options.beam_size
            times = [1e6 * (long - short) / tokens for short, long in zip(few.seconds, many.seconds, strict=True)]
            rows.append(
                {
                    "L": length,
                    "system": name.removeprefix("memattn: "),
                    MEASURE: f"{float(f'{statistics.median(times):.3g}'):g}",
                    "min-max": formatting.extent(times, ".3g"),
                    "peak MiB": many.peak_memory,
                    "background load": max(few.background_load, many.background_load),
                    "notes": many.notes,
                }
            )
    work_of_a_step = f"{options.batch_size} sources together, {options.beam_size} hypotheses of each, random weights"
    tables.write(
        rows,
        options,
        title=f"Time to decode one token of one hypothesis, against the length L of the source ({work_of_a_step})",
        measure=MEASURE,
        scale="linear",
    )
    print(formatting.markdown(tables.pivot(rows, "L", itemgetter("system"), itemgetter(MEASURE))))


def define_flags() -> None:
    """Defines the flags of `main`."""
    timed = ["memattn: no attention", "memattn: memory, K = 32", "memattn: dot product", "memattn: Bahdanau"]
    race.define_flags(systems=timed)
    tables.define_output("tokens")
    race.define_sizes("50,200,500,1000,2000,5000,10000,20000")
    flags.DEFINE_integer("batch_size", 2, "Sources decoded together.", lower_bound=1)
    flags.DEFINE_integer("beam_size", 10, "Hypotheses per source.", lower_bound=1)
