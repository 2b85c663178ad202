"""Broken input ends a command with a single line that names it and the right exit status; runs stay intact."""

import ctypes
import errno
import glob
import os
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import yaml
from helpers.files import contents, cut, read
from helpers.runs import NO_STRATEGY, TINY, evaluate

from memattn import cli
from memattn import config as configs
from memattn.data import task_corpus
from memattn.errors import ConfigError, reason
from memattn.evaluation.stored import HYPOTHESES, RESULT
from memattn.runs import building, checkpoints, run_folder
from memattn.runs.checkpoints import Checkpoint
from memattn.sweeps.expand import expand
from memattn.training.step import TrainingStep
from memattn.training.trainer import train

FAILURE, USAGE = 1, 2
COPY = "data: {copy: {}}\n"

# id -> content of config.yaml, overrides, fragments of the message: place, key, and a word or a value
CONFIGS = {
    "empty": ("# nothing\n", [], ["config.yaml:", "data, model"]),
    "list": ("- data\n", [], ["config.yaml:", "data, model"]),
    "tab": ("data:\n\tcopy: {}\n", [], ["config.yaml:2:", "YAML"]),
    "bracket": (COPY + "model: {units: 3\n", [], ["config.yaml:3:", "YAML"]),
    "indentation": ("data:\n  copy: {}\n model: {}\n", [], ["config.yaml:3:", "YAML"]),
    "alias": ("data: *nowhere\n", [], ["config.yaml:1:", "nowhere"]),
    "two documents": (COPY + "---\nmodel: {}\n", [], ["config.yaml:2:", "document"]),
    "control character": (COPY + "model: {bridge: \a}\n", [], ["config.yaml:", "#x0007"]),
    "bytes": (b"data: {copy: {}}\nmodel: {bridge: \xff}\n", [], ["config.yaml:2:", "0xff"]),
    "UTF-16": (COPY.encode("utf-16"), [], ["config.yaml:1:", "0xff"]),
    "key given twice": (COPY + "model:\n  units: 3\n  units: 4\n", [], ["config.yaml:4: model.units:", "twice"]),
    "no data": ("model: {units: 3}\n", [], ["config.yaml: data:", "data.folder"]),
    "data misspelt": ("dat: {copy: {}}\n", [], ["config.yaml:1: dat:", "mean data?"]),
    "data left empty": ("data:\n", [], ["config.yaml:1: data:", "data.folder"]),
    "folder without name": ("data: {folder: ''}\n", [], ["config.yaml:1: data:", "data.folder"]),
    "section misspelt": (COPY + "trianing: {}\n", [], ["config.yaml:2: trianing:", "mean training?"]),
    "key misspelt": (
        COPY + "training:\n  learnin_rate: 1\n",
        [],
        ["config.yaml:3: training.learnin_rate:", "mean learning_rate?"],
    ),
    "key deep down misspelt": (
        "data: {copy: {max_lenght: 3}}\n",
        [],
        ["config.yaml:1: data.copy.max_lenght:", "mean max_length?"],
    ),
    "dotted key in a file": (COPY + "model.units: 3\n", [], ["config.yaml:2: model.units:", "unknown"]),
    "line break in a key": (COPY + '"a\\nerror: b": 3\n', [], ["config.yaml:2: a\\nerror: b:", "unknown"]),
    "merge key": ("data: &d {copy: {}}\nmodel:\n  <<: *d\n", [], ["config.yaml:2: model.copy:", "unknown"]),
    "number for a section": (COPY + "model: 3\n", [], ["config.yaml:2: model:", "not 3"]),
    "list for a section": (COPY + "model: [a]\n", [], ["config.yaml:2: model:", "not ['a']"]),
    "str for a number": (COPY + "model: {units: many}\n", [], ["config.yaml:2: model.units:", "not 'many'"]),
    "fraction for an int": (COPY + "model: {units: 2.5}\n", [], ["config.yaml:2: model.units:", "not 2.5"]),
    "bool for an int": (COPY + "model: {units: true}\n", [], ["config.yaml:2: model.units:", "not True"]),
    "bool for a number": (COPY + "model: {dropout: yes}\n", [], ["config.yaml:2: model.dropout:", "not True"]),
    "date for a number": (
        COPY + "training: {seed: 2017-09-09}\n",
        [],
        ["config.yaml:2: training.seed:", "not datetime.date(2017, 9, 9)"],
    ),
    "bool for a str": ("data: {folder: no}\n", [], ["config.yaml:1: data.folder:", "not False"]),
    "list as a key": (COPY + "? [a, b]\n: c\n", [], ["config.yaml:2: not valid YAML", "unhashable"]),
    "tag of Python": (
        COPY + "model: {units: !!python/name:os.system ''}\n",
        [],
        ["config.yaml:2: not valid YAML", "python/name:os.system"],
    ),
    "number for a bool": (COPY + "model: {mix: 1}\n", [], ["config.yaml:2: model.mix:", "not 1"]),
    "number for a str": ("data: {folder: 3}\n", [], ["config.yaml:1: data.folder:", "not 3"]),
    "null for a number": (COPY + "model: {units: }\n", [], ["config.yaml:2: model.units:", "not "]),
    "neither bool nor auto": (
        COPY + "decoding: {jit_compile: 1}\n",
        [],
        ["config.yaml:2: decoding.jit_compile:", "auto"],
    ),
    "choice misspelt": (COPY + "model: {bridge: dens}\n", [], ["config.yaml:2: model.bridge:", "mean dense?"]),
    "long value": (COPY + f"model: {{bridge: {'x' * 3000}}}\n", [], ["config.yaml:2: model.bridge:", "xxx ... "]),
    "negative dropout": (COPY + "model: {dropout: -0.1}\n", [], ["config.yaml:2: model.dropout:", "not -0.1"]),
    "dropout of 1": (COPY + "model: {dropout: 1}\n", [], ["config.yaml:2: model.dropout:", "not 1.0"]),
    "learning rate of 0": (
        COPY + "training: {learning_rate: 0}\n",
        [],
        ["config.yaml:2: training.learning_rate:", "not 0.0"],
    ),
    "NaN": (COPY + "training: {learning_rate: .nan}\n", [], ["config.yaml:2: training.learning_rate:", "nan"]),
    "K = 0": (
        COPY + "model:\n  attention: {name: memory, num_slots: 0}\n",
        [],
        ["config.yaml:3: model.attention.num_slots:", "not 0"],
    ),
    "unequal widths": (
        COPY + "model:\n  attention: {name: luong_dot}\n",
        [],
        ["config.yaml:3: model.attention:", "luong_dot"],
    ),
    "unequal widths in a sweep": (
        COPY + "sweep: {grid: {model.attention.name: [luong, luong_dot]}}\n",
        [],
        ["sweep run luong_dot: model.attention:", "luong_dot"],
    ),
    "mechanism misspelt": (
        COPY + "model: {attention: {name: memry}}\n",
        [],
        ["config.yaml:2: model.attention.name:", "mean memory?"],
    ),
    "list for a mechanism": (
        COPY + "model: {attention: {name: [memory]}}\n",
        [],
        ["config.yaml:2: model.attention.name:", "['memory']"],
    ),
    "str for the attention": (
        COPY + "model: {attention: memory}\n",
        [],
        ["config.yaml:2: model.attention:", "'memory'"],
    ),
    "option misspelt": (
        COPY + "model: {attention: {name: memory, num_slot: 3}}\n",
        [],
        ["config.yaml:2: model.attention.num_slot:", "mean num_slots?"],
    ),
    "option of another mechanism": (
        COPY + "model: {attention: {name: bahdanau, num_slots: 3}}\n",
        [],
        ["config.yaml:2: model.attention.num_slots:", "cache_keys"],
    ),
    "option that the model sets": (
        COPY + "model: {attention: {name: bahdanau, units: 3}}\n",
        [],
        ["config.yaml:2: model.attention.units:", "unknown"],
    ),
    "scoring misspelt": (
        COPY + "model: {attention: {name: memory, encoder_scoring: softmx}}\n",
        [],
        ["config.yaml:2: model.attention.encoder_scoring:", "mean softmax?"],
    ),
    "more hypotheses than the beam": (
        COPY + "decoding:\n  n_best: 11\n",
        [],
        ["config.yaml:3: decoding.n_best:", "beam_size"],
    ),
    "ties that do not fit": (
        COPY + "model: {tie_embeddings: all, units: 3}\n",
        [],
        ["config.yaml:2: model.tie_embeddings:", "embedding_size"],
    ),
    "grid as list": (COPY + "sweep: {grid: [1]}\n", [], ["config.yaml:2: sweep.grid:", "not [1]"]),
    "grid without values": (
        COPY + "sweep:\n  grid:\n    model.units: []\n",
        [],
        ["config.yaml:4: sweep.grid.model.units:", "not []"],
    ),
    "cell without keys": (COPY + "sweep:\n  cells: [3]\n", [], ["config.yaml:3: sweep.cells[0]:", "not 3"]),
    "cell misspelt": (
        COPY + "sweep: {cells: [{model.unit: 3}]}\n",
        [],
        ["sweep run unit=3: model.unit:", "mean units?"],
    ),
    "cell out of range": (
        COPY + "sweep: {grid: {model.units: [0]}}\n",
        [],
        ["sweep run units=0: model.units:", "not 0"],
    ),
    "same run twice": (COPY + "sweep: {grid: {model.units: [3, 3]}}\n", [], ["sweep:", "units=3"]),
    "long key": (COPY + f"{'x' * 900}: 1\n", [], ["config.yaml:2: xxx", "xxx ...: unknown"]),
    "long key deep down": (COPY + f"model: {{{'x' * 900}: 1}}\n", [], ["config.yaml:2: model.xxx", "xxx ...: unknown"]),
    "long base": (f"base: {'x' * 9000}\n", [], ["config.yaml:1: base:", "xxx ..."]),
    "long cell": (COPY + f"sweep: {{cells: [{{{'x' * 900}: 3}}]}}\n", [], ["sweep run xxx", "xxx ...: unknown"]),
    "long --set": (COPY, [f"model.bridge={'x' * 9000}"], ["--set model.bridge=xxx", "xxx ...: model.bridge: 'x"]),
    "long key of --set": (COPY, [f"model.{'x' * 9000}=1"], ["--set model.xxx", "xxx ...: unknown"]),
    "long --set without value": (COPY, ["x" * 9000], ["--set xxx", "key=value"]),
    "long --set that is no YAML": (COPY, [f"model.{'x' * 9000}=["], ["--set model.xxx", "YAML"]),
    "--set without value": (COPY, ["model.units"], ["--set model.units:", "key=value"]),
    "--set of nothing": (COPY, [""], ["--set :", "key=value"]),
    "--set misspelt": (COPY, ["model.unit=3"], ["--set model.unit=3: model.unit:", "mean units?"]),
    "--set of an option": (COPY, ["num_slots=8"], ["did you mean model.attention.num_slots?"]),
    "--set of a key in two sections": (
        COPY,
        ["batch_size=8"],
        ["batch_size: unknown key; did you mean training.batch_size or decoding.batch_size?"],
    ),
    "--set of a section": (COPY, ["model=3"], ["--set model=3: model:", "not 3"]),
    "--set below a value": (COPY + "model: {units: 3}\n", ["model.units.x=3"], ["model.units:", "not {'x': 3}"]),
    "--set out of range": (COPY, ["model.dropout=-1"], ["--set model.dropout=-1: model.dropout:", "not -1.0"]),
    "--set not YAML": (COPY, ["model.units=["], ["--set model.units:", "YAML"]),
    "--set of the grid": (COPY, ["sweep.grid=3"], ["--set sweep.grid=3: sweep.grid:", "not 3"]),
}

