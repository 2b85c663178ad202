"""The README's table: a few committed results beside the paper's figures."""

import csv
import json
import os
from typing import Any

from studies.britz2017 import printed as paper_tables

MODELS = {"none": "no attention", "K=32": "memory, K = 32", "bahdanau": "Bahdanau"}
_SYSTEMS = {"none": "memattn: no attention", "K=32": "memattn: memory, K = 32", "bahdanau": "memattn: Bahdanau"}
# Runs of configs/multi30k/seeds.yaml
_AS_PRINTED = "memory-num_slots=32-encoder_scoring=softmax-decoder_scoring=sigmoid"
_BEYOND = "memory-num_slots=32-encoder_scoring=softmax_time-position_windows=True-read=additive-read_units=128"
_CPU_RUNS = {
    "none": "none-max_length=20",
    "K=32": "memory-num_slots=32-max_length=20",
    "bahdanau": "bahdanau-max_length=20",
}


def rows(results: str) -> list[dict[str, str]]:
    """One row for each claim, from the files in the folder `results`."""
    place = {model: paper_tables.TABLE_1_MODELS.index(model) for model in MODELS}
    en_de = paper_tables.TABLE_2_PAIRS.index("en-de")
    printed = {
        length: {model: paper_tables.TABLE_1_BLEU[length][place[model]] for model in MODELS} for length in (20, 200)
    }
    seconds = {
        length: {model: paper_tables.TABLE_1_SECONDS[length][place[model]] for model in MODELS} for length in (50, 200)
    }

    def path(*names: str) -> str:
        return os.path.join(results, *names)

    cpu = {model: _json(path("table1", "cpu", "runs", run, "result.json"))["bleu"] for model, run in _CPU_RUNS.items()}
    small = {row["model"]: float(row["BLEU"]) for row in _csv(path("table1", "small", "table.csv")) if row["L"] == "40"}
    seeds = {row["run"]: float(row["BLEU mean"]) for row in _csv(path("multi30k", "small", "seeds.csv"))}
    decoded = {
        length: {
            row["system"]: float(row["seconds"]) for row in _csv(path("speed", "decode.csv")) if row["L"] == length
        }
        for length in ("50", "200")
    }

    table = [
        _row("BLEU, copy, L = 20, our learning rate", cpu, printed[20]),
        _row("BLEU, copy, L = 40 (paper: 200), scaled down", small, printed[200]),
        _row(
            "BLEU, Multi30k en-de (paper: WMT'17), scaled down",
            {"K=32": seeds[_AS_PRINTED], "bahdanau": seeds["bahdanau"]},
            {model: paper_tables.TABLE_2_TEST[model][en_de] for model in ("K=32", "bahdanau")},
        ),
        _row(
            "the same, memory attention beyond the paper", {"K=32": seeds[_BEYOND], "bahdanau": seeds["bahdanau"]}, {}
        ),
    ]
    for length in (50, 200):
        ours = {model: decoded[str(length)][system] for model, system in _SYSTEMS.items()}
        table.append(_row(f"decoding speed, L = {length}", _speeds(ours), _speeds(seconds[length])))
    return table


def _row(what: str, ours: dict[str, float], paper: dict[str, float]) -> dict[str, str]:
    columns = {"": what}
    for prefix, figures in (("", ours), ("paper: ", paper)):
        columns |= {
            prefix + name: f"{figures[model]:.2f}" if model in figures else "" for model, name in MODELS.items()
        }
    return columns


def _speeds(seconds: dict[str, float]) -> dict[str, float]:
    """Of each model, with Bahdanau attention's as 1."""
    return {model: seconds["bahdanau"] / taken for model, taken in seconds.items()}


def _csv(path: str) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _json(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        return json.load(file)
