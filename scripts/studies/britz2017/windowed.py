"""Writes tables and pictures on windowed memory attention, its parts, and the decoder's initial state."""

import os
import statistics
from typing import cast

from memattn.config import Seq2SeqConfig
from memattn.evaluation import styles
from memattn.sweeps.runs import SweepRun
from studies import mechanisms, plots
from studies.output import Output
from studies.runs import (
    LEARNED,
    groups,
    is_memory,
    learning_steps,
    model_words,
    num_slots,
    rows_by,
    scores,
    steps_by_seed,
    steps_to,
    summary,
    task,
    task_length,
    task_name,
    text_name,
)

_MECHANISMS = ("none", "memory", "stretch_means", "windowed_memory", "bahdanau")  # in the order of the rows
# What writes the slots of the mechanisms in configs/studies/baselines.
_WRITING = {
    "windowed_memory": "windows and learned weights",
    "stretch_means": "plain means of stretches",
    mechanisms.MEMORY_VARIANT: "learned weights, without windows",
    "latents": "learned queries (latents)",
}
_FREE_WINDOWS = "windows that training can weaken, and learned weights"


def windowed_memory(output: Output, runs: list[SweepRun]) -> None:
    """Writes a table of BLEU and of training steps to 95 BLEU in the copy task, by length and model.

    Draws learning curves for each length, and the training steps to 95 BLEU against L / K, the symbols per slot.
    """
    runs = sorted(continued(runs), key=_place)
    rows = rows_by(runs, {"L": task_length, "model": model_words}, _symbols_per_slot, _quality, _training)
    output.table(rows, "Windowed memory attention on the copy task")
    for length, same in groups(runs, task_length).items():
        output.learning_curves(f"learning_curves_{length}", groups(same, model_words), f"Copy task, L = {length}")
    steps = {
        f"L = {length}": [(length / num_slots(run), steps_to(run)) for run in same]
        for length, same in groups(list(filter(_is_windowed, runs)), task_length).items()
    }
    title = f"Windowed memory: many symbols to a slot take more training steps{output.label}"
    output.pictures("steps_by_load", lambda path: plots.steps_by_load(path, steps, title))


def _symbols_per_slot(seeds: list[SweepRun]) -> dict[str, str]:
    run = seeds[0]
    return {"symbols per slot": f"{task_length(run) / num_slots(run):.3g}" if is_memory(run) else ""}


def _training(seeds: list[SweepRun]) -> dict[str, str]:
    steps = ", ".join(str(run.curve()[-1][0]) for run in seeds)
    return {"training steps": steps, "precision": seeds[0].config.training.precision.removeprefix("mixed_")}


def pace(output: Output, runs: list[SweepRun]) -> None:
    """Writes the training steps to 95 BLEU, in the copy task, by length and model."""
    rows = rows_by(sorted(runs, key=_place), {"L": task_length, "model": model_words}, learning_steps)
    every = runs[0].config.training.validate_every
    output.table(rows, f"Training steps to {LEARNED} BLEU on the copy task, validated every {every} steps")


def _place(run: SweepRun) -> tuple[int, int, int]:
    """Returns what the rows are sorted by: length, mechanism, and number of slots."""
    name = styles.attention(run.config)["name"]
    return task_length(run), _MECHANISMS.index(name), num_slots(run) if is_memory(run) else 0


def continued(runs: list[SweepRun]) -> list[SweepRun]:
    """Joins each run that starts from the weights of another one with that run: their validations are one curve."""
    by_name, replaced = {run.name: run for run in runs}, set()
    joined = []
    for run in runs:
        if start := by_name.get(os.path.basename(run.config.training.init_from or "")):
            replaced.add(start.name)
            steps = start.curve()[-1][0]
            further = [{**row, "step": str(steps + int(row["step"]))} for row in run.validations]
            run = run._replace(validations=[*start.validations, *further])
        joined.append(run)
    return [run for run in joined if run.name not in replaced]


