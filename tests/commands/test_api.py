"""The Python interface: lazy imports, examples of docstrings, and training and evaluation as the commands do them.

The examples of the layers are in tests/attention/test_backends.py.
"""

import ast
import doctest
import inspect
import os
import signal
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import tensorflow as tf
import yaml
from helpers.pages import run_block
from helpers.repository import COMMANDS, run_python
from helpers.runs import TINY, evaluate

import memattn
import memattn.layers
from memattn import attention, console
from memattn import config as configs
from memattn.errors import ConfigError
from memattn.files import read_csv, read_json
from memattn.runs.trained import build_model

USING_A_RUN = ["train_model", "evaluate_model", "load"]
DOCSTRINGS = {name: inspect.getdoc(getattr(memattn, name)) or "" for name in dir(memattn)}
EXAMPLES = {name for name, text in DOCSTRINGS.items() if "Example:\n" in text} - {*memattn.layers.__all__}


def test_the_package_imports_neither_tensorflow_nor_numpy_and_no_command_imports_tensorflow():
    code = "import sys, memattn; assert not {'tensorflow', 'numpy'} & sys.modules.keys(); "
    code += f"from memattn import {', '.join(sorted(COMMANDS))}; assert 'tensorflow' not in sys.modules"
    run_python("-c", code)


def test_type_checkers_see_the_public_names():
    """Public names are imported lazily; type checkers read imports under `if TYPE_CHECKING`."""
    tree = ast.parse(Path(memattn.__file__).read_text(encoding="utf-8"))
    (type_checking,) = [node for node in tree.body if isinstance(node, ast.If)]
    names = {alias.name for node in type_checking.body for alias in node.names} - {"*"}
    assert names <= set(dir(memattn)) <= names | vars(attention).keys()


def test_every_public_name_can_be_used_and_unknown_names_raise():
    for name in dir(memattn):
        assert callable(getattr(memattn, name))
    for name in ("NoSuchAttention", "no_such_name"):
        with pytest.raises(AttributeError, match=f"module 'memattn' has no attribute '{name}'"):
            getattr(memattn, name)


def run_example(name, printed="", expected=""):
    """Runs the example of a docstring; instead of `printed`, it prints what is expected here."""
    assert printed in DOCSTRINGS[name]
    example = DOCSTRINGS[name].partition("Example:\n")[2].replace(printed, expected)
    test = doctest.DocTestParser().get_doctest(example, {}, name, None, 0)
    assert test.examples
    doctest.DebugRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL).run(test)


@pytest.mark.parametrize("name", sorted(EXAMPLES - {*USING_A_RUN}))
def test_an_example_gives_what_it_shows(name):
    run_example(name)


def write_small(folder, changes):
    """Writes a tiny config, with changes, which stands for copy/small in a folder."""
    (folder / "copy").mkdir()
    (folder / "copy" / "small").write_text(yaml.safe_dump(configs.apply_changes(TINY, changes)), encoding="utf-8")


@pytest.mark.slow
def test_the_examples_train_evaluate_and_load_a_run(tmp_path, monkeypatch):
    """A tiny config stands for copy/small, whose numbers of parameters, pairs and sentences the examples print."""
    small = configs.load("copy/small", [])
    model = build_model(small, small.data.copy.num_symbols + 4, {"max_source_length": 17})
    parameters = sum(np.prod(weight.shape) for weight in model.trainable_variables)
    monkeypatch.chdir(tmp_path)
    write_small(tmp_path, {"data.copy.num_symbols": 8})
    run_example("train_model", f"{parameters:,} parameters, {small.data.copy.train_examples:,} training pairs", "...")
    run_example("evaluate_model", f"({small.data.copy.valid_examples}, ", "(12, ")
    run_example("load")


@pytest.mark.slow
def test_the_page_trains_evaluates_and_loads_a_run_and_the_process_stays_unchanged(tmp_path, monkeypatch):
    changes = {"training.max_steps": 9, "training.precision": "mixed_bfloat16", "training.seed": 5}
    write_small(tmp_path, changes)
    names = run_block("memattn.train_model(", tmp_path, monkeypatch, [("max_steps=250", "max_steps=6")])
    before = np.random.get_state()[1].tolist(), matplotlib.get_backend()  # noqa: NPY002
    options = tf.config.optimizer.get_experimental_options()
    rows = [{name: float(value) for name, value in row.items()} for row in read_csv("runs/small/validation.csv")]
    assert names["validations"] == rows
    assert [row["step"] for row in rows] == [3, 6]
    assert names["result"].to_json() == read_json("runs/small/eval/valid/result.json")
    assert evaluate("runs/small", plots=1)["bleu"] == names["result"].scores["bleu"]
    (tmp_path / "lines").write_text("1 2\n\n", encoding="utf-8")
    result = memattn.evaluate_model(tmp_path / "runs/small", files=(tmp_path / "lines", tmp_path / "lines"))
    assert (result.sentences, result.split) == (2, str(tmp_path / "lines"))
    with pytest.warns(UserWarning, match="tokens are not in the vocabulary"):  # the run knows few symbols
        translations = run_block("memattn.load(", tmp_path, monkeypatch)["translations"]
    assert (len(translations), translations[1]) == (3, "")
    assert before == (np.random.get_state()[1].tolist(), matplotlib.get_backend())  # noqa: NPY002
    assert tf.config.optimizer.get_experimental_options() == options
    assert tf.keras.layers.Dense(3).compute_dtype == "float32"


@pytest.mark.slow
def test_an_interrupted_training_is_resumed_by_the_same_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    say = console.say

    def interrupt_at_first_validation(text, file=None):
        say(text, file)
        if text.startswith("validation at step 3"):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(console, "say", interrupt_at_first_validation)
    with pytest.raises(KeyboardInterrupt):
        memattn.train_model(TINY, "stopped")
    assert [row["step"] for row in memattn.train_model(TINY, tmp_path / "stopped")] == [3, 6]


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (memattn.train_model, [{"dta": {}}, "run"], "config: dta: unknown"),
        (memattn.train_model, [TINY, "run", "model.units=4"], "overrides: must be a list of strings, not 'model.units"),
        (memattn.evaluate_model, [["run", "run"]], "output_dir: required for an ensemble"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, monkeypatch, function, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        function(*arguments)
    assert not os.path.exists("run")
