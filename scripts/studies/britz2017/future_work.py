"""Writes results on the paper's future work: the slots that a task needs, distillation of contexts, long sources."""

import os
import statistics
from functools import partial
from typing import cast

import numpy as np
import tensorflow as tf

from memattn.config import Config, TrainingConfig
from memattn.data import corpus
from memattn.data.tasks import MARK
from memattn.data.vocabulary import PAD, Vocabulary
from memattn.evaluation import evaluate as evaluation
from memattn.evaluation import styles
from memattn.evaluation.evaluate import TestSet, read_split
from memattn.models.seq2seq import Seq2Seq
from memattn.runs.trained import load
from memattn.sweeps.runs import SweepRun
from studies import plots
from studies.lengths import task_of_length
from studies.mechanisms import NESTED_MEMORY
from studies.mechanisms.nested_memory import NestedMemoryAttention
from studies.output import Output
from studies.runs import (
    ON_PAR,
    count,
    groups,
    learning_steps,
    model_name,
    num_slots,
    rows_by,
    task_length,
    task_name,
    test_bleu,
)

_TOLERANCES = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)  # upper bounds on residual fractions, among which one is chosen
_MOST_DIRECTIONS = 64
LONG_LENGTHS = (200, 1_000, 3_000, 10_000)  # symbols of a long source
_LONG_SOURCES = 50  # sources of each of these lengths


def slots(output: Output, runs: list[SweepRun]) -> None:
    """Compares the slots that a task needs with the slots that the contexts of trained attention predict."""
    residuals: dict[str, np.ndarray] = {}  # `residual_variances` by task
    needed: dict[str, int | None] = {}  # the fewest slots on a par with attention, by task
    for task, runs_of_task in groups(runs, task_name).items():
        attention = _bahdanau(runs_of_task)
        if attention is None:  # its run failed
            continue
        residuals[task] = residuals_of(attention)
        least = attention.result.scores["bleu"] - ON_PAR
        enough = [
            num_slots(run) for run in runs_of_task if _is_plain_memory(run) and run.result.scores["bleu"] >= least
        ]
        needed[task] = min(enough, default=None)
    rows = []
    for task, variances in residuals.items():
        fewest = needed[task]
        # The tolerance is chosen on the other tasks.
        known = {name: slots for name, slots in needed.items() if name != task and slots}
        errors = {
            tolerance: sum(np.log(_factor(residuals[name], slots, tolerance)) for name, slots in known.items())
            for tolerance in _TOLERANCES
        }
        tolerance = min(errors, key=errors.__getitem__)
        rows.append(
            {
                "task": task,
                "fewest slots": fewest or "none of them",
                "predicted": slots_for(variances, tolerance),
                "residual variance (tolerance)": tolerance,
                "error, factor": f"{_factor(variances, fewest, tolerance):.1f}" if fewest else "",
            }
        )
    output.table(rows, "Slots that a task needs, and slots that the contexts of Bahdanau attention predict")
    title = f"Directions of contexts{output.label}"
    output.pictures("residuals", lambda path: plots.residuals(path, residuals, needed, title))


def _bahdanau(runs: list[SweepRun]) -> SweepRun | None:
    """Returns the first run with Bahdanau attention; None if there is none."""
    return next((run for run in runs if model_name(run) == "bahdanau"), None)


def nested_slots(output: Output, runs: list[SweepRun]) -> None:
    """Compares one nested model cut to K slots with models trained with K slots."""
    rows = []
    for task, runs_of_task in groups(runs, task_name).items():
        trained_with = {num_slots(run): run for run in runs_of_task if _is_plain_memory(run)}
        nested = next((run for run in runs_of_task if styles.attention(run.config)["name"] == NESTED_MEMORY), None)
        attention = _bahdanau(runs_of_task)
        if nested is None:  # its run failed
            continue
        for slots, run in trained_with.items():
            cut = load([nested.folder])
            cast(NestedMemoryAttention, cast(Seq2Seq, cut.model).attention).keep(slots)
            result = evaluation.evaluate(cut, read_split(cut, "valid"), repeats=1).result
            rows.append(
                {
                    "task": task,
                    "K": slots,
                    "trained with K": f"{run.result.scores['bleu']:.2f}",
                    "nested, cut to K": f"{result.scores['bleu']:.2f}",
                    "attention": f"{attention.result.scores['bleu']:.2f}" if attention else "",
                }
            )
    output.table(rows, "BLEU by K: a model for each, and one with nested slots cut to each")


