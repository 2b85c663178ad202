"""Trained models with their vocabulary and text settings, for the commands that decode."""

import dataclasses
import os

from memattn.config import Config
from memattn.data import lexicon
from memattn.data import tokenizer as text
from memattn.data.lexicon import Lexicon
from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError, RunError
from memattn.models.ensemble import Ensemble
from memattn.models.interface import DecodingModel, Model
from memattn.runs import checkpoints, run_folder
from memattn.runs.checkpoints import Checkpoint


@dataclasses.dataclass(frozen=True)
class Trained:
    """One model, or an ensemble.

    Attributes:
      model: with trained weights.
      models: the single models.
      config: of the first run, with the overrides applied.
      lexicon: of `decoding.lexicon`.
      checkpoints: paths of the weights' checkpoints.
    """

    model: DecodingModel
    models: list[Model]
    config: Config
    vocabulary: Vocabulary
    text: Tokenizer
    checkpoints: list[str]
    lexicon: Lexicon | None = None

    @property
    def max_source_length(self) -> int:
        """Tokens of the longest line that is translated whole, without the end of sentence."""
        return self.config.decoding.max_source_length or 2 * self.models[0].max_source_length

    def reads_as(self, vocabulary: Vocabulary, text: Tokenizer) -> bool:
        """Whether text becomes the same ids with that vocabulary and those text settings."""
        return (self.vocabulary.tokens, self.text.files()) == (vocabulary.tokens, text.files())


def load(run_dirs: list[str], overrides: list[str], average: int | None) -> Trained:
    """Models of run folders with their best weights, or the average of the last `average` checkpoints' weights.

    `overrides` may change `data.folder` and `decoding.*`. Raises ConfigError, DataError, RunError, OSError.
    """
    loaded = [_load(run_dir, overrides, average) for run_dir in run_dirs]
    first = dataclasses.replace(loaded[0], lexicon=_lexicon(loaded[0]))
    for run_dir, other in zip(run_dirs, loaded, strict=True):
        if not first.reads_as(other.vocabulary, other.text):
            raise ConfigError(
                f"{run_dir}: its vocabulary or BPE differs from that of {run_dirs[0]}; an ensemble needs the same"
            )
        if (kinds := [one.config.model.kind for one in (first, other)])[0] != kinds[1]:
            raise ConfigError(
                f"{run_dir}: its model.kind is {kinds[1]}, that of {run_dirs[0]} {kinds[0]}; an ensemble needs the same"
            )
    if len(loaded) == 1:
        return first
    models = [one.models[0] for one in loaded]
    checkpoints = [path for one in loaded for path in one.checkpoints]
    return dataclasses.replace(first, model=Ensemble(models), models=models, checkpoints=checkpoints)


def _lexicon(trained: Trained) -> Lexicon | None:
    decoding = trained.config.decoding
    if decoding.lexicon is None:
        return None
    if not os.path.isfile(decoding.lexicon):
        raise ConfigError(f"decoding.lexicon: no file {decoding.lexicon}; `memattn-prepare lexicon` writes one")
    return lexicon.read(decoding.lexicon, trained.vocabulary, decoding.lexicon_size)


def _load(run_dir: str, overrides: list[str], average: int | None) -> Trained:
    config = run_folder.load_config(run_dir, overrides)
    model, vocabulary = run_folder.load_model(run_dir, config, config.decoding.precision)
    if average:
        paths = checkpoints.restore_average(model, os.path.join(run_dir, run_folder.CHECKPOINTS), average)
    else:
        try:
            paths = [checkpoints.restore(Checkpoint(model), os.path.join(run_dir, run_folder.BEST))]
        except RunError as error:
            raise RunError(str(error), f"--average 1 uses the last of {run_folder.CHECKPOINTS}/") from error
        if paths == [None]:
            every = config.training.validate_every
            raise RunError(
                f"{run_dir}: no best checkpoint yet; training writes one every {every:,} steps, as it validates"
            )
    return Trained(model, [model], config, vocabulary, text.read(run_dir), paths)
