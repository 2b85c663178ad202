"""The result of an evaluation, and the files, pages and tables that show it."""

import dataclasses
import json
import os
import re
import shutil

import pytest
import yaml
from helpers.files import lines_of
from helpers.repository import ROOT
from helpers.runs import evaluate, made_up_result, tiny

from memattn import config as configs
from memattn.eval import summary
from memattn.evaluation.model_card import model_card
from memattn.runs.result import Result, conditions
from memattn.runs.run import ALIGNMENTS, HYPOTHESES, MODEL_CARD, N_BEST, Run
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


def test_the_card_of_an_ensemble_of_speech_models_has_a_command_with_a_folder_for_its_results(result):
    config = {**result.config, "data": {"source": "features"}}
    ensemble = dataclasses.replace(result, config=config, checkpoints=["runs/a/best/step-1", "runs/b/best/step-2"])
    assert "memattn-eval --run_dir runs/a --run_dir runs/b --output_dir RESULTS --set data" in model_card(ensemble)


@pytest.fixture(scope="module")
def run(finished, tmp_path_factory):
    """The folder of a finished run."""
    return shutil.copytree(finished.parent, tmp_path_factory.mktemp("runs") / "tiny") / "run"


@pytest.mark.slow
def test_an_evaluation_writes_a_model_card_from_its_result(run):
    result = evaluate(run)
    card = (run / "eval/valid" / MODEL_CARD).read_text(encoding="utf-8")
    assert card.startswith(f"# {run}\n")
    assert card == model_card(Run(run).result("valid"))
    for text in (
        "memory (num_slots 3, encoder_scoring softmax",
        f"**parameters**: {result['parameters']:,}",
        f"{result['bleu_signature']})**: {result['bleu']:.2f}\n",
        result["sacrebleu_signature"],
        "12 sentences of `valid`",
        "beam 2, 1 best, batches of 4",
        f"memattn-translate --run_dir {run} <",
        result["device"],
    ):
        assert text in card, text
    (settings,) = re.findall(r"```yaml\n(.*?)```", card, flags=re.DOTALL)
    assert yaml.safe_load(settings) == result["config"]


@pytest.mark.slow
def test_the_model_card_names_samples_folders_ensembles_and_the_teacher(run):
    result = evaluate(run, "decoding.sample.top_k=3")
    card = (run / "eval/valid" / MODEL_CARD).read_text(encoding="utf-8")
    assert "sampled, top_k 3, temperature 1.0, seed 1" in card
    assert "**teacher**" not in card
    result["overrides"] = []
    result["config"]["training"]["teacher"] = "runs/bahdanau"
    spaced = model_card(Result.from_json({**result, "checkpoints": ["runs/my run/best/step-1"]}))
    assert "memattn-translate --run_dir 'runs/my run' <" in spaced
    assert "- **teacher**: runs/bahdanau, weight of its contexts 1\n" in spaced
    ensemble = {**result, "checkpoints": ["runs/a/best/step-1", "runs/b/best/step-2"]}
    assert "memattn-translate --run_dir runs/a --run_dir runs/b <" in model_card(Result.from_json(ensemble))


@pytest.mark.slow
def test_the_n_best_are_numbered_by_source_and_the_longest_sources_are_drawn(run, tmp_path):
    evaluate(run, "decoding.sample={}", "decoding.n_best=2", plots=2, output_dir=tmp_path)  # most samples have tokens
    sources, best = lines_of(run.parent / "data" / "valid.source"), lines_of(tmp_path / HYPOTHESES)
    rows = [line.split("\t") for line in lines_of(tmp_path / N_BEST)]
    assert [int(number) for number, _, _ in rows] == [i for i in range(len(sources)) for _ in range(2)]
    assert [text for _, _, text in rows[::2]] == best
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        assert float(first[1]) >= float(second[1])

    lengths = [len(source.split()) for source in sources]
    longest = sorted(range(len(sources)), key=lambda i: -lengths[i])
    drawn = [i for i in longest if best[i]][:2]
    assert sorted(drawn) not in ([], [0, 1])
    assert len(drawn) == 2
    assert lengths[drawn[-1]] > min(lengths)
    assert sorted(os.listdir(tmp_path / ALIGNMENTS)) == sorted(f"{i}.png" for i in drawn)
