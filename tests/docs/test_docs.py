"""The reference pages agree with the program, and links between pages are valid."""

import inspect
import re
import runpy

import numpy as np
import pytest
import tensorflow as tf
from benchmarks.tables import measured_rows
from helpers.pages import API, EVERY_PAGE, PAGES, blocks, run_block
from helpers.repository import COMMANDS, ROOT
from studies import reference

import memattn
from memattn import config as configs
from memattn.attention import MECHANISMS
from memattn.data.preparation import advice
from memattn.errors import ConfigError
from memattn.sweeps.runs import expand


def anchors(text):
    """Returns the anchors that GitHub gives to the headings."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", prose, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", EVERY_PAGE, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(path):
    prose = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r'\]\(([^)#\s]*)(?:#([^)\s]*))?(?: "rows (\w+)")?\)', prose)
    for target, anchor, measurement in links:
        if target.startswith("http"):
            continue
        linked = path.parent / target if target else path
        assert linked.exists(), target
        assert not measurement or measured_rows(str(linked), measurement), measurement
        assert not anchor or anchor in anchors(linked.read_text(encoding="utf-8")), anchor


def test_the_index_lists_every_page():
    listed = re.findall(
        r"^ *- \[.*?\]\((\S+)\)", (ROOT / "docs/index.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    pages = [path for kind in ("md", "ipynb") for path in (ROOT / "docs").rglob(f"*.{kind}")]
    assert sorted(["index.md", *listed]) == sorted(path.relative_to(ROOT / "docs").as_posix() for path in pages)


def test_the_lists_of_keys_equal_those_of_the_program():
    page = PAGES["reference/configuration.md"]
    assert page == reference.configuration(page), "run python scripts/write_docs.py"
    for key in ("data.copy.max_length", "training.schedule", "num_slots", "sweep.grids"):
        assert f"\n- `{key}` (" in page


def test_the_lists_of_flags_equal_those_of_the_commands():
    page = PAGES["reference/commands.md"]
    assert page == reference.commands(page), "run python scripts/write_docs.py"
    assert set(re.findall(r"^## `memattn-(\w+)", page, flags=re.MULTILINE)) == COMMANDS
    assert "- `--config` (**required**): " in page


@pytest.fixture
def examples(tmp_path, monkeypatch):
    """Writes the configs of the page into the working directory, under the names that their first lines give."""
    monkeypatch.chdir(tmp_path)
    for text in blocks("reference/configuration.md", "yaml"):
        (tmp_path / re.match(r"# (\S+\.yaml)", text)[1]).write_text(text, encoding="utf-8")


@pytest.mark.usefixtures("examples")
def test_the_page_prints_the_real_error_of_a_wrong_config():
    with pytest.raises(ConfigError) as raised:
        configs.load("wrong.yaml", [])
    assert f"```\n{raised.value}\n```" in PAGES["reference/configuration.md"]


@pytest.mark.usefixtures("examples")
def test_the_overrides_of_the_page_are_accepted():
    overrides = re.findall(r"^--set '?(.*?)'?$", PAGES["reference/configuration.md"], flags=re.MULTILINE)
    assert overrides
    for override in overrides:
        assert configs.load("small.yaml", [override]) != configs.load("small.yaml", []) or "null" in override
    sweep = configs.load("grid.yaml", ["model.attention.num_slots=4", "training.seed=9"])
    assert {run.model.attention["num_slots"] for run in expand(sweep).values()} == {8, 16, 32}
    assert "bahdanau-seed=1" in expand(configs.load("together.yaml", []))


def test_the_tutorial_states_the_times_that_preparation_prints():
    page = (ROOT / "docs/tutorials/translate.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d,]+) [^|]*\| (\d+) \| ([\d.]+ hours) \|", page, flags=re.MULTILINE)
    assert len(rows) == 3
    for pairs, units_of_a_side, hours in rows:
        number = int(pairs.replace(",", ""))
        tokens = 2 * int(units_of_a_side) * number
        printed = advice.training_time("own_text/small", number, tokens, advice.default_units(number))
        assert f"at most about {hours} of one CPU core" in printed


def test_every_public_name_is_documented_once():
    text = "".join(block for page in API for block in blocks(page, "{eval-rst}"))
    documented = re.findall(r"^\.\. auto\w+:: memattn\.(\w+)$", text, flags=re.MULTILINE)
    assert sorted(documented) == dir(memattn)


def test_every_mechanism_stands_beside_the_name_that_configs_give_it():
    pairs = re.findall(r"^### (\w+)\n\n`(\w+)`, \[", PAGES["reference/layers.md"], flags=re.MULTILINE)
    assert sorted(pairs) == sorted((mechanism.__name__, name) for name, mechanism in MECHANISMS.items())


def test_the_printed_call_of_a_mechanism_equals_its_signature():
    _, *parameters = inspect.signature(memattn.AttentionMechanism.call).parameters.values()
    assert f"attention{inspect.Signature(parameters)}\n" in "".join(blocks("reference/layers.md", "text"))


@pytest.mark.parametrize("page", [page for page in API if ":members:" in PAGES[page]])
def test_the_members_that_a_page_names_exist(page):
    for name, options in re.findall(r":: memattn\.(\w+)\n   :members: ((?:[^:`]|\n)*)", PAGES[page]):
        for member in re.findall(r"\w+", options):
            assert hasattr(getattr(memattn, name), member), member


def test_the_pages_have_as_many_python_blocks_as_tests_run():
    """tests/commands/test_api.py runs the blocks that need a trained run, this file all others."""
    assert sum(len(blocks(page, "python")) for page in API) == 8


def test_a_mechanism_in_a_keras_model_survives_saving(tmp_path, monkeypatch):
    names = run_block("memattn.MemoryAttention(", tmp_path, monkeypatch)
    logits, weights = names["model"]([np.array([[4, 5, 0]]), np.array([[6, 7]])])
    assert logits.shape == (1, 2, 1000)
    assert weights.shape == (1, 2, 3)
    np.testing.assert_array_equal(weights[:, :, 2], np.zeros((1, 2)))


def test_steps_of_a_mechanism_are_those_of_its_call(tmp_path, monkeypatch):
    names = run_block("memorize(states, mask)", tmp_path, monkeypatch)
    queries = tf.concat(tf.unstack(names["queries"]), 1)  # [B, T, U]
    inputs = {"value_mask": names["mask"], "return_attention_scores": True}
    contexts, weights = names["attention"](queries, names["states"], **inputs)
    assert np.abs(names["weights"]).max() > 0.01
    np.testing.assert_allclose(names["context"][:, 0], contexts[:, -1], atol=1e-6)
    np.testing.assert_allclose(names["weights"][:, 0], weights[:, -1], atol=1e-6)


def test_a_gru_decoder_is_searched_and_sampled(tmp_path, monkeypatch):
    names = run_block("GRUCell", tmp_path, monkeypatch)
    hypotheses = names["hypotheses"]
    assert hypotheses.tokens.shape == (2, 3, 10)
    assert np.all(np.diff(hypotheses.scores) <= 0)
    exec(blocks("reference/search.md", "python")[1], names)
    assert names["samples"].tokens.shape == (1, 3, 10)
    assert np.all(names["samples"].scores <= 0)


def test_the_model_of_the_page_is_read_and_trained(tmp_path, monkeypatch):
    names = run_block("Seq2Seq(", tmp_path, monkeypatch)
    assert names["logits"].shape == (2, 4, 20)
    assert names["weights"].shape == (2, 4, 4)
    assert names["shares"].shape == (2, 4, 4, 4)
    assert names["hypotheses"].tokens.shape == (2, 1, 8)
    (step,) = [block for block in blocks("reference/api.md", "python") if "GradientTape" in block]
    seed, losses = "tf.constant([1, 2])", []
    assert seed in step
    exec(step, names)
    for _ in range(3):
        exec(step.replace(seed, "None"), names)  # without dropout, losses of different steps compare
        losses.append(float(names["loss"]))
    assert losses[2] < losses[1] < losses[0]


def transformer_logits(decoder, states, mask, ids):
    """Computes logits [T, V] of the page's Transformer for all positions of a target [T] at once; `states` [S, D]."""
    (query, key, value, output), heads = decoder.to_tokens, 4

    def attend(q, k, v, allowed):
        q, k, v = (tf.transpose(tf.reshape(x, [x.shape[0], heads, -1]), [1, 0, 2]) for x in (q, k, v))
        scores = tf.matmul(q, k, transpose_b=True) / q.shape[-1] ** 0.5
        contexts = tf.matmul(tf.nn.softmax(tf.where(allowed, scores, -1e9)), v)
        return tf.reshape(tf.transpose(contexts, [1, 0, 2]), [-1, decoder.embedding.output_dim])

    x = decoder.embedding(ids) + decoder.positions(tf.range(len(ids)))
    normed = decoder.norms[0](x)
    causal = tf.linalg.band_part(tf.ones([len(ids), len(ids)], tf.bool), -1, 0)
    x += output(attend(query(normed), key(normed), value(normed), causal))
    query, key, value, output = decoder.to_source
    x += output(attend(query(decoder.norms[1](x)), key(states), value(states), mask[None]))
    x += decoder.narrow(decoder.wide(decoder.norms[2](x)))
    return decoder.output(decoder.norms[3](x))


@pytest.mark.slow
def test_scores_of_hypotheses_of_the_transformer_equal_those_without_its_cache():
    tf.keras.utils.set_random_seed(3)
    names = runpy.run_path(str(ROOT / "docs/reference/transformer_search.py"))
    for hypotheses, penalty in ((names["hypotheses"], 0.6), (names["samples"], 0.0)):
        for row in range(2):
            fields = (hypotheses.tokens, hypotheses.lengths, hypotheses.scores)
            for tokens, length, score in zip(*(field[row] for field in fields), strict=True):
                target = tokens.numpy()[: length.numpy() + 1]  # with the end of sentence, where there is any
                ids = np.concatenate([[names["START"]], target[:-1]])
                logits = transformer_logits(
                    names["decoder"], names["states"][row], names["mask"][row], tf.constant(ids)
                )
                log_probability = tf.reduce_sum(tf.gather(tf.nn.log_softmax(logits), target, batch_dims=1))
                expected = log_probability / ((5 + length.numpy()) / 6) ** penalty
                np.testing.assert_allclose(score, expected, rtol=1e-4)
