"""What the README shows runs as printed, and its table is the committed result."""

import csv
import re

import numpy as np
import pytest
import tensorflow as tf
import yaml
from conftest import ROOT
from test_conformance import assert_trains, make_model, padded

from memattn import attention, config
from memattn.data.vocabulary import EOS
from memattn.evaluation.tables import markdown

_TABLES_OF_WORDS = {"README.md": 1, "docs/clusters.md": 1, "docs/reproduction.md": 2, "docs/speed.md": 0}
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_adding_a_mechanism_takes_one_file_and_one_line(monkeypatch):
    (code,) = [block for block in blocks("python") if "class UniformAttention" in block]
    namespace = {}
    exec(code, namespace)
    monkeypatch.setitem(attention.MECHANISMS, "uniform", namespace["UniformAttention"])
    model = make_model("uniform", {})
    combined, _ = model.alignments(padded([[4, 5, 6, EOS], [4, EOS]]), padded([[5, EOS], [6, EOS]]))
    np.testing.assert_allclose(combined[0], np.full((2, 4), 0.25), rtol=1e-6)
    np.testing.assert_allclose(combined[1], np.tile([0.5, 0.5, 0, 0], (2, 1)), rtol=1e-6)
    assert_trains(model)


def test_memory_attention_works_in_a_model_that_is_not_ours():
    (code,) = [block for block in blocks("python") if "class Classifier" in block]
    namespace = {}
    tf.keras.utils.set_random_seed(1)
    exec(code, namespace)
    model, tokens = namespace["model"], namespace["tokens"]
    assert model.predict(tokens, verbose=0).shape == (64, 2)
    weights, optimizer, losses, moves = model.attention.trainable_variables, tf.keras.optimizers.Adam(1.0), [], []
    assert len(weights) == 2
    for _ in range(4):
        with tf.GradientTape() as tape:
            losses.append(float(loss := model.loss(tokens[:, 0] % 2, model(tokens))))
        gradients = tape.gradient(loss, weights)
        moves.append([np.abs(gradient).max() for gradient in gradients])
        optimizer.apply_gradients(zip(gradients, weights, strict=True))  # of the attention alone
    assert min(moves[0]) > 1e-7
    assert losses[-1] < losses[0] - 1e-4


def test_the_sweep_of_the_readme_expands(tmp_path):
    (text,) = blocks("yaml")
    path = tmp_path / "sweep.yaml"
    path.write_text(text, encoding="utf-8")
    runs = config.expand(config.load(str(path), []))
    assert len(runs) == 20


def test_every_shipped_config_loads():
    paths = sorted((ROOT / "configs").rglob("*.yaml"))
    assert paths
    for path in paths:
        loaded = config.load(str(path), [])
        assert config.expand(loaded)
        header = "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#"))
        assert all(word in header for word in ("Expected BLEU", "Cost", "Command")), path


@pytest.mark.parametrize("page", _TABLES_OF_WORDS)
def test_the_tables_are_the_committed_results(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    tables = re.findall(r"<!-- table: (\S+) -->\n(.*?)<!-- end of table -->", text, flags=re.DOTALL)
    assert tables
    assert len(tables) == len(re.findall(r"^\|[-|]+\|$", text, flags=re.MULTILINE)) - _TABLES_OF_WORDS[page]
    for path, table in tables:
        with open(ROOT / path, encoding="utf-8", newline="") as file:
            assert table == markdown(list(csv.DictReader(file)))


@pytest.mark.parametrize("page", _TABLES_OF_WORDS)
def test_what_a_page_points_to_is_there(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / page).read_text(encoding="utf-8")):
        assert target.startswith("http") or ((ROOT / page).parent / target).exists(), target


def test_every_file_of_the_map_exists():
    folders = (ROOT / folder for folder in ("memattn", "scripts", "tests"))
    there = {path.name for folder in folders for path in folder.rglob("*.py")}
    for name in re.findall(r"\b(\w+\.py)\b", README.split("## Map of the files")[1]):
        assert name in there or (ROOT / name).exists(), name
    for module in (ROOT / "memattn").glob("*.py"):
        assert module.name == "__init__.py" or module.name in README, module


def test_every_key_that_the_readme_sets_exists():
    keys = re.findall(r"--set\s+([\w.]+)=", README)
    assert len(keys) == len(re.findall(r"--set\b(?!`)", README)) > 4
    tree = yaml.safe_load(config.dump(config.load(str(ROOT / "configs/toy_copy/small.yaml"), [])))
    for key in keys:
        node = tree
        for part in key.split("."):
            node = node[part]
