"""What the paper leaves for others to do: how many slots a task needs, a teacher's contexts, long sources."""

import dataclasses
import math
import os
import statistics
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from memattn.config import Config, CopyConfig, TrainingConfig
from memattn.data import corpus
from memattn.data.tasks import TASKS
from memattn.evaluation import evaluate as evaluation
from memattn.evaluation import formatting
from memattn.models.seq2seq import Seq2Seq
from memattn.runs.trained import Trained, load
from memattn.sweeps.runner import Run
from studies import plots
from studies.britz2017 import directions
from studies.britz2017.figures import Output, is_memory, model_name, slots_of
from studies.britz2017.open_questions import LEARNT, ON_PAR

_TOLERANCES = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)  # shares of the contexts that may be missed
_LONG, _LONG_SOURCES = (200, 1_000, 3_000, 10_000), 50  # symbols of a source, and sources of each length


def slots(output: Output, runs: list[Run]) -> None:
    """The slots that a task needs, and those that a trained attention's contexts predict."""
    left, needed = {}, {}
    for task, own in _by_task(runs).items():
        attention = next((run for run in own if model_name(run) == "bahdanau"), None)
        if attention is None:  # it failed
            continue
        left[task] = _left(attention)
        enough = [slots_of(run) for run in own if _is_plain(run) and _behind(run, attention) <= ON_PAR]
        needed[task] = min(enough, default=None)
    rows = []
    for task, share in left.items():
        others = {other: slots for other, slots in needed.items() if other != task and slots}
        tolerance = min(_TOLERANCES, key=lambda one: _error(left, others, one))
        rows.append(
            {
                "task": task,
                "fewest slots": needed[task] or "none of them",
                "predicted": directions.slots_for(share, tolerance),
                "share left out (tolerance)": tolerance,
                "error, factor": f"{_factor(share, needed[task], tolerance):.1f}" if needed[task] else "",
            }
        )
    output.table(rows, "Slots that a task needs, and slots that the contexts of Bahdanau attention predict")
    output.pictures(
        "residuals", lambda path: plots.residuals(path, left, needed, f"Directions of contexts{output.label}")
    )


def nested_slots(output: Output, runs: list[Run]) -> None:
    """One nested model cut to K slots beside models trained with K slots."""
    rows = []
    for task, own in _by_task(runs).items():
        trained_for = {slots_of(run): run for run in own if _is_plain(run)}
        nested = next((run for run in own if run.config.model.attention.get("nested")), None)
        if nested is None:  # it failed
            continue
        for slots, run in trained_for.items():
            cut = load([nested.folder], [f"decoding.num_slots={slots}"], None)
            result = evaluation.evaluate(cut, evaluation.read_split(cut, "valid"), repeats=1).result
            rows.append(
                {
                    "task": task,
                    "K": slots,
                    "trained with K": f"{run.result['bleu']:.2f}",
                    "nested, cut to K": f"{result['bleu']:.2f}",
                    "attention": next((f"{one.result['bleu']:.2f}" for one in own if not is_memory(one)), ""),
                }
            )
    output.table(rows, "BLEU by K: a model for each, and one with nested slots cut to each")


def teacher(output: Output, teachers: list[Run], taught: list[Run]) -> None:
    """Updates to 95 BLEU of memory attention alone, with a teacher's encoder, and with its contexts too."""
    spent = {os.path.realpath(run.folder): run.validations[-1]["step"] for run in teachers}
    groups = {}
    for run in taught:
        groups.setdefault((run.config.data.copy.max_length, _help(run)), []).append(run)
    rows = []
    for (length, help_), own in groups.items():
        steps = [run.updates_to(LEARNT) for run in own]
        reached = [step for step in steps if step]
        median = statistics.median(step or math.inf for step in steps)
        taught_by = own[0].config.training.teacher
        rows.append(
            {
                "L": length,
                "of the teacher": help_,
                "seeds": len(own),
                "with 95 BLEU": len(reached),
                "updates, median": f"{median:.0f}" if median < math.inf else "",
                "min-max": formatting.extent(reached, ".0f") if reached else "",
                "updates of the teacher": spent.get(os.path.realpath(taught_by), "") if taught_by else "",
                "last BLEU, mean": f"{statistics.mean(run.curve[-1][1] for run in own):.2f}",
            }
        )
    output.table(rows, "Updates of memory attention (K = 32) until it copies with 95 validation BLEU")


def translated(config: Config) -> bool:
    """Whether a run of translation/small.yaml stands beside those with a teacher."""
    attention = config.model.attention
    scorings = attention.get("encoder_scoring"), attention.get("decoder_scoring")
    return attention["name"] == "bahdanau" or (
        scorings == ("softmax", "sigmoid") and attention["num_slots"] == 32 and not attention["position_encoding"]
    )


