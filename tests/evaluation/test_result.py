"""The result of an evaluation: as an object, as result.json, and as the pages and tables that show it."""

import json

import pytest
from helpers.repository import ROOT
from helpers.runs import made_up_result, tiny

from memattn import config as configs
from memattn.eval import summary
from memattn.evaluation.model_card import model_card
from memattn.runs.result import Result, conditions
from memattn.sweeps import tables
from memattn.sweeps.runs import SweepRun


@pytest.fixture
def result():
    scores = {"bleu": 50.25, "exact_match": 25.0, "chrf": 61.5, "perplexity": 1.5}
    return made_up_result(tiny({}), scores=scores, signatures={"bleu": "tok:none", "chrf": "nc:6"}, commit=None)


def test_a_result_survives_json(result):
    stored = json.loads(json.dumps(result.to_json()))
    assert Result.from_json(stored) == result
    assert (stored["bleu"], stored["bleu_signature"], stored["exact_match"]) == (50.25, "tok:none", 25.0)
    assert "exact_match_signature" not in stored
    assert conditions().keys() <= stored.keys()


def test_stored_results_of_every_version_can_be_read():
    studies = [json.loads(path.read_text("utf-8")) for path in (ROOT / "results").rglob("runs.json")]
    results = [
        {**run["result"], "config": run["config"]} for runs in studies for run in runs.values() if "result" in run
    ]
    assert len(results) > 20
    for stored in results:
        content = Result.from_json(stored).to_json()
        assert {key: value for key, value in content.items() if key in stored} == stored


def test_summary_card_and_table_show_the_scores_and_leave_missing_ones_out(result, tmp_path):
    printed, card = summary(result), model_card(result)
    assert "BLEU                50.25  tok:none\n" in printed
    assert "exact match         25.0%\n" in printed
    assert "sacreBLEU" not in printed
    assert "- **chrF (nc:6)**: 61.50\n" in card
    assert "- **perplexity**: 1.5\n" in card
    config = configs.from_dict(result.config)
    run = SweepRun("run", "runs/run", config, result, [{"step": "4", "seconds": "7"}])
    row = tables.row(run)
    cells = [row[column] for column in ("BLEU", "sacreBLEU", "chrF", "exact match %", "perplexity")]
    assert cells == ["50.25", "", "", "25.0", "1.5"]  # the output of a task is no text
    text_config = configs.from_dict({**result.config, "data": {"folder": str(tmp_path)}})
    assert tables.row(run._replace(config=text_config))["chrF"] == "61.50"
