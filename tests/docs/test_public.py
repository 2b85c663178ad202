"""The public interface: lazy imports and examples of docstrings.

The examples of the layers are in tests/attention/test_backends.py.
"""

import ast
import doctest
import inspect
from pathlib import Path

import numpy as np
import pytest
import yaml
from helpers.repository import COMMANDS, run_python
from helpers.runs import TINY

import memattn
import memattn.layers
from memattn import attention
from memattn import config as configs
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


@pytest.mark.slow
def test_the_examples_train_evaluate_and_load_a_run(tmp_path, monkeypatch):
    """A tiny config stands for copy/small, whose numbers of parameters, pairs and sentences the examples print."""
    small = configs.load("copy/small", [])
    model = build_model(small, small.data.copy.num_symbols + 4, {"max_source_length": 17})
    parameters = sum(np.prod(weight.shape) for weight in model.trainable_variables)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "copy").mkdir()
    copy = {**TINY["data"]["copy"], "num_symbols": 8}
    (tmp_path / "copy" / "small").write_text(yaml.safe_dump({**TINY, "data": {**TINY["data"], "copy": copy}}))
    run_example("train_model", f"{parameters:,} parameters, {small.data.copy.train_examples:,} training pairs", "...")
    run_example("evaluate_model", f"({small.data.copy.valid_examples}, ", "(12, ")
    run_example("load")
