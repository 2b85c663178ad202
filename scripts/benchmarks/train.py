"""Times one training step of memattn and of other libraries on the same batch.

python scripts/benchmark.py train
"""

from absl import flags

from benchmarks import race, systems, tables
from memattn import cli


def main() -> int:
    options = flags.FLAGS
    rows = []
    for length in map(int, options.lengths):
        measured = race.race({name: (name, work_of(length)) for name in options.systems}, options)
        for name, result in measured.items():
            tokens = round(options.batch_size * length / result.median)
            rows.append({**tables.row(name, length, result, measured), "tokens/s": tokens})
    tables.write(rows, options, title="Time of a training step")
    return 0


def work_of(length: int, timed: str = "update") -> dict[str, object]:
    """Returns the work of a worker that times a training step, or the part of it that `timed` names."""
    options = flags.FLAGS
    return {
        "task": "train",
        "timed": timed,
        "beam": 1,
        "length": length,
        "as_source": False,
        "batch": options.batch_size,
        "units": options.units,
        "vocabulary": options.vocabulary,
    }


def define_sizes() -> None:
    """Defines the flags that `work_of` reads."""
    race.define_sizes("50")
    flags.DEFINE_integer("batch_size", 128, "Sentence pairs, all of full length.", lower_bound=1)


def run() -> None:
    """Defines the flags, then runs `main`."""
    known = [
        name
        for name, system in systems.SYSTEMS.items()
        if not system.selected and system.worker not in systems.DECODERS
    ]
    race.define_flags(systems=systems.TRAINED, known=known)
    tables.define_output("train")
    define_sizes()
    cli.run(main, tensorflow=True)
