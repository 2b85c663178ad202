"""Trains four models to copy, times decoder steps of models with the same attention, and writes tables and pictures.

python scripts/demo.py --output runs/demo

Both memories have 8 slots; a source has up to 20 symbols. The models that are timed have random weights. If
training is stopped, the same command resumes it.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import glob
import json
import os
import shutil
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from absl import flags
from benchmarks import tokens
from benchmarks.tables import pivot, system_lines
from studies.plots import draw_lines, label_ends, picture
from studies.runs import LEARNED, steps_to

from memattn import config as configs
from memattn import files, processes
from memattn.errors import RunError
from memattn.evaluation import formatting, styles
from memattn.runs.result import conditions
from memattn.runs.run import ALIGNMENTS, Run
from memattn.sweeps import tables
from memattn.sweeps.runner import run_sweep
from memattn.sweeps.runs import SweepRun, finished

CONFIG = str(Path(__file__).resolve().parents[1] / "configs/copy/demo.yaml")
LENGTHS = (20, 200, 2000)  # sources whose decoder steps are timed
TIMED = SimpleNamespace(
    units=128, vocabulary=24, batch_size=2, beam_size=10, threads=processes.cores(), jit_compile="auto", repeats=3
)
CONDITIONS = """\
Copying up to 20 symbols, scaled down: one layer of 128 units, one seed, 250 training steps.
Times: two layers of 128 units, 2 sources of S tokens, 10 hypotheses each, random weights."""


def main() -> None:
    folder = flags.FLAGS.output
    print("1 of 2: trains four models, two at a time")
    runs = _train(folder)
    print("2 of 2: times a decoder step for sources of 20 to 2,000 tokens")
    times = _time(list(runs), folder)
    quality, speed = _quality(runs), _speed(times)
    files.write_csv(os.path.join(folder, "copying.csv"), quality)
    files.write_csv(os.path.join(folder, "speed.csv"), speed)
    _draw(runs, times, folder)
    _copy_slots(runs, folder)
    print(
        f"\n{formatting.markdown(quality)}\n{tokens.MEASURE.capitalize()}:\n\n{formatting.markdown(speed)}\n{CONDITIONS}"
    )
    print(f"Picture of both tables: {folder}/trade_off.png")
    print(f"Picture of what each slot reads: {folder}/slots.png")


def _train(folder: str) -> dict[str, SweepRun]:
    """Trains the models of the demo's config; returns the run of each model by its name in words. Raises RunError."""
    config = configs.load(CONFIG, [])
    failed = run_sweep(
        config,
        folder,
        jobs=2,
        split="valid",
        average=None,
        repeats=1,
        num_plots=1,
        strategy="none",
        title="All results of the runs",
    )
    if failed:
        raise RunError(f"failed: {', '.join(failed)}; their logs are in {folder}")
    files.write(os.path.join(folder, "conditions.json"), json.dumps(conditions(), indent=2) + "\n")
    return {styles.words(styles.attention(run.config)): run for run in finished(config, folder, "valid")}


def _time(names: list[str], folder: str) -> list[dict[str, Any]]:
    """Times decoder steps of untrained models; returns a row for each length and model."""
    systems = [f"memattn: {name}" for name in names]
    rows = [row for length in LENGTHS for row in tokens.times(systems, length, TIMED)]
    files.write_csv(os.path.join(folder, "tokens.csv"), rows)
    return rows


def _quality(runs: dict[str, SweepRun]) -> list[dict[str, str]]:
    """Returns a row for each model: how well it copies, and after how many training steps."""
    return [
        {
            "model": name,
            "BLEU": f"{run.result.scores['bleu']:.1f}",
            "exact match, %": f"{run.result.scores['exact_match']:.1f}",
            f"training steps to {LEARNED} BLEU": str(steps_to(run) or "not reached"),
        }
        for name, run in runs.items()
    ]


def _speed(times: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns a row for each model: its time for one token, for each length of the source."""
    rows = [{**row, "model": row["system"]} for row in times]
    return pivot(rows, "model", lambda row: f"S = {row['L']:,}", itemgetter(tokens.MEASURE))


def _draw(runs: dict[str, SweepRun], times: list[dict[str, Any]], folder: str) -> None:
    """Draws learning curves on the left, and the time of a token against the source's length on the right."""
    with picture(os.path.join(folder, "trade_off.png"), "", (9.5, 3.9), 1, 2) as (left, right):
        draw_lines(left, [tables.curve(name, [run]) for name, run in runs.items()])
        left.set(ylim=(0, 102), xlabel="training step", ylabel="validation BLEU")
        left.set_title("Copying up to 20 symbols", fontsize=11)
        draw_lines(right, system_lines(times, tokens.MEASURE))
        right.set(
            xlim=(0, LENGTHS[-1]), ylim=(0, None), xlabel="S, length of the source in tokens", ylabel=tokens.MEASURE
        )
        right.set_title("Time to decode a token", fontsize=11)
        label_ends(left)
        label_ends(right)


def _copy_slots(runs: dict[str, SweepRun], folder: str) -> None:
    """Copies the picture of the slots of windowed memory attention to where the pictures are."""
    run = next(run for run in runs.values() if styles.attention(run.config)["name"] == "windowed_memory")
    (path,) = glob.glob(os.path.join(glob.escape(Run(run.folder).results_folder("valid")), ALIGNMENTS, "*.png"))
    shutil.copy(path, os.path.join(folder, "slots.png"))


if __name__ == "__main__":
    flags.DEFINE_string("output", "runs/demo", "Folder of the runs, tables and pictures.")
    cli.run(main)
