"""Makes the README's table: a few committed results beside the paper's."""

import os

from memattn import reading
from studies.britz2017 import printed

# Model in the paper's tables -> name in the README.
MODELS = {"none": "no attention", "K=32": "memory, K = 32", "bahdanau": "Bahdanau"}
# The same models -> runs in results/table1/cpu, and systems in results/speed/decode.csv.
_CPU_RUNS = {
    "none": "none-max_length=20",
    "K=32": "memory-num_slots=32-max_length=20",
    "bahdanau": "bahdanau-max_length=20",
}
_SYSTEMS = {model: f"memattn: {name}" for model, name in MODELS.items()}
# Runs of configs/multi30k/seeds.yaml: memory attention as in the paper, and windowed memory attention, by its present
# name and by its name in version 0.2.0.
_AS_IN_PAPER = "memory-num_slots=32-encoder_scoring=softmax-decoder_scoring=sigmoid"
_WINDOWED = (
    "windowed_memory-num_slots=32-read=additive-read_units=128",
    "memory-num_slots=32-encoder_scoring=softmax_time-position_windows=True-read=additive-read_units=128",
)
_EN_DE = printed.TABLE_2_PAIRS.index("en-de")


def rows(results: str) -> list[dict[str, str]]:
    """Returns a row for each claim, from the files in the folder `results`."""

    def path(*names: str) -> str:
        return os.path.join(results, *names)

    cpu = {
        model: reading.json_file(path("table1", "cpu", "runs", run, "result.json"))["bleu"]
        for model, run in _CPU_RUNS.items()
    }
    small = {
        row["model"]: float(row["BLEU"])
        for row in reading.csv_file(path("table1", "small", "table.csv"))
        if row["L"] == "40"
    }
    seeds = {row["run"]: float(row["BLEU mean"]) for row in reading.csv_file(path("multi30k", "small", "seeds.csv"))}
    bahdanau = seeds["bahdanau"]
    windowed = next(seeds[run] for run in _WINDOWED if run in seeds)
    table = [
        _row("BLEU, copy, L = 20, our learning rate", cpu, _by_model(printed.TABLE_1_BLEU[20])),
        _row("BLEU, copy, L = 40 (paper: 200), scaled down", small, _by_model(printed.TABLE_1_BLEU[200])),
        _row(
            "BLEU, Multi30k en-de (paper: WMT'17), scaled down",
            {"K=32": seeds[_AS_IN_PAPER], "bahdanau": bahdanau},
            {model: printed.TABLE_2_TEST[model][_EN_DE] for model in ("K=32", "bahdanau")},
        ),
        _row("the same, memory attention beyond the paper", {"K=32": windowed, "bahdanau": bahdanau}, {}),
    ]
    decoded = reading.csv_file(path("speed", "decode.csv"))
    for length in (50, 200):
        seconds = {row["system"]: float(row["seconds"]) for row in decoded if row["L"] == str(length)}
        speeds = _speeds({model: seconds[system] for model, system in _SYSTEMS.items()})
        paper_speeds = _speeds(_by_model(printed.TABLE_1_SECONDS[length]))
        table.append(_row(f"decoding speed, L = {length}", speeds, paper_speeds))
    return table


def _by_model(values: tuple[float, ...]) -> dict[str, float]:
    """Returns the values of MODELS in a row of the paper's Table 1."""
    return {model: values[printed.TABLE_1_MODELS.index(model)] for model in MODELS}


def _row(claim: str, ours: dict[str, float], paper: dict[str, float]) -> dict[str, str]:
    row = {"": claim}
    for model, name in MODELS.items():
        row[name] = f"{ours[model]:.2f}" if model in ours else ""
    for model, name in MODELS.items():
        row[f"paper: {name}"] = f"{paper[model]:.2f}" if model in paper else ""
    return row


def _speeds(seconds: dict[str, float]) -> dict[str, float]:
    """Returns the speed of each model relative to Bahdanau attention."""
    return {model: seconds["bahdanau"] / model_seconds for model, model_seconds in seconds.items()}
