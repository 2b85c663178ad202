"""The examples in the docstrings of the public names run, and give what they show.

Those of the layers are in tests/attention/test_backends.py.
"""

import doctest
import inspect

import pytest

import memattn
import memattn.layers

USING_A_RUN = ["train_model", "evaluate_model", "load"]  # in this order: the first makes the run of the others
DOCSTRINGS = {name: inspect.getdoc(getattr(memattn, name)) or "" for name in dir(memattn)}
EXAMPLES = {name for name, text in DOCSTRINGS.items() if "Example:\n" in text} - {*memattn.layers.__all__}


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
