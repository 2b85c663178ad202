"""Trains feed-forward and memory attention on the adding and the multiplication problem of Raffel and Ellis (2016).

python scripts/adding_problem.py

A cell of the table is the number of epochs (100,000 sequences each) until all test sequences are right, or the share
that is right where training ends before, by --epochs or --minutes: after the epoch with the best share of validation
sequences. Cells that the output already has are not trained again.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import os

from absl import flags
from studies import standalone

from memattn import files, reading
from memattn.errors import ConfigError


def main() -> int:
    from studies import adding_problem

    from memattn.runs import provenance

    options = flags.FLAGS
    for flag, known in (("lengths", adding_problem.LENGTHS), ("models", adding_problem.MODELS)):
        given = getattr(options, flag)
        unknown = [name for name in given if name not in known]
        if unknown or not given:
            raise ConfigError(f"--{flag}: {repr(unknown[0]) if unknown else 'empty'}; give some of {', '.join(known)}")
    files.make_folder(os.path.dirname(options.output))
    path = f"{options.output}.json"
    cells = reading.json_file(path)["cells"] if os.path.exists(path) else []
    wanted = [(task, length, model) for task in options.tasks for length in options.lengths for model in options.models]
    for task, length, model in wanted:
        rate = options.learning_rate or adding_problem.LEARNING_RATES[task]
        settings = {"task": task, "length": length, "model": model, "learning_rate": rate, "seed": options.seed}
        same = [cell for cell in cells if settings.items() <= cell.items()]
        if not any(map(_is_finished, same)):
            print(f"{task}, length {length}, {model}", flush=True)
            limits = {"minutes": options.minutes, "epochs": options.epochs}
            cell = adding_problem.train(task, length, model, learning_rate=rate, seed=options.seed, **limits)
            cells = [cell for cell in cells if cell not in same] + [{**cell, **provenance.conditions()}]
        _write(cells)
    return 0


def _is_finished(cell: dict) -> bool:
    options = flags.FLAGS
    if cell["right"] == 1 or not _is_chosen_by_validation(cell):
        return cell["right"] == 1
    return cell["epochs"] >= options.epochs or cell["seconds"] >= 60 * options.minutes


def _is_chosen_by_validation(cell: dict) -> bool:
    """Returns whether the epoch was chosen apart from the test sequences; earlier versions of this script did not."""
    return "validation_right" in cell


def _write(cells: list[dict]) -> None:
    """Writes the table and its cells."""
    from studies.adding_problem import LENGTHS, MODELS, published

    def order(cell: dict) -> tuple:
        place = LENGTHS.index(cell["length"]), list(MODELS).index(cell["model"])
        return cell["task"], *place, cell["learning_rate"], cell["seed"]

    cells, rows = sorted(cells, key=order), []
    for cell in cells:
        task, length, model = (cell[key] for key in ("task", "length", "model"))
        share = f"{100 * cell['right']:.1f}%" + ("" if _is_chosen_by_validation(cell) else " (best epoch on test)")
        rows.append(
            {
                "task": task,
                "length": length,
                "model": model,
                "seed": cell["seed"],
                "epochs to 100% (or % right)": cell["epochs"] if cell["right"] == 1 else share,
                "published": published(task, model, length),
                "epochs": cell["epochs"],
                "learning rate": f"{cell['learning_rate']:g}",
                "a constant, % right": f"{100 * cell['constant_right']:.1f}",
            }
        )
    standalone.write_table(flags.FLAGS.output, rows, {"cells": cells})


if __name__ == "__main__":
    flags.DEFINE_multi_enum("tasks", ["addition", "multiplication"], ["addition", "multiplication"], "Tasks.")
    flags.DEFINE_list("lengths", "50,100,500,1000", "Lengths: 50, 100, 500, 1000, 5000, 10000, 50-10000.")
    flags.DEFINE_list(
        "models", "feed-forward attention,unweighted", "These two, or such as memory K=8 sigmoid/softmax."
    )
    meaning = "Adam's; by default, the task's best at length 100 (on test sequences)."
    flags.DEFINE_float("learning_rate", None, meaning, lower_bound=1e-9, upper_bound=1.0)
    meaning = "Minutes after which a cell's training is stopped, at the end of an epoch."
    flags.DEFINE_float("minutes", 60.0, meaning, lower_bound=0.0)
    flags.DEFINE_integer("epochs", 100, "Most epochs of a cell.", lower_bound=1)
    flags.DEFINE_integer("seed", 1, "Seed of weights and sequences.", lower_bound=0, upper_bound=2**31 - 1)
    flags.DEFINE_string("output", "runs/results/adding_problem/table", "Files of the table, without their ending.")
    cli.run(main, tensorflow=True)
