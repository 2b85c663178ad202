"""The small Transformer that reads slots in place of states: search, padding, training, and the tables."""

import functools
import json
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
import transformer
from keras import ops
from transformer import MODELS, Transformer, search

from memattn import files
from memattn.data import tasks
from memattn.data.config import CopyConfig
from memattn.data.vocabulary import EOS, PAD

pytestmark = pytest.mark.slow
SOURCES = np.array([[5, 6, 7, 8, 9, 10, EOS], [11, 12, EOS, PAD, PAD, PAD, PAD]], np.int32)


def make_model(name):
    """Returns an untrained model with K = 3."""
    model = Transformer(16, MODELS[name], 3)
    model((SOURCES, SOURCES))
    return model


shared_model = functools.cache(make_model)  # no test changes its weights


@pytest.mark.parametrize("name", MODELS)
def test_steps_have_the_logits_of_teacher_forcing_which_padding_does_not_change(name):
    """There are two hypotheses for each source, which share its memory."""
    model, steps = shared_model(name), 5
    before = np.random.default_rng(2).integers(4, 16, [4, steps]).astype(np.int32)
    expected = ops.convert_to_numpy(model((np.repeat(SOURCES, 2, 0), before)))
    width = transformer.UNITS // transformer.HEADS
    keys, values = (np.zeros([4, transformer.HEADS, *shape], np.float32) for shape in ([width, steps], [steps, width]))
    memory, caches = model.memorize(SOURCES), [(keys, values)] * transformer.LAYERS
    for position in range(steps):
        logits, caches = model.step(before[:, position], ops.convert_to_tensor(position), caches, memory)
        np.testing.assert_allclose(ops.convert_to_numpy(logits), expected[:, position], atol=1e-4)
    unpadded = ops.convert_to_numpy(model((np.repeat(SOURCES[1:, :3], 2, 0), before[2:])))
    np.testing.assert_allclose(expected[2:], unpadded, atol=1e-4)


def test_a_compiled_greedy_search_takes_the_most_probable_token():
    model = make_model("windowed slots")
    model.classify.kernel.assign(ops.transpose(ops.roll(model.embedding.embeddings, 1, 0)))  # each calls for the next
    find = tf.function(lambda source: search(model, model.memorize(source), 1, 8, end=-1), jit_compile=True)
    written = ops.convert_to_numpy(find(SOURCES))
    best = ops.convert_to_numpy(model((SOURCES, transformer.before(written)))).argmax(-1)
    np.testing.assert_array_equal(written, best)
    assert len(np.unique(written)) > 3


@pytest.mark.parametrize("beam", [1, 3])
def test_the_step_of_a_padded_source_is_that_of_the_source_alone(beam):
    model = shared_model("all states")
    short, padded = (search(model, model.memorize(SOURCES[1:, :width]), beam, 6) for width in (3, 7))
    np.testing.assert_array_equal(padded, short)


def test_the_cache_of_slots_does_not_grow_with_the_source():
    for name in MODELS:
        memories = [shared_model(name).memorize(np.full([1, length], 5, np.int32))[0] for length in (4, 9)]
        sizes = [sum(ops.size(each) for layer in memory for pair in layer for each in pair) for memory in memories]
        positions = (4, 9) if name == "all states" else (3, 3)
        assert sizes == [2 * transformer.LAYERS * transformer.UNITS * each for each in positions], name


@pytest.mark.long
def test_a_model_learns_to_copy(tmp_path, monkeypatch):
    config = CopyConfig(max_length=4, num_symbols=4, train_examples=1_000, valid_examples=20)
    monkeypatch.setattr(transformer, "_BUCKETS", 1)
    tasks.prepare(config, str(tmp_path / "copy"))
    task = transformer.Task(str(tmp_path / "copy"), "valid", 4, steps=150, batch_size=32, dropout=0.0)
    corpora = {"copy": task, "again": task._replace(steps=10)}
    first, second = transformer.results(corpora, "windowed slots", seed=1)
    assert float(first["token accuracy"]) > 90
    assert float(second["token accuracy"]) > 80  # from the first weights
    assert (first["K"], second["task"]) == (4, "again")