def bridge(output: Output, copy: list[SweepRun], translation: list[SweepRun]) -> None:
    """Writes BLEU with a zero initial state of the decoder and with one from a dense layer, by task and model."""
    keys = {
        "task": lambda run: task_name(run) if run.config.data.generated else text_name(run),
        "model": model_words,
    }
    rows = rows_by([*copy, *translation], keys, _quality_by_bridge)
    output.table(rows, "The decoder's initial state: zeros, or a dense layer over the encoder's final states")


def _quality_by_bridge(runs: list[SweepRun]) -> dict[str, str]:
    by_bridge = groups(runs, lambda run: cast(Seq2SeqConfig, run.config.model).bridge)
    qualities = {kind: _quality(by_bridge.get(kind, [])) for kind in ("zero", "dense")}
    return {f"{kind}: {column}": text for kind, quality in qualities.items() for column, text in quality.items()}


def windows(output: Output, runs: list[SweepRun]) -> None:
    """Writes BLEU and training steps of memories with parts of windowed memory, and with position encodings.

    Draws their learning curves.
    """
    rows = rows_by(runs, {"model": _parts}, _early_bleu, _quality)
    output.table(rows, f"Parts of windowed memory attention: {task_name(runs[0])}, K = {num_slots(runs[0])}")
    title = f"Copy task, L = {task_length(runs[0])}, K = {num_slots(runs[0])}"
    output.learning_curves("learning_curves", groups(runs, _parts), title)


def baselines(output: Output, runs: list[SweepRun]) -> None:
    """Writes BLEU and training steps of windowed memory and of mechanisms that lack a part of it, by task and K.

    Draws learning curves for each task and K, as means over the seeds.
    """
    keys = {"task": lambda run: f"{task(run).name}, K = {num_slots(run)}", "writing": _writing}
    rows = rows_by(runs, keys, _early_bleu, _quality)
    for (name, slots), same in groups(runs, task_name, num_slots).items():
        file = f"learning_curves_{name.partition(',')[0]}_{slots}"
        output.learning_curves(file, groups(same, _writing), f"{name}, K = {slots}")
    output.table(rows, "What writes the slots: windowed memory beside its baselines")


def _writing(run: SweepRun) -> str:
    """Names what writes the slots of a run's memory."""
    attention = styles.attention(run.config)
    return _FREE_WINDOWS if attention.get("free_windows") else _WRITING[attention["name"]]


def _early_bleu(seeds: list[SweepRun]) -> dict[str, str]:
    """Returns the mean validation BLEU at two training steps, or at the last validation before each."""
    means = {
        step: statistics.mean([bleu for number, bleu in run.curve() if number <= step][-1] for run in seeds)
        for step in (500, 1000)
    }
    return {f"BLEU after {step}": f"{bleu:.1f}" for step, bleu in means.items()}


def _quality(seeds: list[SweepRun]) -> dict[str, str]:
    """Returns columns on runs that differ in seed: mean and range of BLEU, each run's training steps to 95 BLEU.

    Without runs, they are empty.
    """
    steps = steps_by_seed(seeds) if seeds and seeds[0].config.data.generated else ""
    return {"seeds": str(len(seeds) or ""), **summary("BLEU", scores(seeds)), "steps to 95 BLEU": steps}


def _parts(run: SweepRun) -> str:
    """Names what a run's memory has beyond Eqs. 4 to 7, such as "windows, softmax over time, additive reading"."""
    attention = styles.attention(run.config)
    parts = {
        "windows": _is_windowed(run) or attention.get("position_windows"),
        "softmax over time": _is_windowed(run) or attention["encoder_scoring"] == "softmax_time",
        "additive reading": attention.get("read") == "additive",
        f"position encodings, {attention.get('renormalize')}": attention.get("position_encoding"),
    }
    return ", ".join(part for part, is_there in parts.items() if is_there) or "as in the paper"


def _is_windowed(run: SweepRun) -> bool:
    return styles.attention(run.config)["name"] == "windowed_memory"
