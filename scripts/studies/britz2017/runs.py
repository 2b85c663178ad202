"""Names and groups finished runs as the paper's tables do."""

import os
import statistics

from memattn.config import CopyConfig
from memattn.sweeps.results import Run
from studies.britz2017 import printed

LEARNT = 95  # validation BLEU from which a copy task counts as learnt
ON_PAR = 0.5  # a model is on a par with attention if it is at most so many BLEU lower


def model_name(run: Run) -> str:
    return printed.model(run.config.model.attention)


def scorings_name(run: Run) -> str:
    return printed.scorings(run.config.model.attention)


def is_memory(run: Run) -> bool:
    return printed.is_memory(run.config.model.attention)


def num_slots(run: Run) -> int:
    return run.config.model.attention["num_slots"]


def has_encodings(run: Run) -> bool:
    """Returns whether a run's memory has position encodings."""
    return run.config.model.attention.get("position_encoding", False)


def text_name(run: Run) -> str:
    """Returns the name of the prepared text, such as wmt17.en-de."""
    return os.path.basename(run.config.data.folder)


def task_name(run: Run) -> str:
    """Returns the name of the task, with its length."""
    task: CopyConfig = run.config.data.generated
    marked = f", {task.marked} marked" if task.name == "selective_copy" else ""
    return f"{task.name}, L = {task.max_length}{marked}"


def valid_bleu(run: Run) -> float:
    """Returns the best validation BLEU during training."""
    return max(bleu for _, bleu in run.curve)


def best_scorings(runs: list[Run]) -> dict[tuple[str, str], list[Run]]:
    """Returns (text, model) -> the runs, one per seed, with the scorings that have the best mean validation BLEU."""
    groups = {}
    for run in runs:
        scorings = scorings_name(run) if is_memory(run) else ""
        groups.setdefault((text_name(run), model_name(run)), {}).setdefault(scorings, []).append(run)
    return {
        key: max(by_scorings.values(), key=lambda seeds: statistics.mean(map(valid_bleu, seeds)))
        for key, by_scorings in groups.items()
    }
