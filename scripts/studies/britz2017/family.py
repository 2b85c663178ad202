"""Every mechanism on the same tasks, and what RNNsearch makes of long sentences."""

import statistics

from memattn import files
from memattn.evaluation import formatting
from memattn.sweeps.runner import Run
from studies.britz2017.figures import Output, model_name
from studies.britz2017.future_work import task_name
from studies.britz2017.open_questions import LEARNT, by_length


def family(
    output: Output, tasks: list[Run], rnnsearch: list[Run], translation: list[Run], rnnsearch_translation: list[Run]
) -> None:
    """BLEU of each mechanism in each task; then exact matches, updates to 95 BLEU, and decode times."""
    longest = max(map(_longest, rnnsearch_translation))
    whole = [run for run in rnnsearch_translation if _longest(run) == longest and model_name(run) == "bahdanau"]
    groups = {}
    for run in [*tasks, *rnnsearch, *translation, *whole]:
        groups.setdefault(_mechanism(run), {}).setdefault(_task(run), []).append(run)
    columns = list(dict.fromkeys(task for own in groups.values() for task in own))

    def rows(cell) -> list[dict]:
        return [
            {"mechanism": mechanism, **{task: cell(own[task]) if task in own else "" for task in columns}}
            for mechanism, own in groups.items()
        ]

    output.table(rows(lambda own: f"{_mean(own, 'bleu'):.2f}"), "BLEU of each mechanism in each task")
    for name, cell in {
        "exact": lambda own: f"{_mean(own, 'exact_match'):.1f}",
        "updates": _updates,
        "seconds": lambda own: f"{_mean(own, 'decode_seconds'):.3g}",
        "seeds": _spread,
    }.items():
        files.write_csv(output.path(f"{name}.csv"), rows(cell))


def rnnsearch_by_length(output: Output, runs: list[Run]) -> None:
    """BLEU by source length of models that were trained on sentences up to a length."""
    columns = {f"{model_name(run)}, trained to {_longest(run)}": by_length([run]) for run in runs}
    rows = [
        {"source tokens": lengths, "sentences": sentences}
        | {name: f"{own[lengths, sentences]:.2f}" for name, own in columns.items()}
        for lengths, sentences in next(iter(columns.values()))
    ]
    output.table(rows, "RNNsearch: BLEU by the length of the source")


def _mechanism(run: Run) -> str:
    name = model_name(run)
    if run.config.model.attention["name"] == "memory":
        return f"memory, {name}"
    return "RNNsearch" if (run.config.model.decoder, name) == ("rnnsearch", "bahdanau") else name


def _task(run: Run) -> str:
    return task_name(run) if run.config.data.generated else "Multi30k"


def _longest(run: Run) -> int:
    return run.config.data.max_source_length


def _mean(runs: list[Run], key: str) -> float:
    return statistics.mean(run.result[key] for run in runs)


def _spread(runs: list[Run]) -> str:
    """BLEU of the seeds, where there are several."""
    return formatting.extent([run.result["bleu"] for run in runs], ".2f") if len(runs) > 1 else ""


def _updates(runs: list[Run]) -> str:
    """Median updates of the seeds until they are learnt; empty where one is not."""
    steps = [run.updates_to(LEARNT) for run in runs]
    return f"{statistics.median(steps):.0f}" if all(steps) else ""