def teacher_translation(output: Output, alone: list[Run], taught: list[Run]) -> None:
    """Test BLEU of memory attention alone and with a teacher, and of the teacher's kind."""
    groups = {}
    for run in [*alone, *taught]:
        groups.setdefault((model_name(run), _help(run), run.config.training.max_steps), []).append(run)
    rows = []
    for (model, help_, updates), own in groups.items():
        bleu = [run.result["bleu"] for run in own]
        rows.append(
            {
                "model": model,
                "of the teacher": help_,
                "seeds": len(own),
                "updates": updates,
                "updates of the teacher": alone[0].validations[-1]["step"] if help_ else "",
                "valid BLEU (greedy)": f"{statistics.mean(run.curve[-1][1] for run in own):.2f}",
                "test BLEU": f"{statistics.mean(bleu):.2f}",
                "min-max": formatting.extent(bleu, ".2f"),
            }
        )
    output.table(rows, "Multi30k: memory attention alone and with a teacher")


def is_first_teacher(config: Config) -> bool:
    """Whether a run of translation/small.yaml is the teacher of taught_nine_epochs/small.yaml."""
    return config.model.attention["name"] == "bahdanau" and config.training.seed == TrainingConfig().seed


def teacher_nine_epochs(output: Output, teachers: list[Run], taught: list[Run]) -> None:
    """Test BLEU of memory attention with a teacher after nine epochs."""
    del teachers
    output.runs(taught, "Multi30k: memory attention with a teacher, nine epochs")


def long_sources(output: Output, runs: list[Run]) -> None:
    """Quality and decode time of sources longer than those of the training."""
    rows = []
    for run in runs:
        trained = load([run.folder], [], None)
        for length in _LONG:
            test_set = of_length(trained, length, _LONG_SOURCES)
            found = evaluation.evaluate(trained, test_set, repeats=3).result
            rows.append(
                {
                    "L": length,
                    "model": model_name(run),
                    "BLEU": f"{found['bleu']:.2f}",
                    "exact match %": f"{found['exact_match']:.1f}",
                    "decode s": f"{found['decode_seconds']:.3g}",
                    "decode s min-max": formatting.spread(found),
                    "a step reads, KiB": f"{_bytes_read(trained.models[0], test_set.source[0]) / 1024:,.1f}",
                }
            )
    longest = runs[0].config.data.task.max_length
    output.table(rows, f"{task_name(runs[0])}, trained on sources of at most {longest} symbols, decoded at L symbols")


def of_length(trained: Trained, length: int, number: int) -> evaluation.TestSet:
    """`number` pairs of the run's task, each made of `length` symbols."""
    task = dataclasses.replace(trained.config.data.task, max_length=length, uneven=False)
    random = np.random.RandomState(length)  # noqa: NPY002
    pairs = TASKS[task.name].pairs(task, random, np.full(number, length))
    sources, targets = zip(*pairs, strict=True)
    references = [" ".join(target) for target in targets]
    ids = [corpus.from_ids([trained.vocabulary.encode(one) for one in side]) for side in (sources, targets)]
    return evaluation.TestSet(f"L = {length}", *ids, references, references)


def _bytes_read(model: Seq2Seq, source: np.ndarray) -> int:
    """Of the memory of one source [S] that decoder steps read; alpha is for pictures."""
    memory = model.encode(tf.constant([source], tf.int32)).memory
    return sum(tensor.numpy().nbytes for name, tensor in memory.items() if name != "alpha")


def _help(run: Run) -> str:
    """What a student has of its teacher."""
    training = run.config.training
    if not training.teacher:
        return ""
    return "encoder and contexts" if training.teacher_weight else "encoder"


def _by_task(runs: list[Run]) -> dict[str, list[Run]]:
    groups = {}
    for run in runs:
        groups.setdefault(task_name(run), []).append(run)
    return groups


def task_name(run: Run) -> str:
    """The name of its task, with its length."""
    task: CopyConfig = run.config.data.generated
    marked = f", {task.marked} marked" if task.name == "selective_copy" else ""
    return f"{task.name}, L = {task.max_length}{marked}"


def _is_plain(run: Run) -> bool:
    return is_memory(run) and not run.config.model.attention["nested"]


def _behind(run: Run, attention: Run) -> float:
    return attention.result["bleu"] - run.result["bleu"]


def _left(run: Run) -> np.ndarray:
    """What `directions.residuals` finds in the validation split."""
    trained = load([run.folder], [], None)
    pairs = corpus.read_corpus(run.config.data.path, "valid", trained.vocabulary)
    ids = [
        side.padded(np.arange(len(pairs)), len(pairs), side.lengths().max()) for side in (pairs.source, pairs.target)
    ]
    return directions.residuals(trained.model, *ids, 64)


def _factor(left: np.ndarray, needed: int, tolerance: float) -> float:
    """By how much the predicted number of slots is too great or too small, as a factor of at least 1."""
    predicted = max(1, directions.slots_for(left, tolerance) or len(left))
    return max(predicted / needed, needed / predicted)


def _error(left: Mapping[str, np.ndarray], needed: Mapping[str, int], tolerance: float) -> float:
    return sum(np.log(_factor(left[task], slots, tolerance)) for task, slots in needed.items())