def teacher(output: Output, teachers: list[SweepRun], taught: list[SweepRun]) -> None:
    """Writes training steps to 95 BLEU of memory attention: alone, with a teacher's encoder, with contexts as well."""
    keys = {"L": task_length, "taken from the teacher": _from_teacher}
    columns = count, learning_steps, partial(_steps_of_teacher, teachers), partial(_last_bleu, "last BLEU, mean")
    title = "Training steps of memory attention (K = 32) until it copies with 95 validation BLEU"
    output.table(rows_by(taught, keys, *columns), title)


def _last_bleu(column: str, runs: list[SweepRun]) -> dict[str, str]:
    return {column: f"{statistics.mean(run.curve()[-1][1] for run in runs):.2f}"}


def is_compared_with_students(config: Config) -> bool:
    """Returns whether a run of translation/small.yaml is compared with runs that have a teacher."""
    attention = styles.attention(config)
    if attention["name"] != "memory":
        return attention["name"] == "bahdanau"
    scorings = attention["encoder_scoring"], attention["decoder_scoring"]
    return scorings == ("softmax", "sigmoid") and attention["num_slots"] == 32 and not attention["position_encoding"]


def teacher_translation(output: Output, alone: list[SweepRun], taught: list[SweepRun]) -> None:
    """Writes test BLEU of memory attention without and with distillation, and of Bahdanau attention."""
    keys = {
        "model": model_name,
        "taken from the teacher": _from_teacher,
        "training steps": lambda run: run.config.training.max_steps,
    }
    columns = count, partial(_steps_of_teacher, alone), partial(_last_bleu, "last valid BLEU (greedy)"), test_bleu
    rows = rows_by([*alone, *taught], keys, *columns)
    output.table(rows, "Multi30k: memory attention alone and with a teacher")


def is_first_teacher(config: Config) -> bool:
    """Returns whether a run of translation/small.yaml is the teacher of taught_nine_epochs/small.yaml."""
    return styles.attention(config)["name"] == "bahdanau" and config.training.seed == TrainingConfig().seed


def long_sources(output: Output, runs: list[SweepRun]) -> None:
    """Writes quality and decode time of sources longer than in training, and where attention looks."""
    rows = []
    for run in runs:
        trained = load([run.folder])
        model = cast(Seq2Seq, trained.model)
        for length in LONG_LENGTHS:
            test_set = task_of_length(trained, length, _LONG_SOURCES)
            weight = weight_on_marks(model, trained.vocabulary, test_set) if model.has_alignments else None
            result = evaluation.evaluate(trained, test_set, repeats=3).result
            rows.append(
                {
                    "L": length,
                    "model": model_name(run),
                    "BLEU": f"{result.scores['bleu']:.2f}",
                    "exact match %": f"{result.scores['exact_match']:.1f}",
                    "weight on the right symbol %": "" if weight is None else f"{100 * weight:.1f}",
                    "decode s": f"{result.decode_seconds:.3g}",
                    "decode s min-max": result.time_range,
                    "a step reads, KiB": f"{_bytes_read(model, test_set.source[0]) / 1024:,.1f}",
                }
            )
    longest = task_length(runs[0])
    output.table(rows, f"{task_name(runs[0])}, trained on sources of at most {longest} symbols, decoded at L symbols")


