"""Broken input ends a command with a single line that names it and the right exit status; runs stay intact."""

import glob
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
import yaml
from helpers.files import contents, cut, read
from helpers.runs import NO_STRATEGY, TINY, evaluate

from memattn import cli
from memattn import config as configs
from memattn.runs import checkpoints
from memattn.runs.checkpoints import Checkpoint
from memattn.runs.run import BEST, CHECKPOINTS, CONFIG, METADATA, VOCABULARY, Run
from memattn.runs.trained import load_model
from memattn.sweeps.runs import expand
from memattn.training.step import TrainingStep
from memattn.training.trainer import train

FAILURE, USAGE = 1, 2
COPY = "data: {copy: {}}\n"

# id -> content of config.yaml, fragments of the message: file and line, key, and a word or a value
CONFIGS = {
    "empty": ("# nothing\n", "config.yaml:", "data, model"),
    "tab": ("data:\n\tcopy: {}\n", "config.yaml:2:", "YAML"),
    "bracket": (
        COPY + "model: {units: 3\n",
        "config.yaml:3: not valid YAML: expected ',' or '}', but got '<stream end>' (while parsing a flow mapping of ",
    ),
    "quote": (
        COPY + "model:\n  bridge: 'dense\n  units: 3\n",
        "config.yaml:5: not valid YAML: found unexpected end of stream (while scanning a quoted scalar of line 3)",
    ),
    "key given twice": (COPY + "model:\n  units: 3\n  units: 4\n", "config.yaml:4: model.units:", "twice"),
    "no data": (
        "model: {units: 3}\n",
        "config.yaml: data: names no corpus; give data.folder (a prepared corpus), data.copy or data.task",
    ),
    "section misspelt": (
        COPY + "trianing: {}\n",
        "config.yaml:2: trianing: unknown key; did you mean training?; known keys: data, model, ",
    ),
    "key misspelt": (
        COPY + "training:\n  learnin_rate: 1\n",
        "config.yaml:3: training.learnin_rate:",
        "mean learning_rate?",
    ),
    "number for a section": (COPY + "model: 3\n", "config.yaml:2: model:", "not 3"),
    "str for a number": (COPY + "model: {units: many}\n", "config.yaml:2: model.units: expected an int, not 'many'"),
    "date for a str": (
        "data: {folder: 2017-09-09}\n",
        "config.yaml:1: data.folder: expected a str or null, not datetime.date(2017, 9, 9); quote it for a str",
    ),
    "no date": ("data: {folder: 2017-29-09}\n", "config.yaml: not valid YAML: month must be in 1..12"),
    "choice misspelt": (
        COPY + "model: {bridge: dens}\n",
        "config.yaml:2: model.bridge: 'dens' is none of auto, zero, dense, backward; did you mean dense?",
    ),
    "unequal widths": (
        COPY + "model:\n  attention: {name: luong_dot}\n",
        "config.yaml:3: model.attention: luong_dot needs states as wide as model.units = 256, not 512; set ",
    ),
    "option of another mechanism": (
        COPY + "model: {attention: {name: bahdanau, num_slots: 3}}\n",
        "config.yaml:2: model.attention.num_slots: unknown option of bahdanau; its options: cache_keys",
    ),
    "name of a mechanism misspelt": (
        COPY + "model: {attention: {nmae: bahdanau}}\n",
        "config.yaml:2: model.attention.nmae: unknown option of memory; did you mean name?; its options: ",
    ),
    "a set for the name of a mechanism": (
        COPY + "sweep: {grid: {model.attention: [{name: {memory}}]}}\n",
        "model.attention.name: {'memory': None} is none of none, bahdanau, ",
    ),
    "option that the model sets": (
        COPY + "model: {attention: {name: bahdanau, units: 3}}\n",
        "config.yaml:2: model.attention.units:",
        "unknown",
    ),
    "more hypotheses than the beam": (
        COPY + "decoding:\n  n_best: 11\n",
        "config.yaml:3: decoding.n_best:",
        "beam_size",
    ),
    "ties that do not fit": (
        COPY + "model: {tie_embeddings: all, units: 3}\n",
        "config.yaml:2: model.tie_embeddings:",
        "embedding_size",
    ),
}
# id -> content of config.yaml, an override, fragments of the message
OVERRIDES = {
    "--set without value": (
        COPY,
        "model.units",
        "--set model.units: write --set key=value, e.g. --set model.units=128",
    ),
    "--set of an option": (COPY, "num_slots=8", "did you mean model.attention.num_slots?"),
    "--set of a key in two sections": (
        COPY,
        "batch_size=8",
        "batch_size: unknown key; did you mean training.batch_size or decoding.batch_size?",
    ),
}


