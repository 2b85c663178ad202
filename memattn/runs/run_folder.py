"""The run folder: the config, vocabulary and checkpoints of one training run, and their model."""

import dataclasses
import json
import os
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager

from memattn import config, processes, reading
from memattn.config import Config
from memattn.data.corpus import VOCABULARY, read_vocabulary
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError, DataError, RunError, abbreviated, reason
from memattn.files import write
from memattn.models.interface import Model
from memattn.models.neural_gpu.model import KINDS as ACTIVE_MEMORY
from memattn.models.seq2seq import Seq2Seq

KINDS = {"seq2seq": Seq2Seq, **ACTIVE_MEMORY}
CONFIG, CORPUS = "config.yaml", "corpus.json"
CHECKPOINTS, BEST, LOCK = "checkpoints", "best", "lock"


def create(
    folder: str,
    run_config: Config,
    vocabulary: Vocabulary,
    corpus: dict[str, int | str],
    text_files: dict[str, str],
    *,
    may_grow: bool = True,
) -> None:
    """Makes a run folder, or checks that an existing one has the same config and training data.

    `training.max_steps` may have been raised since, if `may_grow`. `corpus` holds the facts of the training data that
    the model needs, `text_files` how its text became tokens. Raises ConfigError, OSError.
    """
    path = os.path.join(folder, CONFIG)
    facts = {VOCABULARY: str(vocabulary), CORPUS: json.dumps(corpus) + "\n", **text_files}
    if os.path.exists(path):
        found = load_config(folder)
        is_longer = run_config.training.max_steps > found.training.max_steps
        if run_config.training.max_steps < found.training.max_steps:
            steps = f"{found.training.max_steps}, not {run_config.training.max_steps}"
            raise ConfigError(f"{folder}: training.max_steps may only grow from {steps}; use another --run_dir")
        if is_longer and not may_grow:
            raise ConfigError(
                f"{folder}: with training.schedule: {run_config.training.schedule} the learning rate depends on "
                "training.max_steps, which cannot change; start another run with training.init_from"
            )
        if is_longer:
            longer = dataclasses.replace(found.training, max_steps=run_config.training.max_steps)
            found = dataclasses.replace(found, training=longer)
        differing = config.differences(config.to_dict(found), config.to_dict(run_config))
        if differing:
            raise ConfigError(
                f"{folder}: holds a run of another config: {', '.join(map(str, differing))}; use another --run_dir"
            )
        for name, content in facts.items():
            own = os.path.join(folder, name)
            if not os.path.exists(own):
                raise ConfigError(f"{own}: missing, and a run cannot go on without it; use another --run_dir")
            fits = _facts(own) == corpus if name == CORPUS else _holds(own, content)
            if not fits:
                raise ConfigError(
                    f"{own}: does not fit the data in {run_config.data.path}, which has changed since this run began; "
                    "use another --run_dir"
                )
        if is_longer:
            write(path, config.dump(run_config))
        return
    if os.path.isdir(os.path.join(folder, CHECKPOINTS)):
        raise ConfigError(f"{folder}: holds checkpoints but no {CONFIG}; use another --run_dir")
    os.makedirs(folder, exist_ok=True)
    for name, content in facts.items():
        write(os.path.join(folder, name), content)
    write(path, config.dump(run_config))


def locked(folder: str) -> AbstractContextManager[bool]:
    """Locks a run folder against other trainings; see `processes.locked`. Raises RunError if one is in it, OSError."""
    return processes.locked(os.path.join(folder, LOCK), folder, "is training in it; wait, or use another --run_dir")


def load_config(folder: str, overrides: Sequence[str] = ()) -> Config:
    """The config of a run folder, with overrides of `decoding.*` and `data.folder`. Raises ConfigError."""
    path = os.path.join(folder, CONFIG)
    if not os.path.exists(path):
        problem = f"not a run folder: it holds no {CONFIG}" if os.path.isdir(folder) else "no such folder"
        raise ConfigError(f"{folder}: {problem}")
    for override in overrides:
        key = override.partition("=")[0]
        if not key.startswith(("decoding.", "data.folder")):
            raise ConfigError(f"--set {key}: the model is trained; only data.folder and decoding.* may change now")
    return config.load(path, overrides)


def load_model(folder: str, run_config: Config, precision: str | None = None) -> tuple[Model, Vocabulary]:
    """The model of a run folder with initial weights, and its vocabulary.

    Raises DataError, RunError, and ConfigError for options that do not fit the installed libraries.
    """
    vocabulary = read_vocabulary(os.path.join(folder, VOCABULARY))
    model = build_model(run_config, len(vocabulary), longest_source(folder), precision)
    if run_config.decoding.num_slots:
        model.attention.keep(run_config.decoding.num_slots)
    return model, vocabulary


def longest_source(folder: str) -> int:
    """S of Eq. 10 of a run's model. Raises RunError."""
    return _facts(os.path.join(folder, CORPUS))["max_source_length"]


def _facts(path: str) -> dict[str, int | str]:
    """Of the training data of a run. Raises RunError."""
    try:
        facts = reading.json_file(path, {"max_source_length": int})
    except DataError as error:
        raise RunError(f"{error}; the run folder is damaged") from error
    except OSError as error:
        raise RunError(f"{path}: unreadable: {error.strerror}") from error
    if not 0 < facts["max_source_length"] < 1 << 31:
        raise RunError(f"{path}: damaged: max_source_length should be an int above 0, in {abbreviated(facts)}")
    return facts


def build_model(
    run_config: Config, vocabulary_size: int, max_source_length: int, precision: str | None = None
) -> Model:
    """The model of a config with initial weights, computing in `precision` or as in training. Raises ConfigError."""
    sizes = {"vocabulary_size": vocabulary_size, "max_source_length": max_source_length}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Keras 3 warns, then raises
            options = {key: value for key, value in vars(run_config.model).items() if key != "kind"}
            kind = KINDS[run_config.model.kind]
            return kind(**options, **sizes, dtype=precision or run_config.training.precision)
    except ValueError as error:
        raise ConfigError(f"model: {reason(error)}") from error


def _holds(path: str, content: str) -> bool:
    try:
        return reading.text(path) == content
    except (OSError, DataError):
        return False