def test_a_row_over_seeds_has_means_and_the_range():
    model = {"task": "copy", "decoder reads": "latents", "K": 3}
    scored = [{**model, "sacrebleu": bleu, "token accuracy": "90.00"} for bleu in ("80.00", "81.00")]
    (row,) = transformer.over_seeds(scored)
    assert row == {**model, "seeds": 2, "BLEU": "80.50", "min-max": "80.00-81.00", "token accuracy": "90.00"}


@pytest.fixture
def run_script(tmp_path, monkeypatch):
    """run_script(flags...) calls the script's `main`; returns the rows of the table."""

    def run(*, times):
        chosen = {"tasks": ["bible"], "seeds": [1], "lengths": [25, 50], "models": ["all states"]}
        options = SimpleNamespace(**chosen, times=times, output=f"{tmp_path}/")
        monkeypatch.setattr(transformer.flags, "FLAGS", options)
        transformer.main()
        return files.read_csv(str(tmp_path / ("times.csv" if times else "table.csv")))

    return run


def test_a_training_that_was_stopped_between_corpora_leaves_no_row_twice(run_script, tmp_path, monkeypatch):
    corpora, stops = list(transformer.TASKS["bible"]), [True, False]

    def results(*_, seed):
        for task in corpora:
            yield {"task": task, "decoder reads": "all states", "seed": seed, "K": "", **scores}
            if stops[0]:
                raise KeyboardInterrupt

    scores = {"sacrebleu": "1.00", "token accuracy": "2.00"}
    monkeypatch.setattr(transformer, "results", results)
    with pytest.raises(KeyboardInterrupt):
        run_script(times=False)
    stops.pop(0)
    for _ in range(2):  # the second time, nothing is left to do
        assert [row["task"] for row in run_script(times=False)] == corpora
        assert {row["seeds"] for row in files.read_csv(str(tmp_path / "seeds.csv"))} == {"1"}


def test_times_that_are_measured_again_replace_the_former(run_script, monkeypatch):
    def decode_times(length, names, *, beam, batch):
        row = {"beam": beam, "sources at once": batch, "S": length}
        return [{**row, "decoder reads": name, "ms a token": next(milliseconds)} for name in names]

    milliseconds = iter(range(100))
    monkeypatch.setattr(transformer, "decode_times", decode_times)
    monkeypatch.setattr(transformer, "draw_times", lambda path, rows: None)
    for first in (0, 4):
        rows = run_script(times=True)
        assert [(row["beam"], row["S"]) for row in rows] == [("1", "25"), ("1", "50"), ("5", "25"), ("5", "50")]
        assert [row["ms a token"] for row in rows] == [str(first + number) for number in range(4)]


@pytest.mark.parametrize("flag", ["tasks", "models"])
def test_an_unknown_task_or_model_is_named(command, flag, tmp_path):
    arguments = [f"--{flag}", "coppy", "--output", f"{tmp_path}/"]
    result = command(tmp_path, "scripts.transformer", *arguments, may_fail=True)
    assert result.returncode == 2
    assert f"error: --{flag}: 'coppy' is none of " in result.stderr


@pytest.mark.long
def test_the_script_writes_decode_times(tmp_path, command):
    arguments = ["--times", "--lengths", "4,40", "--models", "all states,stretch means", "--output", "out/"]
    command(tmp_path, "scripts.transformer", *arguments)
    rows = json.loads((tmp_path / "out" / "times.json").read_text(encoding="utf-8"))["rows"]
    sizes = {(row["S"], row["decoder reads"]): float(row["cache KiB"]) for row in rows}
    assert sizes[40, "all states"] == 10 * sizes[4, "all states"]
    assert sizes[40, "stretch means"] == sizes[4, "stretch means"]
    assert "tensorflow" in rows[0]["conditions"]
    assert (tmp_path / "out" / "times.csv").exists()
    assert "stretch means" in (tmp_path / "out" / "times.svg").read_text(encoding="utf-8")


def test_a_wider_beam_finds_a_more_probable_hypothesis():
    model = shared_model("all states")
    totals = {}
    for beam in (1, 6):
        written = ops.convert_to_numpy(search(model, model.memorize(SOURCES), beam, 6, end=-1))
        log_probs = ops.convert_to_numpy(ops.log_softmax(model((SOURCES, transformer.before(written)))))
        totals[beam] = np.take_along_axis(log_probs, written[..., None], -1).sum((1, 2))
    assert (totals[6] >= totals[1] - 1e-4).all()
    assert (totals[6] > totals[1] + 1e-4).any()
