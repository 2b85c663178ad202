"""Code in the README and in docs/ runs as it is printed, and tables in them equal the committed results."""

import csv
import re

import numpy as np
import pytest
import tensorflow as tf
import yaml
from helpers.models import assert_trains, make_model, padded
from helpers.repository import ROOT
from studies.britz2017 import summary, tables
from studies.output import Output

import memattn
from memattn import attention, config
from memattn.data.vocabulary import EOS
from memattn.evaluation.formatting import markdown, pivot
from memattn.sweeps.expand import expand
from memattn.sweeps.results import finished

PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(language):
    """Returns the code blocks of the README in a language."""
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_mechanism_of_the_readme_works_once_registered(monkeypatch):
    (code,) = [block for block in blocks("python") if "class UniformAttention" in block]
    namespace = {}
    exec(code, namespace)
    monkeypatch.setitem(attention.MECHANISMS, "uniform", namespace["UniformAttention"])
    model = make_model("uniform", {})
    combined, _ = model.alignments(padded([[4, 5, 6, EOS], [4, EOS]]), padded([[5, EOS], [6, EOS]]))
    np.testing.assert_allclose(combined[0], np.full((2, 4), 0.25), rtol=1e-6)
    np.testing.assert_allclose(combined[1], np.tile([0.5, 0.5, 0, 0], (2, 1)), rtol=1e-6)
    assert_trains(model)


def test_the_model_of_the_readme_trains_its_attention_layer():
    (code,) = [block for block in blocks("python") if "tf.keras.Model(" in block]
    namespace = {}
    tf.keras.utils.set_random_seed(1)
    exec(code, namespace)
    model = namespace["model"]
    random = np.random.default_rng(1)
    source, target = random.integers(1, 1000, (32, 9)), random.integers(1, 1000, (32, 7))
    (attention_layer,) = [layer for layer in model.layers if isinstance(layer, memattn.MemoryAttention)]
    before = attention_layer.get_weights()
    model.compile(tf.keras.optimizers.Adam(0.03), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = model.fit([source, target], target, epochs=12, verbose=0).history["loss"]
    assert losses[-1] < losses[0] - 0.5
    assert len(before) == 2
    for old, new in zip(before, attention_layer.get_weights(), strict=True):
        assert np.abs(new - old).max() > 1e-3


def test_the_readme_is_short():
    assert len(README.encode("utf-8")) <= 12_000


def test_the_first_config_of_the_usage_page_loads(tmp_path):
    text, *_ = re.findall(r"```yaml\n(.*?)```", page("docs/guides/training.md"), flags=re.DOTALL)
    path = tmp_path / "tiny.yaml"
    path.write_text(text, encoding="utf-8")
    assert len(expand(config.load(str(path), []))) == 2


def test_the_summary_equals_the_committed_results():
    with open(ROOT / "results/summary.csv", encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == summary.rows(str(ROOT / "results")), "run python scripts/write_docs.py"


def test_the_table_at_the_papers_size_equals_its_committed_runs(tmp_path):
    committed = ROOT / "results/table1/cpu"
    study = config.load(str(ROOT / "configs/studies/table1/cpu.yaml"), [])
    runs = finished(study, str(committed / "runs"), "valid")
    output = Output(str(tmp_path), "cpu")
    tables.table_1(output, runs)
    assert len(runs) == len(list((committed / "runs").iterdir()))
    for name in ("table.csv", "bleu.csv", "table.md"):
        assert (committed / name).read_bytes() == (tmp_path / name).read_bytes()


def test_every_shipped_config_loads_and_states_its_bleu_cost_and_command():
    paths = sorted((ROOT / "configs").rglob("*.yaml"))
    assert paths
    for path in paths:
        expand(config.load(str(path), []))
        header = "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#"))
        assert all(word in header for word in ("Expected BLEU", "Cost", "Command")), path


@pytest.mark.parametrize("name", [name for name in PAGES if "<!-- end of table -->" in page(name)])
def test_tables_in_pages_equal_the_committed_results(name):
    text = page(name)
    tables_in_page = re.findall(
        r"<!-- (?:table|([^\n]*) by L): (\S+) -->\n(.*?)<!-- end of table -->", text, flags=re.DOTALL
    )
    for measure, path, table in tables_in_page:
        with open(ROOT / path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert table == markdown(pivot(rows, "L", "system", measure) if measure else rows)


def test_the_architecture_page_names_existing_files_and_every_part_of_the_package():
    text = page("docs/concepts/design.md")
    existing = {path.name for path in ROOT.rglob("*.py")}
    for name in re.findall(r"\b(\w+\.py)\b", text):
        assert name in existing, name
    package = ROOT / "memattn"
    for name in {path.relative_to(package).parts[0] for path in package.rglob("*.py")}:
        assert name == "__init__.py" or name in text, name


def test_every_key_that_the_pages_set_exists():
    keys = re.findall(r"--set[\s=]+'?([a-z][\w.]+)=", "".join(map(page, PAGES)))
    assert keys
    path = str(ROOT / "configs/copy/small.yaml")
    neural_gpu, tree = (
        yaml.safe_load(config.dump(config.load(path, overrides)))
        for overrides in (["model.kind=neural_gpu"], ["data={task: {name: sort}}", "decoding.sample={}"])
    )
    tree["model"] = neural_gpu["model"] | tree["model"]  # keys of both kinds of model
    for key in keys:
        node = tree
        for part in key.split("."):
            node = node[part]