# id in CONFIGS -> complete message, for the mistakes that users make most.
MESSAGES = {
    "no data": "config.yaml: data: names no corpus; give data.folder (a prepared corpus), data.copy or data.task",
    "bracket": "config.yaml:3: not valid YAML: expected ',' or '}', but got '<stream end>'",
    "section misspelt": "config.yaml:2: trianing: unknown key; did you mean training?; known keys: data, model, "
    "training, decoding, sweep",
    "str for a number": "config.yaml:2: model.units: expected an int, not 'many'",
    "choice misspelt": "config.yaml:2: model.bridge: 'dens' is none of auto, zero, dense, backward; did you mean "
    "dense?",
    "negative dropout": "config.yaml:2: model.dropout: must be at least 0 and below 1, not -0.1",
    "option of another mechanism": "config.yaml:2: model.attention.num_slots: unknown option of bahdanau; its options: "
    "cache_keys",
    "unequal widths": "config.yaml:3: model.attention: luong_dot needs states as wide as model.units = 256, not 512; "
    "set model.encoder_units to half of it, or use luong",
    "--set without value": "--set model.units: write --set key=value, e.g. --set model.units=128",
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


@pytest.mark.parametrize("name", MESSAGES)
def test_the_commonest_mistakes_have_a_message_with_problem_and_remedy(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content, overrides, _ = CONFIGS[name]
    Path("config.yaml").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError) as refusal:
        expand(configs.load("config.yaml", overrides))
    assert str(refusal.value) == MESSAGES[name]


@pytest.mark.parametrize("name", CONFIGS)
def test_a_broken_config_is_refused(name, tmp_path, capsys):
    content, overrides, fragments = CONFIGS[name]
    path = tmp_path / "config.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())

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
        assert (folder / "run" / run_folder.CHECKPOINTS / f"step-{step}.index").exists()
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
    "a folder for a source": (
        lambda corpus: ((corpus / "train.source").unlink(), (corpus / "train.source").mkdir()),
        ["corpus/train.source: Is a directory"],
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
    "empty validation": (
        lambda corpus: [(corpus / f"valid.{side}").write_text("") for side in ("source", "target")],
        ["corpus/valid.source: ", "empty"],
        FAILURE,
    ),
    "no vocabulary": (
        lambda corpus: (corpus / "vocab.txt").unlink(),
        ["corpus/vocab.txt: No such file or directory"],
        FAILURE,
    ),
    "empty vocabulary": (
        lambda corpus: cut(corpus / "vocab.txt", 0),
        ["corpus/vocab.txt: ", "empty"],
        FAILURE,
    ),
    "token twice": (
        lambda corpus: (corpus / "vocab.txt").write_text("a\nb\na\n"),
        ["corpus/vocab.txt:3: ", "'a'", "line 1"],
        FAILURE,
    ),
    "space in a token": (
        lambda corpus: (corpus / "vocab.txt").write_text("a\nb c\n"),
        ["corpus/vocab.txt:2: ", "'b c'"],
        FAILURE,
    ),
    "bytes in the vocabulary": (
        lambda corpus: (corpus / "vocab.txt").write_bytes(b"a\n\xff\n"),
        ["corpus/vocab.txt:2: ", "0xff"],
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
        ["corpus: holds files, but no complete corpus of a task"],
        USAGE,
    ),
    "a file for a folder": (
        lambda corpus: (shutil.rmtree(corpus), corpus.touch()),
        ["corpus: Not a directory"],
        FAILURE,
    ),
    "settings cut off": (lambda corpus: cut(corpus / "copy.json"), ["corpus/copy.json: not JSON: "], USAGE),
    "settings of bytes": (
        lambda corpus: (corpus / "copy.json").write_bytes(b"\xff"),
        ["corpus/copy.json:1: ", "0xff"],
        USAGE,
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
        lambda run_dir: (run_dir / run_folder.CONFIG).unlink(),
        training,
        ["run: ", "no config.yaml"],
        USAGE,
    ),
    "config cut off": (lambda run_dir: cut(run_dir / run_folder.CONFIG), training, ["run/config.yaml:"], USAGE),
    "a file for a folder": (
        lambda run_dir: (shutil.rmtree(run_dir), run_dir.touch()),
        training,
        ["run: File exists"],
        FAILURE,
    ),
    "below a file": (
        lambda run_dir: None,
        lambda config, run_dir: training(config, run_dir / run_folder.CONFIG / "deeper"),
        ["run/config.yaml/deeper: Not a directory"],
        FAILURE,
    ),
    "nowhere": (
        lambda run_dir: None,
        lambda config, run_dir: evaluating(run_dir / "deeper"),
        ["run/deeper: no such folder"],
        USAGE,
    ),
    "another model for its weights": (
        lambda run_dir: None,
        lambda config, run_dir: evaluating(run_dir, "model.units=9"),
        ["--set model.units: ", "trained"],
        USAGE,
    ),
    "no beam": (
        lambda run_dir: None,
        lambda config, run_dir: evaluating(run_dir, "decoding.beam_size=0"),
        ["--set decoding.beam_size=0: decoding.beam_size: ", "not 0"],
        USAGE,
    ),
    "more hypotheses than its beam": (
        lambda run_dir: None,
        lambda config, run_dir: evaluating(run_dir, "decoding.n_best=3"),
        ["--set decoding.n_best=3: decoding.n_best: ", "decoding.beam_size"],
        USAGE,
    ),
    "no lexicon": (
        lambda run_dir: None,
        lambda config, run_dir: evaluating(run_dir, "decoding.lexicon=/nowhere/lexicon.tsv"),
        ["decoding.lexicon: ", "/nowhere/lexicon.tsv"],
        USAGE,
    ),
    "a line of a lexicon without a probability": (
        lambda run_dir: (run_dir / "lexicon.tsv").write_text("1\t2\t0.5\n1\t2\n", encoding="utf-8"),
        lambda config, run_dir: evaluating(run_dir, f"decoding.lexicon={run_dir}/lexicon.tsv"),
        ["lexicon.tsv:2: ", "probability"],
        FAILURE,
    ),
    "a lexicon's probability that is NaN": (
        lambda run_dir: (run_dir / "lexicon.tsv").write_text("1\t2\tnan\n", encoding="utf-8"),
        lambda config, run_dir: evaluating(run_dir, f"decoding.lexicon={run_dir}/lexicon.tsv"),
        ["lexicon.tsv:1: ", "probability"],
        FAILURE,
    ),
    "a lexicon of another vocabulary": (
        lambda run_dir: (run_dir / "lexicon.tsv").write_text("cat\tKatze\t0.5\n", encoding="utf-8"),
        lambda config, run_dir: evaluating(run_dir, f"decoding.lexicon={run_dir}/lexicon.tsv"),
        ["lexicon.tsv: ", "vocabulary"],
        FAILURE,
    ),
    "no such split": (
        lambda run_dir: None,
        lambda config, run_dir: evaluating(run_dir, split="test"),
        ["data: ", "test", "train, valid"],
        USAGE,
    ),
    "no such data": (
        lambda run_dir: None,
        lambda config, run_dir: evaluating(run_dir, "data.folder=/nowhere"),
        ["data.folder: /nowhere ", "--set data.folder="],
        USAGE,
    ),
    "no vocabulary": (
        lambda run_dir: (run_dir / run_folder.VOCABULARY).unlink(),
        lambda config, run_dir: evaluating(run_dir),
        ["run/vocab.txt: No such file or directory"],
        FAILURE,
    ),
    "no lengths": (
        lambda run_dir: (run_dir / run_folder.CORPUS).unlink(),
        lambda config, run_dir: evaluating(run_dir),
        ["run/corpus.json: ", "No such file or directory"],
        FAILURE,
    ),
    "lengths cut off": (
        lambda run_dir: cut(run_dir / run_folder.CORPUS),
        lambda config, run_dir: evaluating(run_dir),
        ["run/corpus.json: ", "JSON", "damaged"],
        FAILURE,
    ),
    "lengths of something else": (
        lambda run_dir: (run_dir / run_folder.CORPUS).write_text("[1]"),
        lambda config, run_dir: evaluating(run_dir),
        ["run/corpus.json: ", "not [1]", "damaged"],
        FAILURE,
    ),
    "no validation yet": (
        lambda run_dir: shutil.rmtree(run_dir / run_folder.BEST),
        lambda config, run_dir: evaluating(run_dir),
        ["run: ", "no best checkpoint", "4 steps"],
        FAILURE,
    ),
    "a file for the results": (
        lambda run_dir: None,
        lambda config, run_dir: evaluating(run_dir, output_dir=run_dir / run_folder.CONFIG),
        ["run/config.yaml: File exists"],
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


@pytest.mark.filterwarnings("ignore:.*unbuilt state:UserWarning")  # Keras 3 guesses at the reason first
def test_a_model_that_cannot_be_built_is_refused(config, tmp_path, capsys, monkeypatch):
    def make(**_):
        raise ValueError("units: too many")

    monkeypatch.setitem(building.KINDS, "seq2seq", make)
    assert status_of_refusal(capsys, training(config, tmp_path / "new"), "model: units: too many") == USAGE
    assert not (tmp_path / "new").exists()


def reverse(path):
    """Reverses the bytes of a file."""
    path.write_bytes(read(path)[::-1])


DAMAGES = {
    "data cut off": ("data-00000-of-00001", cut),
    "data reversed": ("data-00000-of-00001", reverse),
    "data gone": ("data-00000-of-00001", os.remove),
    "index cut off": ("index", cut),
    "index gone": ("index", os.remove),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_where_a_checkpoint_is_unreadable_an_older_checkpoint_is_restored(name, config, run_dir):
    part, damage = DAMAGES[name]
    damage(run_dir / run_folder.CHECKPOINTS / f"step-4.{part}")
    folder = str(run_dir / run_folder.CHECKPOINTS)
    model, _ = building.load_model(str(run_dir), config)
    with pytest.warns(UserWarning, match="step-4: .*skipped"):
        assert checkpoints.restore(Checkpoint(model), folder) == os.path.join(folder, "step-2")
    expected = tf.train.load_checkpoint(os.path.join(folder, "step-2"))
    for path, weight in checkpoints.named_weights(model).items():
        np.testing.assert_array_equal(weight.numpy(), expected.get_tensor(f"model/{path}/.ATTRIBUTES/VARIABLE_VALUE"))


@pytest.mark.long
def test_training_that_resumes_from_an_older_checkpoint_ends_with_the_same_weights(config, run_dir, trained, capsys):
    damaged = run_dir / run_folder.CHECKPOINTS / "step-4.data-00000-of-00001"
    cut(damaged)
    with pytest.warns(UserWarning, match="step-4: .*skipped"):
        assert training(config, run_dir)() == 0
    assert "resuming from " in capsys.readouterr().out
    expected = tf.train.load_checkpoint(str(trained[1] / run_folder.CHECKPOINTS / "step-4"))
    resumed = tf.train.load_checkpoint(str(run_dir / run_folder.CHECKPOINTS / "step-4"))
    for name in expected.get_variable_to_shape_map():
        if name.startswith("model"):
            np.testing.assert_array_equal(resumed.get_tensor(name), expected.get_tensor(name))


@pytest.mark.parametrize(
    ("folder", "command", "advice"),
    [
        (run_folder.CHECKPOINTS, training, "move the folder away"),
        (run_folder.BEST, lambda config, run_dir: evaluating(run_dir), "--average 1"),
    ],
)
def test_a_run_without_a_readable_checkpoint_is_refused(folder, command, advice, config, run_dir, capsys):
    for path in glob.glob(str(run_dir / folder / "*.data*")):
        cut(path)
    before = contents(run_dir)
    with pytest.warns(UserWarning, match="skipped"):
        assert status_of_refusal(capsys, command(config, run_dir), f"{folder}: ", advice) == FAILURE
    assert contents(run_dir) == before


@pytest.mark.parametrize("folder", [run_folder.CHECKPOINTS, run_folder.BEST])
@pytest.mark.parametrize("content", [b"", b"nonsense {", b"\xff\xfe"])
def test_a_run_with_a_damaged_list_of_checkpoints_does_not_start_over(content, folder, config, run_dir, capsys):
    (run_dir / folder / "checkpoint").write_bytes(content)
    before = contents(run_dir)
    assert status_of_refusal(capsys, training(config, run_dir), f"run/{folder}/checkpoint: ", "damaged") == FAILURE
    assert contents(run_dir) == before


def test_a_run_whose_list_of_checkpoints_is_lost_lists_them_by_their_names(config, run_dir, capsys):
    (run_dir / run_folder.CHECKPOINTS / "checkpoint").unlink()
    with pytest.warns(UserWarning, match="checkpoint: missing"):
        assert training(config, run_dir)() == 0
    assert f"({run_dir / run_folder.CHECKPOINTS / 'step-4'})\n" in capsys.readouterr().out


def test_the_best_checkpoint_is_kept_where_its_list_is_lost(config, run_dir):
    """The step of the best checkpoint is not that of the last, which would be written if the folder had none."""
    for path in (run_dir / run_folder.BEST).glob("step-4.*"):
        path.rename(path.with_name(path.name.replace("step-4", "step-3")))
    (run_dir / run_folder.BEST / "checkpoint").unlink()
    before = contents(run_dir / run_folder.BEST)
    with pytest.warns(UserWarning, match="best/checkpoint: missing"):
        assert training(config, run_dir)() == 0
    assert contents(run_dir / run_folder.BEST) == before


@pytest.mark.parametrize("name", [run_folder.CHECKPOINTS, run_folder.BEST, "events"])
def test_a_file_where_training_needs_a_folder_is_reported_before_the_first_step(name, config, tmp_path, capsys):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / name).touch()
    assert status_of_refusal(capsys, training(config, tmp_path / "new"), f"new/{name}: File exists") == FAILURE
    assert not glob.glob(str(tmp_path / "new" / "*" / "step-*"))


@pytest.mark.usefixtures("no_privilege")
def test_a_read_only_checkpoint_folder_is_reported_before_the_first_step(config, tmp_path, capsys):
    (tmp_path / "new" / run_folder.BEST).mkdir(parents=True, mode=0o500)
    assert (
        status_of_refusal(capsys, training(config, tmp_path / "new"), f"new/{run_folder.BEST}: Permission denied")
        == FAILURE
    )
    assert not glob.glob(str(tmp_path / "new" / "*" / "step-*"))


class Disk:
    """A disk that can be full: then neither Python nor TensorFlow can write a file beyond a size."""

    def __init__(self):
        self.limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self, size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, self.limits[1]))

    def clear(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, self.limits)


@pytest.fixture
def disk():
    disk = Disk()
    yield disk
    disk.clear()


def test_a_full_disk_while_the_copy_task_is_prepared_is_reported(config, disk, tmp_path, capsys):
    copy_task = tiny(tmp_path / "corpus")
    disk.fill(100)
    assert status_of_refusal(capsys, training(copy_task, tmp_path / "new"), "corpus: File too large") == FAILURE
    disk.clear()
    assert not (tmp_path / "corpus").exists()
    assert not (tmp_path / "new").exists()
    task_corpus.prepare(copy_task.data.copy, copy_task.data.path)
    assert contents(copy_task.data.path) == contents(config.data.path)


def test_a_full_disk_while_a_run_folder_is_created_is_reported(config, disk, tmp_path, capsys):
    disk.fill(100)  # enough for the vocabulary, not for the config
    assert status_of_refusal(capsys, training(config, tmp_path / "new"), "new/config.yaml", "File too large") == FAILURE
    disk.clear()
    assert not (tmp_path / "new" / run_folder.CONFIG).exists()
    assert training(config, tmp_path / "new")() == 0
    assert run_folder.load_config(str(tmp_path / "new")) == config


@pytest.mark.slow
def test_a_full_disk_while_a_checkpoint_is_written_is_reported(config, disk, tmp_path, monkeypatch, capsys):
    checkpoints_before = {}
    step = TrainingStep.__call__

    def fill_after_the_first_checkpoint(self, batches, number, learning_rate):
        if number == 2:
            checkpoints_before.update(contents(tmp_path / "new" / run_folder.CHECKPOINTS))
            disk.fill(4096)
        return step(self, batches, number, learning_rate)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingStep, "__call__", fill_after_the_first_checkpoint)
        assert (
            status_of_refusal(capsys, training(config, tmp_path / "new"), "TensorFlow: ", "File too large") == FAILURE
        )
    disk.clear()
    checkpoints_after = contents(tmp_path / "new" / run_folder.CHECKPOINTS)
    assert "step-2.index" in checkpoints_before
    assert {name: checkpoints_after.get(name) for name in checkpoints_before} == checkpoints_before
    assert training(config, tmp_path / "new")() == 0
    assert "resuming from " in capsys.readouterr().out


