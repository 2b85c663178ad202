"""Times decoding of one sentence at a time, as a translation service decodes.

python scripts/benchmark.py latency

For memattn, the column `over steps` is the time of a sentence divided by the time of its decoder steps alone. Their
time is the difference in time between decoding twice as many steps and decoding the sentence.
"""

import statistics

from absl import flags
from studies import standalone

from benchmarks import race, systems, tables
from memattn import cli

LATENT = [
    "memattn: no attention",
    "memattn: memory, K = 32",
    "memattn: Bahdanau",
    *(name for name in systems.DECODED if systems.SYSTEMS[name].worker != "ours"),
]


def main() -> int:
    options, rows = flags.FLAGS, []
    for beam_size in map(int, options.beam_sizes):
        for length in map(int, options.lengths):
            runners = {}
            for name in options.systems:
                is_ours = systems.SYSTEMS[name].worker == "ours"
                for times in (1, 2) if is_ours else (1,):
                    work = race.decoding_work(
                        options, length=times * length, source_lengths=length, examples=1, batch=1, beam=beam_size
                    )
                    runners[f"{name}, {times * length} steps"] = name, work
            measured = race.race(runners, options)
            once = {name: measured[f"{name}, {length} steps"] for name in options.systems}
            for name, result in once.items():
                row = {**tables.row(name, length, result, once), "system": f"{name}, beam {beam_size}"}
                twice = measured.get(f"{name}, {2 * length} steps")
                if twice:
                    pairs = zip(result.seconds, twice.seconds, strict=True)
                    steps = statistics.median(long - short for short, long in pairs)
                    row |= {"ms a step": "", "over steps": ""}
                    if steps > 0:  # otherwise the runs differ by more than the steps take
                        row["ms a step"] = float(f"{1e3 * steps / length:.3g}")
                        row["over steps"] = round(result.median / steps, 2)
                rows.append(row)
    tables.write(rows, options, title="Decode time of one sentence")
    return 0


def run() -> None:
    """Defines the flags, then runs `main`."""
    race.define_flags(systems=LATENT)
    tables.define_output("latency")
    race.define_sizes("25")
    standalone.define_numbers("beam_sizes", "1,5", "Hypotheses of the sentence.")
    flags.FLAGS.set_default("repeats", 30)
    cli.run(main, tensorflow=True)
