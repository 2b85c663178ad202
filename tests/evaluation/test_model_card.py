"""The model card of a run: everything in it comes from the result."""

import re

import pytest
import tensorflow as tf
import yaml
from helpers.runs import evaluate

from memattn.evaluation.model_card import model_card
from memattn.runs.result import Result
from memattn.runs.run import MODEL_CARD, Run
from memattn.training.trainer import train

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tiny_config, tmp_path):
    """The folder of a finished run."""
    assert train(tiny_config(), str(tmp_path / "run"), tf.distribute.get_strategy()) == 0
    return tmp_path / "run"


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


@pytest.mark.long
def test_the_model_card_names_samples_folders_and_ensembles(run):
    result = evaluate(run, "decoding.sample.top_k=3")
    assert "sampled, top_k 3, temperature 1.0, seed 1" in (run / "eval/valid" / MODEL_CARD).read_text(encoding="utf-8")
    spaced = {**result, "checkpoints": ["runs/my run/best/step-1"], "overrides": []}
    assert "memattn-translate --run_dir 'runs/my run' <" in model_card(Result.from_json(spaced))
    ensemble = {**result, "checkpoints": ["runs/a/best/step-1", "runs/b/best/step-2"], "overrides": []}
    assert "memattn-translate --run_dir runs/a --run_dir runs/b <" in model_card(Result.from_json(ensemble))


@pytest.mark.long
def test_the_model_card_names_the_teacher(run):
    result = evaluate(run)
    assert "**teacher**" not in model_card(Result.from_json(result))
    result["config"]["training"]["teacher"] = "runs/bahdanau"
    assert "- **teacher**: runs/bahdanau, weight of its contexts 1\n" in model_card(Result.from_json(result))
