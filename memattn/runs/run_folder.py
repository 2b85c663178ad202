"""Makes, checks and reads run folders: config, vocabulary and places of the checkpoints of one training run."""

import dataclasses
import json
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from memattn import config, processes, reading
from memattn.config import Config
from memattn.data.corpus import VOCABULARY
from memattn.data.features import FACTS as SOURCE_FACTS
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError, DataError, RunError
from memattn.files import write

CONFIG, CORPUS = "config.yaml", "corpus.json"
MEMORY_LINE = "memory_line"  # key of CORPUS: what `TrainingBatches.length_regression` returns
CHECKPOINTS, BEST, EVENTS, LOCK, VALIDATIONS = "checkpoints", "best", "events", "lock", "validation.csv"


def create(
    folder: str,
    run_config: Config,
    vocabulary: Vocabulary,
    corpus_facts: dict[str, Any],
    text_files: dict[str, str],
    *,
    may_grow: bool = True,
) -> None:
    """Makes a run folder, or checks that an existing one has the same config and training data.

    Writes nothing into a folder that holds files of another run or corpus. The config of an existing folder stays as it
    is: `keep_config` writes a raised `training.max_steps`.

    Args:
      folder: path of the run folder.
      run_config: config of the run.
      vocabulary: vocabulary of the training data.
      corpus_facts: facts about the training data that the model depends on.
      text_files: settings of the tokenizer: contents by file name.
      may_grow: whether `training.max_steps` may have been raised since the folder was made.

    Raises ConfigError, OSError.
    """
    path = os.path.join(folder, CONFIG)
    contents = {VOCABULARY: str(vocabulary), CORPUS: json.dumps(corpus_facts) + "\n", **text_files}
    if os.path.exists(path):
        _check_config(folder, run_config, may_grow)
        _check_contents(folder, run_config, contents, corpus_facts)
        return
    if os.path.isdir(os.path.join(folder, CHECKPOINTS)):
        raise ConfigError(f"{folder}: holds checkpoints but no {CONFIG}; use another --run_dir")
    for name, content in contents.items():
        present = os.path.join(folder, name)
        if os.path.exists(present) and not _holds(present, content):
            problem = "of another run or corpus, or left by an interrupted start with other data"
            raise ConfigError(f"{present}: {problem}; use another --run_dir, or remove it")
    os.makedirs(folder, exist_ok=True)
    for name, content in contents.items():
        write(os.path.join(folder, name), content)
    write(path, config.dump(run_config))  # last: it makes the folder a run folder


def keep_config(folder: str, run_config: Config) -> None:
    """Writes the config of a run whose `training.max_steps` was raised. Raises ConfigError, OSError."""
    if load_config(folder).training.max_steps < run_config.training.max_steps:
        write(os.path.join(folder, CONFIG), config.dump(run_config))


def _check_config(folder: str, run_config: Config, may_grow: bool) -> None:
    """Raises ConfigError unless the config is that of the run, or differs only in a raised `training.max_steps`."""
    stored = load_config(folder)
    stored_steps, steps = stored.training.max_steps, run_config.training.max_steps
    if steps < stored_steps:
        raise ConfigError(
            f"{folder}: training.max_steps may only grow from {stored_steps}, not {steps}; use another --run_dir"
        )
    if steps > stored_steps and not may_grow:
        raise ConfigError(
            f"{folder}: with training.schedule: {run_config.training.schedule} the learning rate depends on "
            "training.max_steps, which cannot change; start another run with training.init_from"
        )
    grown = dataclasses.replace(stored, training=dataclasses.replace(stored.training, max_steps=steps))
    if differing := config.differences(config.to_dict(grown), config.to_dict(run_config)):
        raise ConfigError(
            f"{folder}: holds a run of another config: {', '.join(map(str, differing))}; use another --run_dir"
        )


def _check_contents(folder: str, run_config: Config, contents: dict[str, str], corpus_facts: dict[str, Any]) -> None:
    """Raises ConfigError if a file of a run folder is missing, or if the training data has changed."""
    for name, content in contents.items():
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            raise ConfigError(f"{path}: missing, and a run cannot resume without it; use another --run_dir")
        # Former versions wrote fewer facts about the corpus.
        fits = read_facts(folder).items() <= corpus_facts.items() if name == CORPUS else _holds(path, content)
        if not fits:
            raise ConfigError(
                f"{path}: does not fit the data in {run_config.data.path}, which has changed since this run began; "
                "use another --run_dir"
            )


def locked(folder: str) -> AbstractContextManager[None]:
    """Locks a run folder against training by other processes; see `processes.locked`.

    Raises RunError if another process trains in it, OSError.
    """
    return processes.locked(os.path.join(folder, LOCK), folder, "is training in it; wait, or use another --run_dir")


def load_config(folder: str, overrides: Sequence[str] = ()) -> Config:
    """Returns the config of a run folder, with overrides of `decoding.*` and `data.folder`. Raises ConfigError."""
    path = os.path.join(folder, CONFIG)
    if not os.path.exists(path):
        problem = f"not a run folder: it holds no {CONFIG}" if os.path.isdir(folder) else "no such folder"
        raise ConfigError(f"{folder}: {problem}; memattn-train makes run folders")
    for override in overrides:
        key = override.partition("=")[0]
        if not key.startswith(("decoding.", "data.folder")):
            raise ConfigError(f"--set {key}: the model is trained; only data.folder and decoding.* may change now")
    return config.load(path, list(overrides))


def run_of(checkpoint: str) -> str:
    """Returns the run folder of a checkpoint: RUN of RUN/best/step-N, and of RUN/checkpoints/step-N."""
    return os.path.dirname(os.path.dirname(checkpoint))


def is_best(checkpoint: str) -> bool:
    """Returns whether a checkpoint has the weights of the best validation."""
    return os.path.basename(os.path.dirname(checkpoint)) == BEST


def longest_source(folder: str) -> int:
    """Returns the length of the longest source that the model of a run folder knows. Raises RunError."""
    return read_facts(folder)["max_source_length"]


def source_facts(folder: str) -> dict[str, Any]:
    """Returns what the model of a run folder knows of its sources; see `Sources.facts`. Raises RunError."""
    facts = read_facts(folder)
    return {name: value for name, value in facts.items() if name in SOURCE_FACTS}


def read_facts(folder: str) -> dict[str, Any]:
    """Reads the facts about a run's training data. Raises RunError, OSError."""
    path = os.path.join(folder, CORPUS)
    try:
        facts = reading.json_file(path, {"max_source_length": int})
    except DataError as error:
        raise RunError(f"{error}; the run folder is damaged") from error
    return facts


def _holds(path: str, content: str) -> bool:
    """Returns whether a file has this content."""
    try:
        return reading.text(path) == content
    except (OSError, DataError):
        return False
