"""Broken input ends a command with a single line that names it and the right exit status; runs stay intact."""

import glob
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
from helpers.files import contents, cut
from helpers.runs import NO_STRATEGY, before_each_step, evaluate, tiny

from memattn import cli
from memattn import config as configs
from memattn.runs.run import BEST, CHECKPOINTS, CONFIG, METADATA
from memattn.training.trainer import train

FAILURE, USAGE = 1, 2
COPY = "data: {copy: {}}\n"


def assert_refused(capsys, status, command, *fragments):
    """Runs a command that ends with this exit status and a single line on stderr, which holds the fragments."""
    with pytest.raises(SystemExit) as stopped:
        cli._guarded(command)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    assert lines[0].isprintable()
    assert len(lines[0]) < 500
    for fragment in fragments:
        assert fragment in lines[0]
    assert stopped.value.code == status


@pytest.mark.parametrize(
    ("content", "message"),  # the content without its first line, if that is COPY
    [
        ("data\n", ": a config is a mapping with the keys data, model, training, decoding, sweep"),
        ("data: {}\n", ": data: names no corpus; give data.folder (a prepared corpus), data.copy or data.task"),
        ("data:\n\tcopy: {}\n", ":2: not valid YAML: "),
        ("model: {units: 3\n", ":3: not valid YAML: expected ',' or '}', but got '<stream end>' (while parsing a "),
        ("model:\n  bridge: 'dense\n", "unexpected end of stream (while scanning a quoted scalar of line 3)"),
        ("data: {folder: 2017-09-09}\n", ":1: data.folder: expected a str or null, not datetime.date(2017, 9, 9); "),
        ("model:\n  units: 3\n  units: 4\n", ":4: model.units: given twice"),
        ("trianing: {}\n", ":2: trianing: unknown key; did you mean training?; known keys: data, model, "),
        ("model: 3\n", ":2: model: expected a mapping, not 3"),
        ("model:\n  attention: {name: luong_dot}\n", ":3: model.attention: luong_dot needs states as wide as "),
        ("model: {attention: {name: bahdanau, num_slots: 3}}\n", "num_slots: unknown option of bahdanau; its option"),
        ("model: {attention: {nmae: bahdanau}}\n", ".attention.nmae: unknown option of memory; did you mean name?"),
        ("model: {attention: {name: bahdanau, units: 3}}\n", "model.attention.units: unknown option of bahdanau; "),
        ("decoding:\n  n_best: 11\n", ":3: decoding.n_best: 11 is more than decoding.beam_size = 10"),
    ],
)
def test_a_broken_config_is_refused(content, message, tmp_path, capsys):
    path = tmp_path / "config.yaml"
    path.write_text(content if content.startswith("data") else COPY + content, encoding="utf-8")
    assert_refused(capsys, USAGE, lambda: configs.load(str(path), []), message)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.units", "--set model.units: write --set key=value, e.g. --set model.units=128"),
        ("training.init_from=", "--set training.init_from=: write --set key=value"),
        ("model.units=[\n", "--set model.units: not valid YAML: "),
        ("model.units=-1", "--set model.units=-1: model.units: must be at least 1, not -1"),
        ("model={units: -1}", "--set model={units: -1}: model.units: must be at least 1, not -1"),
        ("modle.units=1", "--set modle.units=1: modle: unknown key; did you mean model?"),
        ("num_slots=8", "did you mean model.attention.num_slots?"),
        ("batch_size=8", "batch_size: unknown key; did you mean training.batch_size or decoding.batch_size?"),
    ],
)
def test_a_broken_override_is_refused(override, message, capsys):
    assert_refused(capsys, USAGE, lambda: configs.load("copy/small", [override]), message)


def few_steps(data, changes=None):
    """Returns a config of four training steps, with a checkpoint after every second and its data in a folder."""
    return tiny({"data.folder": str(data), "training.max_steps": 4, "training.validate_every": 4, **(changes or {})})


def trains(config, run_dir):
    return train(config, str(run_dir), NO_STRATEGY)


