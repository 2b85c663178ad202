"""The tables that compare all mechanisms on the same tasks, from made-up runs."""

import csv

import pytest
from helpers.studies import made_up, rows_of
from studies import family
from studies.output import Output
from studies.runs import model_name

pytestmark = pytest.mark.slow

KINDS = ("family", "rnnsearch", "family_translation", "rnnsearch_translation")
TASKS = {"copy, L = 20", "copy, L = 40", "reverse, L = 20", "lookup, L = 8", "selective_copy, L = 40, 4 marked"}


def bleu(config):
    """Returns 97, 98 and 99 for seeds 1 to 3, and 50 without attention."""
    return 50.0 if config.model.attention["name"] == "none" else 96.0 + config.training.seed


def by_mechanism(path):
    """Reads the rows of a table, by mechanism."""
    with open(path, encoding="utf-8") as file:
        return {row["mechanism"]: row for row in csv.DictReader(file)}


def test_the_table_of_the_family_has_a_row_for_each_mechanism(tmp_path):
    output = Output(str(tmp_path), "small")
    family.family(output, *(made_up(kind, bleu=bleu) for kind in KINDS))
    rows = rows_of(output)
    assert len(rows) == 13
    assert set(rows[0]) == {"mechanism", "Multi30k", *TASKS}
    by_name = {row["mechanism"]: row for row in rows}
    assert by_name["none"]["copy, L = 20"] == "50.00"
    assert by_name["RNNsearch"]["copy, L = 20"] == "98.00"  # mean of three seeds
    assert by_name["RNNsearch"]["Multi30k"] == "97.00"  # a single seed, trained on sentences of any length
    assert by_name["matcha"]["Multi30k"] == "98.00"
    assert all(all(row.values()) for row in rows)
    steps = by_mechanism(output.path("steps.csv"))
    assert (steps["mocha"]["lookup, L = 8"], steps["none"]["lookup, L = 8"]) == ("20", "")
    seeds = by_mechanism(output.path("seeds.csv"))
    assert (seeds["linear"]["copy, L = 20"], seeds["linear"]["copy, L = 40"]) == ("97.00-99.00", "")


def test_the_table_of_rnnsearch_has_a_row_for_each_range_of_lengths(tmp_path, monkeypatch):
    output, runs = Output(str(tmp_path), "small"), made_up("rnnsearch_translation", bleu=bleu)

    def bleu_by_length(runs):
        return {("1-9", 4): 30.0 if model_name(runs[0]) == "bahdanau" else 10.0, ("10-40", 6): 5.0}

    monkeypatch.setattr(family, "bleu_by_length", bleu_by_length)
    family.rnnsearch_by_length(output, runs)
    rows = rows_of(output)
    assert [row["source tokens"] for row in rows] == ["1-9", "10-40"]
    names = {f"{name}, trained to {length}" for name in ("none", "bahdanau") for length in (12, 24, 50)}
    assert set(rows[0]) == {"source tokens", "sentences", *names}
    assert (rows[0]["bahdanau, trained to 12"], rows[0]["none, trained to 50"]) == ("30.00", "10.00")
