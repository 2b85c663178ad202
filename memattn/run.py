"""The run folder: the config, vocabulary and checkpoints of one training run, and the model that they make."""

import contextlib
import fcntl
import functools
import glob
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from memattn import __version__, config
from memattn.attention import MECHANISMS
from memattn.config import Config
from memattn.corpus import VOCABULARY, read_vocabulary
from memattn.errors import ConfigError, RunError, reason
from memattn.files import write
from memattn.model import Seq2Seq
from memattn.vocab import Vocabulary

CONFIG, CORPUS = "config.yaml", "corpus.json"
CHECKPOINTS, BEST, LOCK = "checkpoints", "best", "lock"
_LISTING = "checkpoint"  # TensorFlow's list of the checkpoints in a folder, written after the first


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


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    """Keeps every other training out of a run folder. Raises RunError where one is in it, OSError."""
    with open(os.path.join(folder, LOCK), "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise RunError(f"{folder}: {file.read()} is training in it; wait, or take another --run_dir") from error
        except OSError as error:
            warnings.warn(f"{folder}: no lock against a second training: {error.strerror}", stacklevel=3)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        yield


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
            max_source_length = int(json.load(file)["max_source_length"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise RunError(f"{path}: unreadable ({type(error).__name__}: {error})") from error
    return build_model(run_config, len(vocabulary), max_source_length), vocabulary


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


def checkpoint(model: Seq2Seq, **others) -> tf.train.Checkpoint:
    """A checkpoint of a model's weights and whatever else is given, Keras optimizers among it.

    Variables are listed one by one, since TensorFlow does not find those of layers that Keras 3 keeps in lists.
    """
    parts = {"model": model, **others}
    return tf.train.Checkpoint(
        **{
            name: [_tensorflow_variable(variable) for variable in part.variables]
            if hasattr(part, "variables")
            else part
            for name, part in parts.items()
        }
    )


def _tensorflow_variable(variable) -> tf.Variable:
    return variable if isinstance(variable, tf.Variable) else variable.value


def restore(checkpoint: tf.train.Checkpoint, folder: str) -> str | None:
    """Restores the newest readable checkpoint of a folder and returns its path, None where the folder has none.

    A checkpoint that cannot be read is passed over with a warning. Raises RunError if none that is listed can be read.
    """
    for path in _readable(checkpoint, folder):
        return path
    return None


def restore_average(model: Seq2Seq, folder: str, number: int) -> list[str]:
    """Gives a model the average of the weights in the last `number` checkpoints of a folder; returns their paths.

    Raises RunError if fewer can be read.
    """
    paths, sums = [], [0.0] * len(model.variables)
    for path in _readable(checkpoint(model), folder):
        paths.append(path)
        sums = [total + variable.numpy() for total, variable in zip(sums, model.variables, strict=True)]
        if len(paths) == number:
            break
    if len(paths) < number:
        raise RunError(f"{folder}: {len(paths)} checkpoints to average, not {number}; see training.keep_checkpoints")
    for variable, total in zip(model.variables, sums, strict=True):
        variable.assign(total / number)
    return paths


def _readable(checkpoint: tf.train.Checkpoint, folder: str) -> Iterator[str]:
    """Restores one readable checkpoint of a folder after the other, newest first, and gives its path."""
    paths = _listed(folder)
    readable = 0
    for path in paths:
        try:
            status = checkpoint.read(path)
            status.assert_existing_objects_matched()
            status.expect_partial()  # the manager's own counter stays unread
        except Exception as error:  # TensorFlow raises whatever it runs into, IndexError for a file cut short
            warnings.warn(f"{path}: unreadable checkpoint, passed over: {reason(error)}", stacklevel=2)
            continue
        readable += 1
        yield path
    if paths and not readable and os.path.exists(os.path.join(folder, _LISTING)):
        raise RunError(f"{folder}: no checkpoint can be read; move the folder away to start anew")


def _listed(folder: str) -> list[str]:
    """The checkpoints in a folder, newest first. Raises RunError where the file that lists them is damaged."""
    listing = os.path.join(folder, _LISTING)
    if not os.path.exists(listing):
        paths = [os.path.splitext(path)[0] for path in glob.glob(os.path.join(glob.escape(folder), "step-*.index"))]
        if paths:
            warnings.warn(f"{listing}: lost, so the checkpoints beside it are taken by their names", stacklevel=3)
        return sorted(paths, key=lambda path: (len(path), path), reverse=True)
    try:
        state = tf.train.get_checkpoint_state(folder)
    except ValueError:
        state = None
    if not (state and state.all_model_checkpoint_paths):
        raise RunError(f"{listing}: damaged; without it, the checkpoints beside it are taken by their names")
    return list(reversed(state.all_model_checkpoint_paths))


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
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
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