def status_of_refusal(capsys, command, *fragments):
    """Runs a command that ends with a single line on stderr, which holds the fragments; returns its exit status."""
    with pytest.raises(SystemExit) as stopped:
        cli._guarded(command)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    assert lines[0].isprintable()
    assert len(lines[0]) < 500
    for fragment in fragments:
        assert fragment in lines[0]
    return stopped.value.code


@pytest.mark.parametrize(
    ("content", "overrides", "fragments"),
    [
        *[(content, [], fragments) for content, *fragments in CONFIGS.values()],
        *[(content, [override], fragments) for content, override, *fragments in OVERRIDES.values()],
    ],
    ids=[*CONFIGS, *OVERRIDES],
)
def test_a_broken_config_is_refused(content, overrides, fragments, tmp_path, capsys):
    path = tmp_path / "config.yaml"
    path.write_text(content, encoding="utf-8")

    def command():
        return expand(configs.load(str(path), overrides))

    assert status_of_refusal(capsys, command, *fragments) == USAGE


@pytest.mark.parametrize(
    ("path", "problem"),
    [("none.yaml", "No such file or directory"), ("", "Is a directory"), ("file/x.yaml", "Not a directory")],
)
def test_a_config_that_cannot_be_read_is_refused(path, problem, tmp_path, capsys):
    (tmp_path / "file").touch()
    path = str(tmp_path / path)
    assert status_of_refusal(capsys, lambda: configs.load(path, []), f"{path}: ", problem) == USAGE


def tiny(data, changes=None):
    """Returns a config of four training steps, with a checkpoint after every second and its data in a folder."""
    few_steps = {"data.num_buckets": 1, "training.max_steps": 4, "training.validate_every": 4}
    tree = configs.apply_changes(TINY, {"data.folder": str(data), **few_steps, **(changes or {})})
    path = f"{data}.yaml"
    with open(path, "w", encoding="utf-8") as file:
        yaml.safe_dump(tree, file)
    return configs.load(path, [])


def training(config, run_dir):
    """Returns a function that trains."""
    return lambda: train(config, str(run_dir), NO_STRATEGY)