def test_a_full_disk_while_results_are_written_is_reported(run_dir, disk, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / RESULT).write_text("of an earlier evaluation")
    before = contents(run_dir)
    disk.fill(2)
    assert (
        status_of_refusal(capsys, evaluating(run_dir, output_dir=out), "out/hypotheses.txt", "File too large")
        == FAILURE
    )
    disk.clear()
    assert (out / RESULT).read_text() == "of an earlier evaluation"
    assert not (out / HYPOTHESES).exists()
    assert contents(run_dir) == before


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_cannot_be_written_is_reported(number, config, tmp_path, monkeypatch, capsys):
    def refuse(path, *arguments, **options):
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "makedirs", refuse)
    command = training(config, tmp_path / "new")
    assert status_of_refusal(capsys, command, f"{tmp_path}/new: {os.strerror(number)}") == FAILURE


@pytest.fixture
def no_privilege():
    """Takes from root, for the time of a test, the capabilities that let it ignore the modes of files."""
    libc, dac_override, dac_read_search = ctypes.CDLL(None, use_errno=True), 1 << 1, 1 << 2
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this thread
    original, reduced = (ctypes.c_uint32 * 6)(), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, original) == 0
    reduced[:] = [original[0] & ~(dac_override | dac_read_search), *original[1:]]
    assert libc.capset(header, reduced) == 0
    yield
    assert libc.capset(header, original) == 0


