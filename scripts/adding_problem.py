"""Trains feed-forward and memory attention on the adding and the multiplication problem of Raffel and Ellis (2016).

python scripts/adding_problem.py --output results/adding_problem/table

A cell of the table is what Keras' `fit` needs until all test sequences are right, in epochs of 100,000 sequences, or
the share that is right after --epochs or --minutes. Cells that the output has are not trained again.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import json
import os

from absl import flags

from memattn import files
from memattn.errors import ConfigError
from memattn.evaluation import tables
from memattn.paper import adding_problem
from memattn.runs import provenance

_SAME = ("task", "length", "model", "learning_rate", "seed")


def main() -> int:
    options = flags.FLAGS
    unknown = [
        f"--{flag}: {name} is none of {', '.join(known)}"
        for flag, known in (("lengths", adding_problem.LENGTHS), ("models", adding_problem.MODELS))
        for name in options[flag].value
        if name not in known
    ]
    if unknown:
        raise ConfigError(unknown[0])
    path = f"{options.output}.json"
    found = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            found = json.load(file)["cells"]
    for task in options.tasks:
        for length in options.lengths:
            for model in options.models:
                settings = {"learning_rate": options.learning_rate, "seed": options.seed}
                cell = dict(zip(_SAME, (task, length, model, *settings.values()), strict=True))
                if any(all(one[key] == cell[key] for key in _SAME) for one in found):
                    continue
                print(f"{task}, length {length}, {model}", flush=True)
                limits = {"minutes": options.minutes, "epochs": options.epochs}
                cell = adding_problem.train(task, length, model, **settings, **limits)
                found.append({**cell, **provenance.conditions()})
                _write(found)
    _write(found)
    return 0


def _write(found: list[dict]) -> None:
    rows = []
    for cell in found:
        task, length, model = (cell[key] for key in ("task", "length", "model"))
        done = cell["right"] == 1
        rows.append(
            {
                "task": task,
                "length": length,
                "model": model,
                "epochs to 100% (or % right)": cell["epochs"] if done else f"{100 * cell['right']:.1f}%",
                "published": adding_problem.published(task, model, length),
                "epochs": cell["epochs"],
                "minutes": f"{cell['seconds'] / 60:.1f}",
                "learning rate": f"{cell['learning_rate']:g}",
                "a constant, % right": f"{100 * adding_problem.constant(task, length, cell['seed']):.1f}",
            }
        )
    output = flags.FLAGS.output
    os.makedirs(os.path.dirname(output) or ".", exist_ok=True)
    files.write(f"{output}.json", json.dumps({"cells": found}, indent=2) + "\n")
    if rows:
        files.write(f"{output}.md", tables.markdown(rows) + "\n")


if __name__ == "__main__":
    flags.DEFINE_multi_enum("tasks", ["addition", "multiplication"], ["addition", "multiplication"], "Tasks.")
    flags.DEFINE_list("lengths", "50,100,500,1000", f"Lengths, of {', '.join(adding_problem.LENGTHS)}.")
    flags.DEFINE_list("models", "feed-forward attention,unweighted", f"Of {', '.join(adding_problem.MODELS)}.")
    flags.DEFINE_float("learning_rate", 0.003, "Adam's.", lower_bound=1e-9)
    flags.DEFINE_float("minutes", 60.0, "Longest training of a cell.", lower_bound=0.0)
    flags.DEFINE_integer("epochs", 100, "Most epochs of a cell.", lower_bound=1)
    flags.DEFINE_integer("seed", 1, "Seed of weights, training and test sequences.", lower_bound=0)
    flags.DEFINE_string("output", "results/adding_problem/table", "Files of the table, without their ending.")
    cli.run(main, tensorflow=True)
