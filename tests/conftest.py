"""What the tests share: a tiny corpus, a tiny config and a way to run a command as a user would."""

import contextlib
import ctypes
import dataclasses
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import fork_server
import pytest
import tensorflow as tf
import yaml

from memattn import config as configs
from memattn.attention import MECHANISMS
from memattn.evaluation import evaluate as evaluation
from memattn.evaluation.metrics import METRICS, Score
from memattn.evaluation.result import Result
from memattn.runs.trained import load

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"  # real text and the paper's tables, where they are at hand

TINY = {
    "data": {"copy": {"max_length": 5, "num_symbols": 4, "train_examples": 60, "valid_examples": 12}, "num_buckets": 1},
    "model": {
        "layers": 1,
        "units": 8,
        "embedding_size": 8,
        "dropout": 0.1,
        "attention": {"name": "memory", "num_slots": 3},
    },
    "training": {
        "batch_size": 8,
        "learning_rate": 0.01,
        "max_steps": 6,
        "log_every": 2,
        "validate_every": 3,
        "checkpoint_every": 2,
        "jit_compile": False,
    },
    "decoding": {"beam_size": 2, "batch_size": 4, "jit_compile": False},
}


CHOSEN = []  # mechanisms of --mechanism, which conformance tests then run on in place of the registered ones


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="Faults by the hundred; long.")
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
    """How often a fault is tried: times(short=..., full=...)."""
    return lambda *, short, full: full if request.config.getoption("--full") else short


@pytest.fixture(scope="session")
def commands(times):
    """What fork_server.commands gives: commands by the dozen, in a fork each."""
    with fork_server.commands(times(short=1, full=2)) as given:
        yield given


@pytest.fixture
def command(commands):
    """command(folder, module, arguments...) is `python -m module arguments` in a folder: [status, stdout, stderr]."""
    return commands[0]


def pytest_configure(config):
    """Chosen mechanisms, four logical CPU devices, graphs as they were written, SIGINT as at a terminal.

    The devices are for the tests of distribution, and must come before TensorFlow starts. Most graphs here run a few
    times, and optimizing one takes longer; commands in processes of their own do optimize.
    """
    CHOSEN[:] = config.getoption("--mechanism")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell starts what is to run in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)


def replicas(number):
    """A strategy of so many CPU devices; as in TensorFlow's own tests, with keys that no other of this process has."""
    tf.distribute.MirroredStrategy._collective_key_base += 100_000
    return tf.distribute.MirroredStrategy([f"CPU:{device}" for device in range(number)])


def free():
    """Gives back the memory of models that are no longer used: graphs are cycles, and malloc keeps what was freed."""
    gc.collect()
    with contextlib.suppress(AttributeError):  # glibc's
        ctypes.CDLL(None).malloc_trim(0)


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
    """The same, loaded; what the test trains is freed at its end."""

    def load(changes=None):
        return configs.load(write_config(changes), [])

    yield load
    free()


def evaluate(run_dir, *overrides, split="valid", plots=0, output_dir=None):
    """Evaluates a split with a run's best checkpoint, once; the content of result.json."""
    trained = load([str(run_dir)], list(overrides), None)
    evaluated = evaluation.evaluate(trained, evaluation.read_split(trained, split), repeats=1)
    evaluation.write(evaluated, trained, str(output_dir or run_dir), num_plots=plots)
    return evaluated.result.to_json()


@pytest.fixture
def made_up_scores(monkeypatch):
    """made_up_scores(bleu=[...]) gives a metric these values in turn, and the last one for good."""

    def make_up(**values):
        for name, scores in values.items():
            left = list(scores)

            def score(_, left=left):
                return Score(left.pop(0) if len(left) > 1 else left[0])

            monkeypatch.setitem(METRICS, name, dataclasses.replace(METRICS[name], score=score))

    return make_up


def made_up_result(config, **changes):
    """A result of a config, with the figures that matter to a test."""
    figures = {
        "scores": {"bleu": 50.25, "exact_match": 25.0},
        "signatures": {},
        "decode_seconds": 1.5,
        "decode_seconds_min": 1.25,
        "decode_seconds_max": 2.0,
        "sentences": 12,
        "parameters": 99,
        "step": 4,
        "split": "valid",
        "checkpoints": ["run/best/step-4"],
        "config": configs.to_dict(config),
    }
    unset = {"int": 0, "float": 0.0, "str": "", "bool": False, "str | None": None}
    fields = {field.name: getattr(field.type, "__name__", str(field.type)) for field in dataclasses.fields(Result)}
    others = {name: unset[kind] for name, kind in fields.items() if kind in unset}
    return Result(**{**others, **figures, **changes})


def second(do, said):
    """Calls do() in a thread; waits until said() is true while it runs; returns the thread."""
    thread = threading.Thread(target=do)
    thread.start()
    deadline = time.monotonic() + 20
    while not said():
        assert thread.is_alive() and time.monotonic() < deadline
        time.sleep(0.01)
    return thread


def run_command(module, *arguments, timeout=120, **options):
    """`python -m module arguments` from the repository, with its output as text."""
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )
