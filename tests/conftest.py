"""Options of pytest, fixtures, and TensorFlow as the tests need it."""

import dataclasses
import os
import signal

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest
import tensorflow as tf
import yaml
from helpers import fork_server
from helpers.chosen import CHOSEN
from helpers.runs import TINY, free

from memattn import config as configs
from memattn.attention import MECHANISMS
from memattn.evaluation.metrics import METRICS, Score


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
def chosen_mechanisms_known_to_keras():
    """Lets Keras load chosen mechanisms from files, as registering them would."""
    with tf.keras.utils.custom_object_scope({MECHANISMS[name].__name__: MECHANISMS[name] for name in CHOSEN}):
        yield


@pytest.fixture(scope="session")
def times(request):
    """times(short=..., full=...): how often a fault is tried, by --full."""
    return lambda *, short, full: full if request.config.getoption("--full") else short


@pytest.fixture(scope="session")
def commands(times):
    """Runs many commands quickly, each in a fork of one process: `run` and `map` of fork_server.commands."""
    with fork_server.commands(times(short=1, full=2)) as run_and_map:
        yield run_and_map


@pytest.fixture
def command(commands):
    """command(folder, module, arguments...) runs `python -m module arguments` there: [status, stdout, stderr]."""
    return commands[0]


def pytest_configure(config):
    """Sets the chosen mechanisms, four logical CPU devices, unoptimized graphs, and SIGINT as at a terminal.

    Tests of distribution need the devices, which must be there before TensorFlow starts. Most graphs of tests run a few
    times only, and optimizing one takes longer. Commands in processes of their own do optimize.
    """
    CHOSEN[:] = config.getoption("--mechanism")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a shell's background jobs
        signal.signal(signal.SIGINT, signal.default_int_handler)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)


@pytest.fixture
def write_config(tmp_path):
    """Writes a config: TINY with dotted keys set, its data under the test's folder; returns the file's path."""

    def write(changes=None, name="config.yaml"):
        tree = configs.apply_changes(TINY, {"data.folder": str(tmp_path / "data"), **(changes or {})})
        path = tmp_path / name
        path.write_text(yaml.safe_dump(tree), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def tiny_config(write_config):
    """Writes a config as write_config does and loads it; at its end the test's models are freed."""

    def load(changes=None):
        return configs.load(write_config(changes), [])

    yield load
    free()


@pytest.fixture
def made_up_scores(monkeypatch):
    """made_up_scores(bleu=[...]) gives a metric these values in turn, then the last one each time."""

    def make_up(**values):
        for name, scores in values.items():
            left = list(scores)

            def score(_, left=left):
                return Score(left.pop(0) if len(left) > 1 else left[0])

            monkeypatch.setitem(METRICS, name, dataclasses.replace(METRICS[name], score=score))

    return make_up