@pytest.mark.usefixtures("no_privilege")
def test_a_folder_without_permission_is_reported(config, tmp_path, capsys):
    (tmp_path / "locked").mkdir(mode=0o500)
    command = training(config, tmp_path / "locked" / "new")
    assert status_of_refusal(capsys, command, "locked/new: Permission denied") == FAILURE


def test_a_lack_of_memory_is_reported(config, tmp_path, monkeypatch, capsys):
    full = np.full

    def small_only(shape, *arguments, **options):
        if np.prod(shape, dtype=float) > 1e9:
            raise MemoryError(f"Unable to allocate an array of shape {shape}")
        return full(shape, *arguments, **options)

    monkeypatch.setattr(np, "full", small_only)
    huge = tiny(config.data.path, {"training.batch_size": 2**31 - 1})
    assert status_of_refusal(capsys, training(huge, tmp_path / "new"), "memory", "(2147483647, ") == FAILURE


@pytest.mark.slow
def test_weights_that_become_nan_in_a_run_are_reported_with_the_batch_and_the_last_checkpoint(
    config, tmp_path, monkeypatch, capsys
):
    checkpoints_before = {}
    step = TrainingStep.__call__

    def lose_a_weight(self, batches, number, learning_rate):
        if number == 2:
            checkpoints_before.update(contents(tmp_path / "new" / run_folder.CHECKPOINTS))
            self.model.trainable_variables[0].assign(self.model.trainable_variables[0] * np.nan)
        return step(self, batches, number, learning_rate)

    monkeypatch.setattr(TrainingStep, "__call__", lose_a_weight)
    fragments = ["not finite at step 3", "bad_step-3.npz", "checkpoints/step-2", "learning_rate"]
    strict = tiny(config.data.path, {"training.max_bad_steps": 0})
    assert status_of_refusal(capsys, training(strict, tmp_path / "new"), *fragments) == FAILURE
    assert "step-2.index" in checkpoints_before
    assert contents(tmp_path / "new" / run_folder.CHECKPOINTS) == checkpoints_before
    assert not os.listdir(tmp_path / "new" / run_folder.BEST)
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