def evaluates(config, run_dir):
    del config
    return evaluate(run_dir)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The config and the folder of a finished run, which no test changes."""
    folder = tmp_path_factory.mktemp("trained")
    config = few_steps(folder / "data")
    assert trains(config, folder / "run") == 0
    return config, folder / "run"


@pytest.fixture
def config(trained):
    return trained[0]


@pytest.fixture
def run_dir(trained, tmp_path):
    """The folder of a copy of the finished run."""
    return shutil.copytree(trained[1], tmp_path / "run")


PREPARED = {"data.copy": None}
# id -> changes of the config, function that damages the corpus, a part of the message, exit status
CORPORA = {
    "no folder": (PREPARED, shutil.rmtree, "corpus is not a folder", USAGE),
    "no source": (PREPARED, lambda corpus: os.remove(corpus / "train.source"), "train.source: No such file", FAILURE),
    "short target": (PREPARED, lambda corpus: cut(corpus / "train.target"), "train.source has 60 lines and ", FAILURE),
    "empty": (
        PREPARED,
        lambda corpus: [cut(corpus / f"train.{side}", 0) for side in ("source", "target")],
        "corpus/train.source: empty",
        FAILURE,
    ),
    "another task": (
        {},
        lambda corpus: (corpus / "copy.json").write_text('{"seed": 3}'),
        "seed (3 there, 1 here), max_length (null there, 5 here), ",
        USAGE,
    ),
    "no task": ({}, lambda corpus: os.remove(corpus / "copy.json"), "holds files, but no corpus of a task", USAGE),
}


@pytest.mark.parametrize("name", CORPORA)
def test_a_broken_corpus_is_refused(name, config, tmp_path, capsys):
    corpus = shutil.copytree(config.data.path, tmp_path / "corpus")
    changes, damage, message, status = CORPORA[name]
    damage(corpus)
    before, changed = contents(corpus), few_steps(corpus, changes)
    assert_refused(capsys, status, lambda: trains(changed, tmp_path / "new"), message)
    assert contents(corpus) == before
    assert not (tmp_path / "new").exists()


def cut_checkpoints(folder):
    for path in glob.glob(f"{folder}/*.data*"):
        cut(path)


# id -> function that damages the run folder, command, a part of the message, exit status
RUNS = {
    "without config": (lambda run: os.remove(run / CONFIG), trains, "run: holds checkpoints but no config.yaml", USAGE),
    "config cut off": (lambda run: cut(run / CONFIG), trains, "run/config.yaml:", USAGE),
    "lengths cut off": (lambda run: cut(run / METADATA), evaluates, "run/corpus.json: not JSON", FAILURE),
    "no validation yet": (lambda run: shutil.rmtree(run / BEST), evaluates, "run: no best checkpoint yet", FAILURE),
    "no checkpoint": (lambda run: cut_checkpoints(run / CHECKPOINTS), trains, "move the folder away", FAILURE),
    "no best checkpoint": (lambda run: cut_checkpoints(run / BEST), evaluates, "--average 1", FAILURE),
}


@pytest.mark.filterwarnings("ignore:.*checkpoint skipped")
@pytest.mark.parametrize("name", RUNS)
def test_a_broken_run_is_refused(name, config, run_dir, capsys):
    damage, command, message, status = RUNS[name]
    damage(run_dir)
    before = contents(run_dir)
    assert_refused(capsys, status, lambda: command(config, run_dir), message)
    assert contents(run_dir) == before


def test_a_split_that_the_corpus_lacks_is_refused(trained, capsys):
    message = "data: has no split test to evaluate on; it has train, valid"
    assert_refused(capsys, USAGE, lambda: evaluate(trained[1], split="test"), message)


@pytest.mark.slow
def test_weights_that_become_nan_in_a_run_are_reported_with_the_batch_and_the_last_checkpoint(
    config, tmp_path, monkeypatch, capsys
):
    checkpoints_before = {}

    def lose_a_weight(training_step, number, _):
        if number == 2:
            checkpoints_before.update(contents(tmp_path / "new" / CHECKPOINTS))
            weight = training_step.model.trainable_variables[0]
            weight.assign(weight * np.nan)

    before_each_step(monkeypatch, lose_a_weight)
    fragments = ["not finite at step 3", "bad_step-3.npz", "checkpoints/step-2", "learning_rate"]
    strict = few_steps(config.data.path, {"training.max_bad_steps": 0})
    assert_refused(capsys, FAILURE, lambda: trains(strict, tmp_path / "new"), *fragments)
    assert "step-2.index" in checkpoints_before
    assert contents(tmp_path / "new" / CHECKPOINTS) == checkpoints_before
    assert not os.listdir(tmp_path / "new" / BEST)
    with np.load(tmp_path / "new" / "bad_step-3.npz", allow_pickle=False) as batch:
        assert batch["source_0"].shape == batch["target_0"].shape == (8, batch["source_0"].shape[1])


@pytest.mark.slow
def test_no_checkpoint_holds_weights_that_are_not_finite(config, tmp_path, capsys):
    changes = {"training.learning_rate": 1e38, "training.clip_norm": 1e30, "training.checkpoint_every": 1}
    diverging = few_steps(config.data.path, {**changes, "training.max_bad_steps": 0})
    fragments = "not finite", "training.learning_rate"
    assert_refused(capsys, FAILURE, lambda: trains(diverging, tmp_path / "new"), *fragments)
    for index in glob.glob(str(tmp_path / "new" / "*" / "*.index")):
        reader = tf.train.load_checkpoint(index.removesuffix(".index"))
        for name in reader.get_variable_to_shape_map():
            if name.startswith(("model", "optimizer")):
                assert np.isfinite(reader.get_tensor(name)).all(), (index, name)


def test_an_error_of_tensorflow_is_reported_by_its_relevant_line(capsys):
    def loop(x):  # within a loop, the message begins with a stack trace
        return tf.while_loop(lambda x: x < 3, lambda x: tf.size(tf.reshape(tf.range(x), [x + 1])), [x])

    fail = tf.function(loop, autograph=False)
    message = "TensorFlow: Input to reshape is a tensor with 1 values"
    assert_refused(capsys, FAILURE, lambda: fail(tf.constant(1)), message)
