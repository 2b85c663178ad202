"""The table and the pictures of long texts, from made-up runs whose decode times are made up, too."""

import pytest
from helpers.studies import made_up, rows_of
from studies import long_texts
from studies.output import Output

pytestmark = pytest.mark.slow


def test_memories_stand_beside_attention_for_each_text_and_are_drawn_by_length_and_slots(tmp_path, monkeypatch):
    words = {"bible.en-es.1": 27, "bible.en-es.2": 58, "bible.en-es.4": 115, "bible.en-es.8": 231}

    def models(runs):
        text = long_texts.text_name(runs[0])
        return [
            long_texts._Model(text, words.get(text, 40), name, seeds, {32: [2.0 if "K" in name else 3.0], 1: [5.0]})
            for name, seeds in long_texts.groups(runs, long_texts.model_words).items()
        ]

    monkeypatch.setattr(long_texts, "_models", models)
    runs = made_up("long_texts", bleu=lambda config: 20.0 - ("num_slots" in config.model.attention))
    for run in runs:
        run.result.scores["chrf"] = 40.0
    output = Output(str(tmp_path), "small")
    long_texts.long_texts(output, runs)
    rows = rows_of(output)
    assert list(dict.fromkeys(row["text"] for row in rows)) == [
        "bible.en-es.1", "descriptions.en-it", "synopses.en", "bible.en-es.2", "bible.en-es.4", "bible.en-es.8"
    ]  # fmt: skip
    by_model = {row["model"]: row for row in rows if row["text"] == "bible.en-es.4"}
    bahdanau = {(row["seeds"], row["BLEU"]) for row in rows if row["model"] == "Bahdanau"}
    assert bahdanau == {("3", "20.00"), ("1", "20.00")}
    windowed = [by_model["windowed memory, K = 32"][key] for key in ("BLEU", "speed-up, batch 32", "speed-up, batch 1")]
    assert windowed == ["19.00", "1.50", "1.00"]
    assert {"no attention", "dot product", "stretch means, K = 32", "memory, K = 32"} <= by_model.keys()
    assert all((tmp_path / f"{name}.png").stat().st_size > 10_000 for name in ("length", "slots"))
