"""Options of pytest, fixtures that several folders share, and settings of TensorFlow for tests."""

import contextlib
import dataclasses
import gc
import os
import signal

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # whatever it was: tests read what commands print

import pytest
import tensorflow as tf
import yaml
from helpers import fork_server
from helpers.marks import CHOSEN
from helpers.runs import NO_STRATEGY, TINY, free, tiny

from memattn import config as configs
from memattn.attention import mechanism
from memattn.evaluation.metrics import METRICS, Score
from memattn.training.trainer import train


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="Try faults by the hundred; takes hours.")
    parser.addoption(
        "--mechanism",
        action="append",
        default=[],
        metavar="MODULE:CLASS",
        help="Run conformance tests on this attention mechanism, with its default options; may be repeated.",
    )


@pytest.fixture(autouse=True)
def seeded():
    """Gives each test the same random numbers, in whatever order the tests run."""
    tf.keras.utils.set_random_seed(1)


@pytest.fixture(autouse=True)
def chosen_mechanisms_known_to_keras():
    """Lets Keras load from files the mechanisms that --mechanism names; they are not registered with it."""
    with tf.keras.utils.custom_object_scope({mechanism(name).__name__: mechanism(name) for name in CHOSEN}):
        yield


@pytest.fixture(scope="session")
def times(request):
    """times(short=..., full=...) returns how often a fault is tried: `full` with --full, else `short`."""
    return lambda *, short, full: full if request.config.getoption("--full") else short


@pytest.fixture(scope="session")
def command():
    """command(folder, module, arguments..., stdin="", may_fail=False) runs `python -m module arguments` in a folder.

    As `run_python` does, but quickly in a fork: returns the completed process.
    """
    with fork_server.commands() as run:
        yield run


def pytest_configure(config):
    """Sets the chosen mechanisms, four logical CPU devices, unoptimized graphs, and SIGINT as at a terminal.

    Tests of distribution need the devices, which must be set before TensorFlow starts. Most graphs of tests run only a
    few times, and optimizing a graph takes longer than that. Commands in separate processes do optimize.
    """
    CHOSEN[:] = config.getoption("--mechanism")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a shell's background jobs ignore it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    gc.set_threshold(50_000)  # tracing makes many objects that live on; `free` collects them
    gc.freeze()  # `free` need not scan what the imports made, which lives on
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)


@pytest.fixture
def write_config(tmp_path):
    """write_config(changes) writes TINY with dotted keys changed, its data in the test's folder; returns the path."""

    def write(changes=None, name="config.yaml"):
        tree = configs.apply_changes(TINY, {"data.folder": str(tmp_path / "data"), **(changes or {})})
        path = tmp_path / name
        path.write_text(yaml.safe_dump(tree), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def tiny_config(write_config):
    """tiny_config(changes) writes a config with write_config and returns it loaded; frees models after the test."""

    def load(changes=None):
        return configs.load(write_config(changes), [])

    yield load
    free()


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The folder of a finished run of TINY, which no test changes; what it printed is beside it, in output.txt.

    Its path has a blank and other characters that shells and TensorFlow might treat specially.
    """
    folder = tmp_path_factory.mktemp("finished {run} (50%)")
    with open(folder / "output.txt", "w", encoding="utf-8") as output, contextlib.redirect_stdout(output):
        assert train(tiny({"data.folder": str(folder / "data")}), str(folder / "run"), NO_STRATEGY) == 0
    return folder / "run"


@pytest.fixture
def made_up_scores(monkeypatch):
    """made_up_scores(bleu=[...]) makes a metric return these values in turn, and the last value from then on."""

    def make_up(**values_by_metric):
        for name, values in values_by_metric.items():
            remaining = list(values)

            def score(_, remaining=remaining):
                return Score(remaining.pop(0) if len(remaining) > 1 else remaining[0])

            monkeypatch.setitem(METRICS, name, dataclasses.replace(METRICS[name], score=score))

    return make_up
