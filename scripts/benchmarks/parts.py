"""Times the parts of one training step of memattn, forward and backward.

python scripts/benchmark.py parts

The time of a backward pass is the difference between a part with its gradients and the part alone.
"""

import statistics

from absl import flags

from benchmarks import race, systems, tables, train
from memattn import cli
from memattn.evaluation import formatting

TIMED = ("encoder", "encoder and gradients", "decoder", "decoder and gradients", "optimizer", "update")


def main() -> int:
    options = flags.FLAGS
    (length,) = map(int, options.lengths)
    rows = []
    for name in options.systems:
        runners = {f"{name}, {timed}": (name, train.work_of(length, timed)) for timed in TIMED}
        results = dict(zip(TIMED, race.race(runners, options).values(), strict=True))
        update = results["update"]
        for part, seconds in seconds_of_parts({timed: result.seconds for timed, result in results.items()}).items():
            rows.append(
                {
                    "L": length,
                    "system": name,
                    "part": part,
                    "seconds": f"{statistics.median(seconds):.3f}",
                    "min-max": formatting.extent(seconds, ".3f"),
                    "% of the step": f"{100 * statistics.median(seconds) / update.median:.0f}",
                    "background load": max(result.background_load for result in results.values()),
                    "notes": update.notes,
                }
            )
    tables.write(rows, options, title="Time of the parts of one training step")
    return 0


def seconds_of_parts(seconds: dict[str, list[float]]) -> dict[str, list[float]]:
    """Returns the times of each part in each repeat, from those of all in TIMED."""

    def backward(side: str) -> list[float]:
        return [both - forward for both, forward in zip(seconds[f"{side} and gradients"], seconds[side], strict=True)]

    return {
        "encoder, forward": seconds["encoder"],
        "encoder, backward": backward("encoder"),
        "decoder, forward": seconds["decoder"],
        "decoder, backward": backward("decoder"),
        "clipping and optimizer": seconds["optimizer"],
        "the whole step": seconds["update"],
    }


def run() -> None:
    """Defines the flags, then runs `main`."""
    ours = [name for name, system in systems.SYSTEMS.items() if system.worker == "ours" and not system.selected]
    timed = ["memattn: memory, K = 32", "memattn: Bahdanau"]
    race.define_flags(systems=timed, known=ours)
    tables.define_output("parts")
    train.define_sizes()
    flags.register_validator("lengths", lambda lengths: len(lengths) == 1, "one length")
    cli.run(main, tensorflow=True)