def evaluating(run_dir, *overrides, split="valid", output_dir=None):
    """Returns a function that evaluates a run."""
    return lambda: evaluate(run_dir, *overrides, split=split, output_dir=output_dir)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The config and the folder of a finished run, which no test changes."""
    folder = tmp_path_factory.mktemp("trained")
    config = tiny(folder / "data")
    assert training(config, folder / "run")() == 0
    for step in (2, 4):
        assert (folder / "run" / CHECKPOINTS / f"step-{step}.index").exists()
    return config, folder / "run"


@pytest.fixture
def config(trained):
    return trained[0]


@pytest.fixture
def run_dir(trained, tmp_path):
    """The folder of a copy of the finished run."""
    return shutil.copytree(trained[1], tmp_path / "run")


@pytest.fixture
def corpus(config, tmp_path):
    """A copy of the corpus of the finished run."""
    return shutil.copytree(config.data.path, tmp_path / "corpus")


# id -> function that damages the corpus, fragments of the message, exit status
CORPORA = {
    "no folder": (shutil.rmtree, ["data.folder: ", "corpus", "not a folder"], USAGE),
    "a file for a folder": (
        lambda corpus: (shutil.rmtree(corpus), corpus.touch()),
        ["data.folder: ", "corpus", "not a folder"],
        USAGE,
    ),
    "no source": (
        lambda corpus: (corpus / "train.source").unlink(),
        ["corpus/train.source: No such file or directory"],
        FAILURE,
    ),
    "no validation": (
        lambda corpus: (corpus / "valid.target").unlink(),
        ["corpus/valid.target: No such file or directory"],
        FAILURE,
    ),
    "sides of different lengths": (
        lambda corpus: (corpus / "train.target").write_text("1 2\n"),
        ["corpus/train.source", "60 lines", "corpus/train.target"],
        FAILURE,
    ),
    "bytes": (
        lambda corpus: (corpus / "valid.target").write_bytes(b"1 2\n3\n\xe4 1\n"),
        ["corpus/valid.target:3: ", "0xe4"],
        FAILURE,
    ),
    "empty": (
        lambda corpus: [(corpus / f"train.{side}").write_text("") for side in ("source", "target")],
        ["corpus/train.source: ", "empty"],
        FAILURE,
    ),
    "no vocabulary": (
        lambda corpus: (corpus / "vocab.txt").unlink(),
        ["corpus/vocab.txt: No such file or directory"],
        FAILURE,
    ),
}


@pytest.mark.parametrize("name", CORPORA)
def test_a_broken_corpus_is_refused(name, corpus, tmp_path, capsys):
    damage, fragments, status = CORPORA[name]
    config = tiny(corpus, {"data.copy": None})
    damage(corpus)
    assert status_of_refusal(capsys, training(config, tmp_path / "new"), *fragments) == status
    assert not (tmp_path / "new").exists()


# id -> function that damages the folder of the copy task, fragments of the message, exit status
COPY_FOLDERS = {
    "other settings": (
        lambda corpus: (corpus / "copy.json").write_text('{"seed": 3}'),
        ["corpus: ", "seed (3 there, 1 here), max_length (null there, 5 here), "],
        USAGE,
    ),
    "another corpus": (
        lambda corpus: (corpus / "copy.json").unlink(),
        ["corpus: holds files, but no corpus of a task"],
        USAGE,
    ),
    "a file for a folder": (
        lambda corpus: (shutil.rmtree(corpus), corpus.touch()),
        ["corpus: Not a directory"],
        FAILURE,
    ),
}


@pytest.mark.parametrize("name", COPY_FOLDERS)
def test_a_broken_folder_of_the_copy_task_is_refused(name, corpus, tmp_path, capsys):
    damage, fragments, status = COPY_FOLDERS[name]
    config = tiny(corpus)
    damage(corpus)
    before = contents(corpus)
    assert status_of_refusal(capsys, training(config, tmp_path / "new"), *fragments) == status
    assert contents(corpus) == before
    assert not (tmp_path / "new").exists()


# id -> function that damages the run folder, command, fragments of the message, exit status
RUNS = {
    "of another config": (
        lambda run_dir: None,
        lambda config, run_dir: training(tiny(config.data.path, {"model.units": 9, "training.seed": 2}), run_dir),
        ["run: ", "model.units (8 there, 9 here), training.seed (1 there, 2 here)"],
        USAGE,
    ),
    "without config": (
        lambda run_dir: (run_dir / CONFIG).unlink(),
        training,
        ["run: ", "no config.yaml"],
        USAGE,
    ),
    "config cut off": (lambda run_dir: cut(run_dir / CONFIG), training, ["run/config.yaml:"], USAGE),
    "a file for a folder": (
        lambda run_dir: (shutil.rmtree(run_dir), run_dir.touch()),
        training,
        ["run: File exists"],
        FAILURE,
    ),
    "nowhere": (
        lambda run_dir: None,
        lambda config, run_dir: evaluating(run_dir / "deeper"),
        ["run/deeper: no such folder"],
        USAGE,
    ),
    "an ensemble without a folder for its results": (
        lambda run_dir: None,
        lambda config, run_dir: evaluating([run_dir, run_dir]),
        ["output_dir: required"],
        USAGE,
    ),
    "another model for its weights": (
        lambda run_dir: None,
        lambda config, run_dir: evaluating(run_dir, "model.units=9"),
        ["--set model.units: ", "trained"],
        USAGE,
    ),
    "no lexicon": (
        lambda run_dir: None,
        lambda config, run_dir: evaluating(run_dir, "decoding.lexicon=/nowhere/lexicon.tsv"),
        ["/nowhere/lexicon.tsv: No such file or directory"],
        FAILURE,
    ),
    "no such split": (
        lambda run_dir: None,
        lambda config, run_dir: evaluating(run_dir, split="test"),
        ["data: ", "test", "train, valid"],
        USAGE,
    ),
    "no vocabulary": (
        lambda run_dir: (run_dir / VOCABULARY).unlink(),
        lambda config, run_dir: evaluating(run_dir),
        ["run/vocab.txt: No such file or directory"],
        FAILURE,
    ),
    "lengths cut off": (
        lambda run_dir: cut(run_dir / METADATA),
        lambda config, run_dir: evaluating(run_dir),
        ["run/corpus.json: ", "JSON"],
        FAILURE,
    ),
    "no validation yet": (
        lambda run_dir: shutil.rmtree(run_dir / BEST),
        lambda config, run_dir: evaluating(run_dir),
        ["run: ", "no best checkpoint", "4 steps"],
        FAILURE,
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_broken_run_is_refused(name, config, run_dir, capsys):
    damage, command, fragments, status = RUNS[name]
    damage(run_dir)
    before = contents(run_dir) if run_dir.is_dir() else {}
    assert status_of_refusal(capsys, command(config, run_dir), *fragments) == status
    assert (contents(run_dir) if run_dir.is_dir() else {}) == before


def reverse(path):
    """Reverses the bytes of a file."""
    path.write_bytes(read(path)[::-1])


DAMAGES = {
    "data cut off": ("data-00000-of-00001", cut),
    "data reversed": ("data-00000-of-00001", reverse),
    "data gone": ("data-00000-of-00001", os.remove),
    "index cut off": ("index", cut),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_where_a_checkpoint_is_unreadable_an_older_checkpoint_is_restored(name, config, run_dir):
    part, damage = DAMAGES[name]
    damage(run_dir / CHECKPOINTS / f"step-4.{part}")
    folder = str(run_dir / CHECKPOINTS)
    model, _ = load_model(Run(run_dir))
    with pytest.warns(UserWarning, match="step-4: .*skipped"):
        assert checkpoints.restore(Checkpoint(model), folder) == os.path.join(folder, "step-2")
    expected = tf.train.load_checkpoint(os.path.join(folder, "step-2"))
    for path, weight in checkpoints.named_weights(model).items():
        np.testing.assert_array_equal(weight.numpy(), expected.get_tensor(f"model/{path}/.ATTRIBUTES/VARIABLE_VALUE"))


@pytest.mark.parametrize(
    ("folder", "command", "advice"),
    [
        (CHECKPOINTS, training, "move the folder away"),
        (BEST, lambda config, run_dir: evaluating(run_dir), "--average 1"),
    ],
)
def test_a_run_without_a_readable_checkpoint_is_refused(folder, command, advice, config, run_dir, capsys):
    for path in glob.glob(str(run_dir / folder / "*.data*")):
        cut(path)
    before = contents(run_dir)
    with pytest.warns(UserWarning, match="skipped"):
        assert status_of_refusal(capsys, command(config, run_dir), f"{folder}: ", advice) == FAILURE
    assert contents(run_dir) == before


def test_a_run_whose_list_of_checkpoints_is_lost_lists_them_by_their_names(config, run_dir, capsys):
    (run_dir / CHECKPOINTS / "checkpoint").unlink()
    assert training(config, run_dir)() == 0
    assert f"({run_dir / CHECKPOINTS / 'step-4'})\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", [CHECKPOINTS, BEST, "events"])
def test_a_file_where_training_needs_a_folder_is_reported_before_the_first_step(name, config, tmp_path, capsys):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / name).touch()
    assert status_of_refusal(capsys, training(config, tmp_path / "new"), f"new/{name}: File exists") == FAILURE
    assert not glob.glob(str(tmp_path / "new" / "*" / "step-*"))


@pytest.mark.slow
def test_weights_that_become_nan_in_a_run_are_reported_with_the_batch_and_the_last_checkpoint(
    config, tmp_path, monkeypatch, capsys
):
    checkpoints_before = {}
    step = TrainingStep.__call__

    def lose_a_weight(self, batches, number, learning_rate):
        if number == 2:
            checkpoints_before.update(contents(tmp_path / "new" / CHECKPOINTS))
            self.model.trainable_variables[0].assign(self.model.trainable_variables[0] * np.nan)
        return step(self, batches, number, learning_rate)

    monkeypatch.setattr(TrainingStep, "__call__", lose_a_weight)
    fragments = ["not finite at step 3", "bad_step-3.npz", "checkpoints/step-2", "learning_rate"]
    strict = tiny(config.data.path, {"training.max_bad_steps": 0})
    assert status_of_refusal(capsys, training(strict, tmp_path / "new"), *fragments) == FAILURE
    assert "step-2.index" in checkpoints_before
    assert contents(tmp_path / "new" / CHECKPOINTS) == checkpoints_before
    assert not os.listdir(tmp_path / "new" / BEST)
    with np.load(tmp_path / "new" / "bad_step-3.npz", allow_pickle=False) as batch:
        assert batch["source_0"].shape == batch["target_0"].shape == (8, batch["source_0"].shape[1])
    assert status_of_refusal(capsys, training(config, tmp_path / "lenient"), "not finite at step 4") == FAILURE


@pytest.mark.parametrize("learning_rate", [1e38, 3e38])
def test_no_checkpoint_holds_weights_that_are_not_finite(learning_rate, config, tmp_path, capsys):
    changes = {"training.learning_rate": learning_rate, "training.clip_norm": 1e30, "training.checkpoint_every": 1}
    command = training(tiny(config.data.path, {**changes, "training.max_bad_steps": 0}), tmp_path / "new")
    assert status_of_refusal(capsys, command, "new: ", "not finite", "training.learning_rate") == FAILURE
    for index in glob.glob(str(tmp_path / "new" / "*" / "*.index")):
        reader = tf.train.load_checkpoint(index.removesuffix(".index"))
        for name in reader.get_variable_to_shape_map():
            if name.startswith(("model", "optimizer")):
                assert np.isfinite(reader.get_tensor(name)).all(), (index, name)


def test_an_error_of_tensorflow_is_reported_by_its_relevant_line(capsys):
    def loop(x):  # within a loop, the message begins with a stack trace
        return tf.while_loop(lambda x: x < 3, lambda x: tf.size(tf.reshape(tf.range(x), [x + 1])), [x])

    fail = tf.function(loop, autograph=False)
    status = status_of_refusal(
        capsys, lambda: fail(tf.constant(1)), "TensorFlow: Input to reshape is a tensor with 1 values"
    )
    assert status == FAILURE


# id -> module, arguments, fragments of the message, exit status
COMMANDS = {
    "unknown flag": ("train", ["--confg=x"], ["'confg'"], USAGE),
    "missing flag": ("train", ["--run_dir=x"], ["--config", "missing"], USAGE),
    "text for an int": ("eval", ["--run_dir=x", "--repeats=3.5"], ["--repeats=3.5: expected an int; see"], USAGE),
    "text for a bool": ("eval", ["--run_dir=x", "--rouge=3"], ["--rouge=3: expected true or false; see"], USAGE),
    "no flag": ("eval", ["--run_dir=x", "deeper"], ["deeper: ", "not a flag"], USAGE),
    "split and files": ("eval", ["--run_dir=x", "--split=valid", "--source=a", "--target=b"], ["--split"], USAGE),
    "config": ("train", ["--config=broken.yaml", "--run_dir=new"], ["broken.yaml:2: modle: "], USAGE),
    "run": ("train", ["--config=good.yaml", "--run_dir=file/new"], ["file/new: Not a dir"], FAILURE),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_refused_command_ends_with_a_single_line_and_its_status_and_changes_no_file(config, command, tmp_path, name):
    module, arguments, fragments, expected_status = COMMANDS[name]
    (tmp_path / "broken.yaml").write_text(COPY + "modle: {}\n")
    (tmp_path / "good.yaml").write_text(configs.dump(config))
    (tmp_path / "file").touch()
    before = contents(tmp_path)
    status, _, stderr = command(tmp_path, f"memattn.{module}", *arguments)
    lines = [line for line in stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, stderr
    assert all(fragment in lines[0] for fragment in fragments)
    assert len(lines[0]) < 1_100
    assert "Traceback" not in stderr
    assert status == expected_status
    assert contents(tmp_path) == before