def weight_on_marks(model: Seq2Seq, vocabulary: Vocabulary, test_set: TestSet) -> float:
    """Returns the fraction of a decoder step's attention weights that is near the marked symbol to copy.

    The mean over all marked symbols of a test set, under teacher forcing. "Near" is at most one position away: an
    encoder state knows its neighbours.
    """
    fractions = []
    for index in range(len(test_set.source)):
        source, target = test_set.source[index], test_set.target[index]
        marks = [position for position, token in enumerate(source) if vocabulary.tokens[token].startswith(MARK)]
        weights = model.alignments(tf.constant([source]), tf.constant([target]))
        for mark, row in zip(marks, weights[0].numpy(), strict=False):  # the last row predicts the end
            fractions.append(row[max(0, mark - 1) : mark + 2].sum() / row.sum())
    return statistics.mean(map(float, fractions))


def _bytes_read(model: Seq2Seq, source: np.ndarray) -> int:
    """Counts the bytes of a source's memory that a decoder step reads: all but alpha, which is for pictures."""
    memory = model.encode(tf.constant([source], tf.int32)).memory
    return sum(tensor.numpy().nbytes for name, tensor in memory.items() if name != "alpha")


def _from_teacher(run: SweepRun) -> str:
    """Names the parts that a student has from its teacher; "" without a teacher."""
    training = run.config.training
    if not training.teacher:
        return ""
    return "encoder and contexts" if training.teacher_weight else "encoder"


def _steps_of_teacher(teachers: list[SweepRun], students: list[SweepRun]) -> dict[str, str]:
    """Returns the number of training steps of the students' teacher; "" without one, or if its run failed."""
    folder = students[0].config.training.teacher
    steps = {os.path.realpath(run.folder): run.validations[-1]["step"] for run in teachers}
    return {"training steps of the teacher": steps.get(os.path.realpath(folder), "") if folder else ""}


def _is_plain_memory(run: SweepRun) -> bool:
    """Returns whether a run has memory attention as in the paper."""
    return styles.attention(run.config)["name"] == "memory"


def residuals_of(run: SweepRun) -> np.ndarray:
    """Returns `residual_variances` of a run on its validation set."""
    trained = load([run.folder])
    pairs = corpus.read_corpus(run.config.data.path, "valid", trained.vocabulary)
    indices = np.arange(len(pairs))
    source, target = (part.padded(indices, len(pairs), part.lengths().max()) for part in (pairs.source, pairs.target))
    return residual_variances(cast(Seq2Seq, trained.model), source, target, _MOST_DIRECTIONS)


def residual_variances(model: Seq2Seq, source: np.ndarray, target: np.ndarray, most: int) -> np.ndarray:
    """Returns the residual fraction of the contexts' squared length for k = 0 to `most` principal directions.

    With K slots, each context is a combination of K vectors. So the residual of a source's contexts c_1 to c_T, after
    projection on their first K principal directions, is a lower bound on the error of any memory with K slots.

    Contexts are computed from source ids [B, S] and target ids [B, T] under teacher forcing. Each source has its
    principal directions; the fractions [most + 1] are of all sources together.
    """
    encoded = model.encode(tf.constant(source))
    _, contexts = model.teacher_forced_logits_and_contexts(encoded, tf.constant(target))
    sums, total = np.zeros(most + 1), 0.0
    for contexts_of_source, ids in zip(contexts.numpy(), target, strict=True):
        steps = contexts_of_source[ids != PAD].astype(np.float64)
        squares = np.linalg.svd(steps, compute_uv=False) ** 2
        residual = squares.sum() - np.concatenate([[0.0], np.cumsum(squares)])
        sums += np.pad(residual, (0, most + 1))[: most + 1]
        total += squares.sum()
    return np.maximum(sums, 0.0) / total


def slots_for(fractions: np.ndarray, tolerance: float) -> int | None:
    """Returns the fewest slots whose residual fraction is at most `tolerance`; None if no fraction is."""
    enough = np.flatnonzero(fractions <= tolerance)
    return int(enough[0]) if len(enough) else None


def _factor(variances: np.ndarray, needed: int, tolerance: float) -> float:
    """Returns the ratio, at least 1, between the predicted and the needed number of slots."""
    predicted = max(1, slots_for(variances, tolerance) or len(variances))
    return max(predicted / needed, needed / predicted)
