"""Times one training step of memattn and of other libraries on the same batch.

python scripts/benchmark.py train
"""

from absl import flags

from benchmarks import race, systems, tables


def main() -> None:
    options = flags.FLAGS
    rows = []
    for length in options.lengths:
        work = race.work_of_size(options, task="train", length=length, batch=options.batch_size)
        measured = race.race({name: (name, work) for name in options.systems}, options)
        for name, result in measured.items():
            tokens = round(options.batch_size * length / result.median)
            rows.append({**tables.row(name, length, result, measured), "tokens/s": tokens})
    tables.write(rows, options, title="Time of a training step")


def define_flags() -> None:
    """Defines the flags of `main`."""
    known = [name for name, system in systems.SYSTEMS.items() if not system.selected and system.worker.trains]
    race.define_flags(systems=systems.TRAINED, known=known)
    tables.define_output("train")
    race.define_sizes("50")
    flags.DEFINE_integer("batch_size", 128, "Sentence pairs, all of full length.", lower_bound=1)
