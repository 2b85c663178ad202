"""Writes tables and pictures on windowed memory attention, its parts, and the decoder's initial state."""

import os
import statistics
from typing import cast

from memattn.config import Seq2SeqConfig
from memattn.evaluation import formatting, styles
from memattn.sweeps.results import SweepRun
from studies import mechanisms, plots
from studies.output import Output
from studies.runs import (
    LEARNED,
    groups,
    is_memory,
    median_steps,
    model_words,
    num_slots,
    steps_by_seed,
    steps_to,
    task_length,
    task_name,
    text_name,
)

_MECHANISMS = ("none", "memory", "windowed_memory", "bahdanau")  # in the order of the rows
# What writes the slots of the mechanisms in configs/studies/baselines.
_WRITING = {
    "windowed_memory": "windows and learned weights",
    "stretch_means": "plain means of stretches",
    mechanisms.MEMORY_VARIANT: "learned weights, without windows",
    "latents": "learned queries (latents)",
}


def windowed_memory(output: Output, runs: list[SweepRun]) -> None:
    """Writes a table of BLEU and of training steps to 95 BLEU in the copy task, by length and model.

    Draws learning curves for each length, and the training steps to 95 BLEU against L / K, the symbols per slot.
    """
    rows, runs = [], continued(runs)
    steps: dict[str, list[tuple[float, int | None]]] = {}
    curves: dict[int, dict[str, list[SweepRun]]] = {}
    for (length, model), seeds in groups(sorted(runs, key=_place), task_length, model_words).items():
        load = length / num_slots(seeds[0]) if is_memory(seeds[0]) else None
        rows.append(
            {
                "L": length,
                "model": model,
                "symbols per slot": f"{load:.3g}" if load else "",
                **_quality(seeds),
                "training steps": ", ".join(str(run.curve()[-1][0]) for run in seeds),
                "precision": seeds[0].config.training.precision.removeprefix("mixed_"),
            }
        )
        curves.setdefault(length, {})[model] = seeds
        if load and _is_windowed(seeds[0]):
            steps.setdefault(f"L = {length}", []).extend((load, steps_to(run)) for run in seeds)
    output.table(rows, "Windowed memory attention on the copy task")
    for length, seeds_by_model in curves.items():
        output.learning_curves(f"learning_curves_{length}", seeds_by_model, f"Copy task, L = {length}")
    title = f"Windowed memory attention on the copy task{output.label}"
    output.pictures("steps_by_load", lambda path: plots.steps_by_load(path, steps, title))


def pace(output: Output, runs: list[SweepRun]) -> None:
    """Writes the training steps to 95 BLEU, in the copy task, by length and model."""
    rows = []
    for (length, model), seeds in groups(sorted(runs, key=_place), task_length, model_words).items():
        steps = {"steps to 95 BLEU, by seed": steps_by_seed(seeds), "median": median_steps(seeds)}
        rows.append({"L": length, "model": model, **steps})
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
    rows = []
    for name_of_task, runs in ((task_name, copy), (text_name, translation)):
        for (task, model), seeds in groups(runs, name_of_task, model_words).items():
            by_bridge = groups(seeds, _bridge)
            row = {"task": task, "model": model}
            for kind in ("zero", "dense"):
                quality = _quality(by_bridge.get(kind, []))
                row |= {f"{kind}: {column}": value for column, value in quality.items()}
            rows.append(row)
    output.table(rows, "The decoder's initial state: zeros, or a dense layer over the encoder's final states")


def windows(output: Output, runs: list[SweepRun]) -> None:
    """Writes BLEU and training steps of memories with parts of windowed memory, and with position encodings.

    Draws their learning curves.
    """
    rows, by_parts = [], groups(runs, _parts)
    for parts, seeds in by_parts.items():
        early = {f"BLEU after {step}": f"{_mean_bleu_after(step, seeds):.1f}" for step in (500, 1000)}
        rows.append({"model": parts, **early, **_quality(seeds)})
    output.table(rows, f"Parts of windowed memory attention: {task_name(runs[0])}, K = {num_slots(runs[0])}")
    title = f"Copy task, L = {task_length(runs[0])}, K = {num_slots(runs[0])}"
    output.learning_curves("learning_curves", by_parts, title)


def baselines(output: Output, runs: list[SweepRun]) -> None:
    """Writes BLEU and training steps of windowed memory and of mechanisms that lack a part of it, by task and K.

    Draws learning curves for each task and K, as means over the seeds.
    """
    rows = []
    for (task, slots), same in groups(runs, task_name, num_slots).items():
        by_model = groups(same, _writing)
        for model, seeds in by_model.items():
            early = {f"BLEU after {step}": f"{_mean_bleu_after(step, seeds):.1f}" for step in (500, 1000)}
            rows.append({"task": task, "K": slots, "what writes the slots": model, **early, **_quality(seeds)})
        name = f"learning_curves_{task.partition(',')[0]}_{slots}"
        output.learning_curves(name, by_model, f"{task}, K = {slots}")
    output.table(rows, "What writes the slots: windowed memory beside its baselines")


def _writing(run: SweepRun) -> str:
    """Names what writes the slots of a run's memory."""
    return _WRITING[styles.attention(run.config)["name"]]


def _mean_bleu_after(step: int, seeds: list[SweepRun]) -> float:
    """Returns the mean validation BLEU of runs at a training step, or at the last validation before it."""
    return statistics.mean([bleu for number, bleu in run.curve() if number <= step][-1] for run in seeds)


def _quality(seeds: list[SweepRun]) -> dict[str, str]:
    """Returns columns on runs that differ in seed: mean and range of BLEU, each run's training steps to 95 BLEU.

    Without runs, they are empty.
    """
    if not seeds:
        return dict.fromkeys(("seeds", "BLEU", "min-max", "steps to 95 BLEU"), "")
    bleu = [run.result.scores["bleu"] for run in seeds]
    return {
        "seeds": str(len(seeds)),
        "BLEU": f"{statistics.mean(bleu):.2f}",
        "min-max": formatting.extent(bleu, ".2f"),
        "steps to 95 BLEU": steps_by_seed(seeds) if seeds[0].config.data.generated else "",
    }


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


def _bridge(run: SweepRun) -> str:
    return cast(Seq2SeqConfig, run.config.model).bridge
