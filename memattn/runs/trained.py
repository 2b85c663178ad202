"""Loads trained models with their vocabulary and tokenizer, for the commands that decode."""

import dataclasses
import os
from typing import Any

from memattn.config import Config
from memattn.data import lexicon
from memattn.data import tokenizer as tokenizers
from memattn.data.lexicon import Lexicon
from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError, RunError
from memattn.models.ensemble import Ensemble
from memattn.models.interface import DecodingModel, Model
from memattn.models.seq2seq import Seq2Seq
from memattn.runs import building, checkpoints, run_folder
from memattn.runs.checkpoints import Checkpoint


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained model, or an ensemble.

    Attributes:
      model: the model with trained weights, or the `Ensemble` of several.
      models: the single models.
      config: config of the first run, with overrides.
      vocabulary: vocabulary of source and target.
      tokenizer: turns text into tokens and back.
      checkpoints: paths of the checkpoints that the weights are from.
      source_facts: facts about the sources on which the model depends; see `Sources.facts`.
      lexicon: the content of `decoding.lexicon`; None if a hypothesis may have any token.
    """

    model: DecodingModel
    models: list[Model]
    config: Config
    vocabulary: Vocabulary
    tokenizer: Tokenizer
    checkpoints: list[str]
    source_facts: dict[str, Any]
    lexicon: Lexicon | None = None

    @property
    def max_source_length(self) -> int:
        """Upper bound on the tokens of a line that is translated in one piece, without the end of sentence."""
        longest = min(model.max_source_length for model in self.models)  # in the training of every member
        return self.config.decoding.max_source_length or 2 * longest

    def check_reads_text(self, what: str) -> None:
        """Raises ConfigError if sources are no text, where `what` needs text."""
        if self.config.data.source != "tokens":
            problem = f"needs sources of text, and the run's data.source is {self.config.data.source}"
            raise ConfigError(f"{what}: {problem}; memattn-eval --split decodes a split of a prepared corpus")

    def reads_as(self, vocabulary: Vocabulary, tokenizer: Tokenizer) -> bool:
        """Returns whether text becomes the same ids with another vocabulary and tokenizer."""
        return (self.vocabulary.tokens, self.tokenizer.files()) == (vocabulary.tokens, tokenizer.files())


def load(run_dirs: list[str], overrides: list[str], average: int | None) -> Trained:
    """Loads the models of run folders, with their best weights or the average of the last `average` checkpoints.

    `overrides` may change `data.folder` and `decoding.*`. Raises ConfigError, DataError, RunError, OSError.
    """
    runs = [_load(run_dir, overrides, average) for run_dir in run_dirs]
    first = dataclasses.replace(runs[0], lexicon=_lexicon(runs[0]))
    for run_dir, run in zip(run_dirs, runs, strict=True):
        _check_members(run_dirs[0], first, run_dir, run)
    if len(runs) == 1:
        return first
    models = [run.models[0] for run in runs]
    paths = [path for run in runs for path in run.checkpoints]
    return dataclasses.replace(first, model=Ensemble(models), models=models, checkpoints=paths)


def _check_members(first_dir: str, first: Trained, run_dir: str, run: Trained) -> None:
    """Raises ConfigError if two runs cannot be members of one ensemble."""
    if not first.reads_as(run.vocabulary, run.tokenizer):
        raise ConfigError(
            f"{run_dir}: its vocabulary or BPE differs from that of {first_dir}; an ensemble needs the same"
        )
    if run.source_facts != first.source_facts:
        raise ConfigError(f"{run_dir}: it reads other sources than {first_dir}; an ensemble needs the same")
    first_kind, kind = first.config.model.kind, run.config.model.kind
    if kind != first_kind:
        raise ConfigError(
            f"{run_dir}: its model.kind is {kind}, that of {first_dir} {first_kind}; an ensemble needs the same"
        )
    if _reduction(run) != _reduction(first):
        raise ConfigError(f"{run_dir}: its model.encoder_reduce is not that of {first_dir}; an ensemble needs the same")


def _reduction(run: Trained) -> int:
    """Returns the number of source positions that a state stands for."""
    model = run.models[0]
    return model.encoder.reduction if isinstance(model, Seq2Seq) else 1


def _lexicon(trained: Trained) -> Lexicon | None:
    decoding = trained.config.decoding
    if decoding.lexicon is None:
        return None
    if not os.path.isfile(decoding.lexicon):
        raise ConfigError(f"decoding.lexicon: no file {decoding.lexicon}; `memattn-prepare lexicon` writes one")
    return lexicon.read(decoding.lexicon, trained.vocabulary, decoding.lexicon_size)


def _load(run_dir: str, overrides: list[str], average: int | None) -> Trained:
    config = run_folder.load_config(run_dir, overrides)
    model, vocabulary = building.load_model(run_dir, config, config.decoding.precision)
    if average:
        paths = checkpoints.restore_average(model, os.path.join(run_dir, run_folder.CHECKPOINTS), average)
    else:
        paths = [_restore_best(model, run_dir, config)]
    facts = run_folder.source_facts(run_dir)
    return Trained(model, [model], config, vocabulary, tokenizers.read(run_dir), paths, facts)


def _restore_best(model: Model, run_dir: str, config: Config) -> str:
    """Restores the best checkpoint of a run folder; returns its path. Raises RunError if there is none."""
    try:
        path = checkpoints.restore(Checkpoint(model), os.path.join(run_dir, run_folder.BEST))
    except RunError as error:
        raise RunError(str(error), f"--average 1 tries the last checkpoint in {run_folder.CHECKPOINTS}/") from error
    if path is None:
        every = config.training.validate_every
        raise RunError(f"{run_dir}: no best checkpoint yet; training writes one every {every:,} steps, as it validates")
    return path
