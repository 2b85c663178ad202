"""A run folder, all that one training leaves. No other module but `runs/__init__.py` knows the names of its files."""

import dataclasses
import functools
import json
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from memattn import config as configs
from memattn import files, processes
from memattn.config import Config
from memattn.data import tokenizer as tokenizers
from memattn.data.corpus import VOCABULARY, read_vocabulary
from memattn.data.features import SOURCE_METADATA
from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError, DataError, short
from memattn.plain_values import differences
from memattn.runs import CONFIG, check_exist
from memattn.runs.result import Result

METADATA, VALIDATIONS = "corpus.json", "validation.csv"
CHECKPOINTS, BEST, EVENTS, LOCK = "checkpoints", "best", "events", "lock"
# Files of an evaluation. Text that people read has files of its own if it differs from tokenized text.
RESULT, MODEL_CARD, N_BEST, ALIGNMENTS = "result.json", "model_card.md", "n_best.tsv", "alignments"
HYPOTHESES, REFERENCES = "hypotheses.txt", "references.txt"
DETOKENIZED = ("hypotheses.detokenized.txt", "references.detokenized.txt")
RESULTS = (RESULT, MODEL_CARD, HYPOTHESES, REFERENCES, *DETOKENIZED, N_BEST, ALIGNMENTS)


