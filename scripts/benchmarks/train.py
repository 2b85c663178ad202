"""Times one training step of memattn and of other libraries on the same batch.

python scripts/benchmark.py train
"""

from absl import flags

from benchmarks import race, systems, tables

TRAINED = [
    "memattn: memory, K = 32",
    "memattn: windowed memory, K = 32",
    "memattn: Bahdanau",
    "memattn: memory, no input feeding",
    "tensorflow-addons: Bahdanau",
    "OpenNMT-tf: Bahdanau",
    "Joey NMT: Bahdanau",
]


def main() -> None:
    options = flags.FLAGS
    rows = []
    for length in options.lengths:
        work = {"task": "train", "length": length, "batch": options.batch_size}
        for row in tables.rows_of(length, race.race(dict.fromkeys(options.systems, work), options)):
            rows.append({**row, "tokens/s": round(options.batch_size * length / row["seconds"])})
    tables.write(rows, options, title="Time of a training step")


def define_flags() -> None:
    """Defines the flags of `main`."""
    known = [name for name, system in systems.SYSTEMS.items() if not system.selected and system.worker.trains]
    race.define_flags(systems=TRAINED, known=known, lengths="50")
    tables.define_output("train")
    flags.DEFINE_integer("batch_size", 128, "Sentence pairs, all of full length.", lower_bound=1)