def test_the_relevant_line_is_chosen_among_root_errors():
    parts = ["Graph execution error:\n", "Detected at node a defined at (most recent call last):"]
    parts += ["<stack traces unavailable>", "2 root error(s) found.", "  (0) INTERNAL: no room", "\t [[{{node a}}]]"]
    assert reason(ValueError("\n".join(parts))) == "(0) INTERNAL: no room"


# id -> module, arguments, fragments of the message, exit status
COMMANDS = {
    "unknown flag": ("train", ["--confg=x"], ["'confg'"], USAGE),
    "missing flag": ("train", ["--run_dir=x"], ["--config", "missing"], USAGE),
    "no flag": ("eval", ["--run_dir=x", "deeper"], ["deeper: ", "not a flag"], USAGE),
    "long path": ("train", [f"--config={'x' * 9000}", "--run_dir=y"], ["xxx ... xxx"], USAGE),
    "long split": ("eval", [f"--run_dir={'x' * 9000}", f"--split={'x' * 9000}"], ["xxx ... xxx"], USAGE),
    "split and files": ("eval", ["--run_dir=x", "--split=valid", "--source=a", "--target=b"], ["--split"], USAGE),
    "ensemble": ("eval", ["--run_dir=x", "--run_dir=y"], ["--output_dir: "], USAGE),
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