class Run:
    """A run folder, which need not exist yet.

    Its folder `checkpoints` has the last checkpoints, from which training resumes, `best` that with the best weights,
    and `events` TensorBoard's events. Config, vocabulary, tokenizer and metadata are read once, when they are first
    asked for.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = os.fspath(folder)
        self.checkpoints, self.best, self.events = map(self._path, (CHECKPOINTS, BEST, EVENTS))
        self.validations_path = self._path(VALIDATIONS)  # file with the scores of all validations

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    @property
    def exists(self) -> bool:
        """Whether the folder holds a run: its config, which is written last."""
        return os.path.exists(self._path(CONFIG))

    @functools.cached_property
    def config(self) -> Config:
        """Config of the training. Raises ConfigError."""
        check_exist([self.folder])
        try:
            return configs.load(self._path(CONFIG), [])
        except ConfigError as error:
            advice = f"if a version up to 0.3 made the run, use python scripts/convert_old_runs.py {self.folder}"
            raise ConfigError(f"{error}; {advice}") from error

    def config_with(self, overrides: Sequence[str]) -> Config:
        """Returns the config with overrides of `decoding.*` and `data.folder`. Raises ConfigError."""
        config = configs.from_dict(configs.to_dict(self.config), overrides)
        for override in overrides:
            key = short(override.partition("=")[0])
            if not key.startswith(("decoding.", "data.folder")):
                raise ConfigError(f"--set {key}: the model is trained; only data.folder and decoding.* may change now")
        return config

    @functools.cached_property
    def vocabulary(self) -> Vocabulary:
        """Vocabulary of source and target. Raises DataError, OSError."""
        return read_vocabulary(self.folder)

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer of the training data. Raises DataError, OSError."""
        return tokenizers.read(self.folder)

    @functools.cached_property
    def metadata(self) -> dict[str, Any]:
        """Properties of the training data: `max_source_length` and others. Raises DataError, OSError."""
        return files.read_json(self._path(METADATA), {"max_source_length": int})

    @property
    def longest_source(self) -> int:
        """Length of the longest source in training, with its end of sentence. Raises DataError, OSError."""
        return self.metadata.get("longest_source", self.metadata["max_source_length"])

    @property
    def source_metadata(self) -> dict[str, Any]:
        """Properties of the sources on which the model depends; see `Sources.metadata`. Raises DataError, OSError."""
        return {name: value for name, value in self.metadata.items() if name in SOURCE_METADATA}

    def reads_as(self, vocabulary: Vocabulary, tokenizer: Tokenizer) -> bool:
        """Returns whether text becomes the same ids with another vocabulary and tokenizer."""
        return (self.vocabulary.tokens, self.tokenizer.files()) == (vocabulary.tokens, tokenizer.files())

    @property
    def validations(self) -> list[dict[str, str]]:
        """Rows of validation.csv so far."""
        return files.read_csv(self.validations_path) if os.path.exists(self.validations_path) else []

    def results_folder(self, test_set: str) -> str:
        """Returns the folder of the evaluation on a split, or on the file with the path `test_set`."""
        return os.path.join(self.folder, "eval", os.path.basename(test_set))

    def result(self, split: str) -> Result | None:
        """Returns the result of the evaluation on a split; None if there is none. Raises DataError, OSError."""
        path = os.path.join(self.results_folder(split), RESULT)
        if not os.path.exists(path):
            return None
        try:
            return Result.from_json(files.read_json(path, {"config": dict}))
        except TypeError as error:
            raise DataError(f"{path}: not the result of an evaluation; repeat memattn-eval") from error

    def translations(self, split: str) -> tuple[list[str], list[str]]:
        """Returns hypotheses and references of a split's evaluation, as words. Raises DataError, OSError."""
        folder = self.results_folder(split)
        hypotheses, references = (os.path.join(folder, name) for name in (HYPOTHESES, REFERENCES))
        return files.read_lines(hypotheses), files.read_lines(references)

    def create(self, config: Config, vocabulary: Vocabulary, tokenizer: Tokenizer, metadata: dict[str, Any]) -> None:
        """Makes the run folder, or checks that it is one of the same config and training data.

        Writes nothing into a folder that holds files of another run or corpus. The config of an existing run folder
        stays as it is: `raise_max_steps` writes a raised `training.max_steps`.

        Raises ConfigError, DataError, RunError if another process trains in a new folder, OSError.
        """
        content_by_name = {VOCABULARY: str(vocabulary), METADATA: json.dumps(metadata) + "\n", **tokenizer.files()}
        contents = {self._path(name): content for name, content in content_by_name.items()}
        if not self.exists:
            with self.locked():
                if not self.exists:
                    self._make(config, contents)
                    return
        self.check_config(config, may_train_longer=config.training.can_train_longer)
        for path, content in contents.items():
            if files.read_text(path) != content:
                problem = f"does not fit the data in {config.data.path}, which has changed since this run began"
                raise ConfigError(f"{path}: {problem}; use another --run_dir")

    def _make(self, config: Config, contents: dict[str, str]) -> None:
        """Writes the files of a new run, the config last. Raises ConfigError if another run's are there, OSError."""
        if os.path.isdir(self.checkpoints):
            raise ConfigError(f"{self.folder}: holds checkpoints but no {CONFIG}; use another --run_dir")
        for path, content in contents.items():
            if os.path.exists(path) and files.read_text(path) != content:
                problem = "of another run or corpus, or left by an interrupted start"
                raise ConfigError(f"{path}: {problem}; use another --run_dir, or remove it")
        os.makedirs(self.folder, exist_ok=True)
        for path, content in contents.items():
            files.write(path, content)
        files.write(self._path(CONFIG), configs.dump(config))
        self.config = config

    def check_config(self, config: Config, *, may_train_longer: bool) -> None:
        """Raises ConfigError unless a config is that of the run; `may_train_longer` allows a greater max_steps."""
        stored = self.config
        if may_train_longer and config.training.max_steps > stored.training.max_steps:
            training = dataclasses.replace(stored.training, max_steps=config.training.max_steps)
            stored = dataclasses.replace(stored, training=training)
        if differing := differences(configs.to_dict(stored), configs.to_dict(config)):
            problem = f"holds a run of another config: {', '.join(map(str, differing))}"
            if any(each.key == "training.max_steps" for each in differing):
                problem += "; memattn-train may raise training.max_steps, unless the learning rate depends on it"
            raise ConfigError(f"{self.folder}: {problem}; use another folder")

    def raise_max_steps(self, config: Config) -> None:
        """Writes the config of a run whose `training.max_steps` was raised. Raises ConfigError, OSError."""
        if self.config.training.max_steps < config.training.max_steps:
            files.write(self._path(CONFIG), configs.dump(config))
            self.config = config

    def locked(self) -> AbstractContextManager[None]:
        """Locks the folder against other trainings, as `processes.locked` does. Raises RunError, OSError."""
        return processes.locked(self._path(LOCK), self.folder, "is training in it; wait, or use another --run_dir")


def run_of(checkpoint: str) -> str:
    """Returns the run folder of a checkpoint: RUN of RUN/best/step-N, and of RUN/checkpoints/step-N."""
    return os.path.dirname(os.path.dirname(checkpoint))


def is_best(checkpoint: str) -> bool:
    """Returns whether a checkpoint has the weights of the best validation."""
    return os.path.basename(os.path.dirname(checkpoint)) == BEST
