"""The run folder: the config, vocabulary and checkpoints of one training run, and the model that they make."""

import functools
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
import warnings
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from memattn import __version__, config, processes
from memattn.attention import MECHANISMS
from memattn.config import Config
from memattn.corpus import VOCABULARY, read_vocabulary
from memattn.errors import ConfigError, RunError, reason
from memattn.files import write
from memattn.model import Seq2Seq
from memattn.vocab import Vocabulary

CONFIG, CORPUS = "config.yaml", "corpus.json"
CHECKPOINTS, BEST, LOCK = "checkpoints", "best", "lock"


def create(
    folder: str, run_config: Config, vocabulary: Vocabulary, corpus: dict[str, int], text_files: dict[str, str]
) -> None:
    """Makes a run folder, or checks that an existing one is of the same config and training data.

    `corpus` holds what is to be known of the training data, `text_files` how its text became tokens. Raises
    ConfigError, OSError.
    """
    path = os.path.join(folder, CONFIG)
    facts = {VOCABULARY: str(vocabulary), CORPUS: json.dumps(corpus) + "\n", **text_files}
    if os.path.exists(path):
        differing = config.differences(config.to_dict(load_config(folder)), config.to_dict(run_config))
        if differing:
            raise ConfigError(
                f"{folder}: holds a run of another config: {', '.join(differing)}; take another --run_dir"
            )
        for name, content in facts.items():
            if not _holds(os.path.join(folder, name), content):
                raise ConfigError(
                    f"{os.path.join(folder, name)}: does not fit the data in {run_config.data.path}, which has changed "
                    "since this run began; take another --run_dir"
                )
        return
    if os.path.isdir(os.path.join(folder, CHECKPOINTS)):
        raise ConfigError(f"{folder}: holds checkpoints but no {CONFIG}; take another --run_dir")
    os.makedirs(folder, exist_ok=True)
    for name, content in facts.items():
        write(os.path.join(folder, name), content)
    write(path, config.dump(run_config))


def locked(folder: str) -> AbstractContextManager[None]:
    """Keeps every other training out of a run folder. Raises RunError where one is in it, OSError."""
    return processes.locked(os.path.join(folder, LOCK), folder, "is training in it; wait, or take another --run_dir")


def load_config(folder: str) -> Config:
    """The config that a run folder was made with. Raises ConfigError."""
    path = os.path.join(folder, CONFIG)
    if not os.path.exists(path):
        raise ConfigError(f"{folder}: not a run folder: it holds no {CONFIG}")
    return config.load(path, [], MECHANISMS)


def load_model(folder: str, run_config: Config) -> tuple[Seq2Seq, Vocabulary]:
    """The model of a run folder with fresh weights, and its vocabulary. Raises DataError, RunError."""
    vocabulary = read_vocabulary(os.path.join(folder, VOCABULARY))
    path = os.path.join(folder, CORPUS)
    try:
        with open(path, encoding="utf-8") as file:
            facts = json.load(file)
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: unreadable ({type(error).__name__}: {error})") from error
    longest = facts.get("max_source_length") if isinstance(facts, dict) else None
    if type(longest) is not int or not 0 < longest < 1 << 31:
        raise RunError(f"{path}: damaged: max_source_length should be a whole number above 0, in {str(facts)[:80]}")
    return build_model(run_config, len(vocabulary), longest), vocabulary


def build_model(run_config: Config, vocabulary_size: int, max_source_length: int) -> Seq2Seq:
    """The model of a config with all its weights made, drawn from `training.seed`. Raises ConfigError."""
    tf.keras.utils.set_random_seed(run_config.training.seed)
    tf.keras.mixed_precision.set_global_policy(run_config.training.precision)
    sizes = {"vocabulary_size": vocabulary_size, "max_source_length": max_source_length}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Keras 3 warns of what it then raises
            model = Seq2Seq(**vars(run_config.model), **sizes)
            model(tf.ones([1, 2], tf.int32), tf.ones([1, 2], tf.int32))
    except ValueError as error:
        raise ConfigError(f"model: {reason(error)}") from error
    return model


def conditions() -> dict[str, Any]:
    """What a result was made with: command, versions, commit, hardware, threads."""
    devices = tf.config.get_visible_devices("GPU")
    names = [tf.config.experimental.get_device_details(device).get("device_name", device.name) for device in devices]
    return {
        "command": _command(),
        "memattn": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": importlib.metadata.version("keras"),
        "device": ", ".join(names) or f"CPU, {_processor()}",
        "cores": processes.cores(),
        "intra_op_threads": tf.config.threading.get_intra_op_parallelism_threads(),
        "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
    }


def jit_compile(choice: bool | str) -> bool:
    """`auto` as measured: XLA wins from TensorFlow 2.20 on and loses before."""
    return tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 20) if choice == "auto" else choice


def _holds(path: str, content: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read() == content
    except (OSError, UnicodeDecodeError):
        return False


def _command() -> str:
    """What was typed; of a program by its path, such as memattn-sweep, the name alone."""
    called = sys.orig_argv[1:]  # nothing at Python's prompt
    if called and os.path.isabs(called[0]):
        return shlex.join([os.path.basename(called[0]), *called[1:]])
    return shlex.join(["python", *called])


@functools.cache
def _commit() -> str | None:
    """The commit of the checkout that this package is in; None where it is installed, though in a checkout's folder."""
    checkout = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not os.path.exists(os.path.join(checkout, ".git")):
        return None
    git = ["git", "-C", checkout]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = [*git, "status", "--porcelain", "--", ":/", ":(top,exclude)results"]  # results come of a commit
        status = subprocess.run(changed, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{head} with uncommitted changes" if status.strip() else head


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
