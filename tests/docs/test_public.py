"""The public interface: lazy imports, examples of docstrings, and use that leaves the process unchanged.

The examples of the layers are in tests/attention/test_backends.py.
"""

import ast
import doctest
import inspect
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import tensorflow as tf
from helpers.pages import run_block
from helpers.repository import COMMANDS, run_python
from helpers.runs import NO_STRATEGY, evaluate

import memattn
import memattn.layers
from memattn import attention
from memattn.errors import ConfigError
from memattn.training.trainer import train

USING_A_RUN = ["train_model", "evaluate_model", "load"]  # in this order: the first makes the run of the others
DOCSTRINGS = {name: inspect.getdoc(getattr(memattn, name)) or "" for name in dir(memattn)}
EXAMPLES = {name for name, text in DOCSTRINGS.items() if "Example:\n" in text} - {*memattn.layers.__all__}


def test_the_package_imports_neither_tensorflow_nor_numpy():
    code = "import sys, memattn; assert not {'tensorflow', 'numpy'} & sys.modules.keys()"
    result = run_python("-c", code)
    assert result.returncode == 0, result.stderr


def test_modules_of_commands_do_not_import_tensorflow():
    code = f"import sys; from memattn import {', '.join(sorted(COMMANDS))}; assert 'tensorflow' not in sys.modules"
    result = run_python("-c", code)
    assert result.returncode == 0, result.stderr


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


@pytest.mark.slow
def test_a_run_is_loaded_as_the_page_shows_and_the_process_stays_unchanged(tiny_config, tmp_path, monkeypatch):
    run_dir = str(tmp_path / "runs" / "small")
    changes = {"training.precision": "mixed_bfloat16", "training.seed": 5, "training.max_steps": 1}
    assert train(tiny_config(changes), run_dir, NO_STRATEGY) == 0
    before = np.random.get_state()[1].tolist(), matplotlib.get_backend()  # noqa: NPY002
    options = tf.config.optimizer.get_experimental_options()
    with pytest.warns(UserWarning, match="tokens are not in the vocabulary"):  # the run knows few symbols
        translations = run_block("memattn.load(", tmp_path, monkeypatch)["translations"]
    evaluate(run_dir, plots=1)
    with pytest.raises(ConfigError, match="overrides: .*not 'decoding.beam_size=5'"):
        memattn.load(run_dir, "decoding.beam_size=5")
    assert len(translations) == 3
    assert translations[1] == ""
    assert before == (np.random.get_state()[1].tolist(), matplotlib.get_backend())  # noqa: NPY002
    assert tf.config.optimizer.get_experimental_options() == options
    assert tf.keras.layers.Dense(3).compute_dtype == "float32"


def run_example(name):
    example = DOCSTRINGS[name].partition("Example:\n")[2]
    test = doctest.DocTestParser().get_doctest(example, {}, name, None, 0)
    assert test.examples
    doctest.DebugRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL).run(test)


@pytest.mark.parametrize("name", sorted(EXAMPLES - {*USING_A_RUN}))
def test_an_example_gives_what_it_shows(name):
    run_example(name)


@pytest.mark.slow
def test_the_examples_train_evaluate_and_load_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in USING_A_RUN:
        run_example(name)
