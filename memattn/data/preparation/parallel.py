"""Prepares a folder with a parallel corpus: checks, byte-pair encoding, one vocabulary, ids."""

import dataclasses
import functools
import os

from tqdm import tqdm

from memattn import files, reading
from memattn.data import tokenizer as tokenizers
from memattn.data.corpus import VOCABULARY, read_vocabulary
from memattn.data.preparation import encoding, learning, segmenting
from memattn.data.preparation.chunks import count_pairs
from memattn.data.preparation.folder import Counts, copy_files, describe_files, make
from memattn.data.preparation.workers import Workers
from memattn.data.tokenizer import SubwordTokenizer, TextSettings
from memattn.errors import ConfigError

Splits = dict[str, tuple[str, str]]  # source and target file by the name of the split

_COUNTS = ("read", "pairs", "dropped_empty", "dropped_too_long", "source_tokens", "target_tokens")
_MANIFEST_TYPES: reading.Types = {
    **dict.fromkeys(("settings", "sources", "files"), dict),
    **{("counts", "train", name): int for name in _COUNTS},
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a prepared corpus: with its source files, they determine it.

    `bpe_units`, `bpe_sample` and `seed` are None if another corpus gives BPE and vocabulary.

    Attributes:
      text: form and languages.
      bpe_units: units of the vocabulary, and byte-pair merges to learn.
      bpe_sample: number of pairs to learn them from, drawn at random if the corpus has more.
      max_length: upper bound on the units of a side, without the end of sentence; training pairs with more are dropped.
      seed: seed of the sample.
    """

    text: TextSettings
    bpe_units: int | None
    bpe_sample: int | None = 5_000_000
    max_length: int = 200
    seed: int | None = 1


def prepare(
    splits: Splits,
    settings: Settings,
    folder: str,
    workers: int,
    shared: str | None = None,
    release: dict[str, str | int] | None = None,
) -> dict:
    """Prepares splits in a folder: `train` as arrays of ids, the other splits as text. Returns the manifest.

    A folder that is already complete is not touched.

    Args:
      splits: the files of each split, plain or .gz.
      settings: how to prepare them.
      folder: where the corpus is to be.
      workers: number of processes.
      shared: a prepared corpus or a run folder, whose BPE and vocabulary are used; None learns them.
      release: what the manifest says about the release that the splits are from; None for text of the user's.

    Raises:
      ConfigError: The folder holds something else, or `shared` does not fit.
      RunError: Another process is preparing the folder.
      DataError: The text cannot be used.
      OSError: A file cannot be read or written.
    """

    def write(unfinished: str) -> Counts:
        if shared:
            copy_files(_shared_files(shared, settings), unfinished)
        return _write_files(splits, settings, unfinished, workers)

    describe = functools.partial(_describe_inputs, splits, settings, shared)
    return make(folder, describe, write, release=release, types=_MANIFEST_TYPES, work_files={encoding.JOURNAL})


def _describe_inputs(splits: Splits, settings: Settings, shared: str | None) -> dict:
    """Returns what the manifest says about settings and source files. Raises ConfigError, DataError, OSError."""
    sources = {split: describe_files(paths) for split, paths in splits.items()}
    if shared:
        if not os.path.exists(os.path.join(shared, VOCABULARY)):
            raise ConfigError(f"--vocabulary_of {shared}: neither a run folder nor a prepared corpus")
        tokenizer = tokenizers.read(shared)
        if not isinstance(tokenizer, SubwordTokenizer):
            raise ConfigError(f"--vocabulary_of {shared}: its corpus came as tokens, without a BPE")
        if tokenizer.settings != settings.text:
            shared_text, text = (" ".join(dataclasses.astuple(form)) for form in (tokenizer.settings, settings.text))
            raise ConfigError(f"--vocabulary_of {shared}: its text is {shared_text}, not {text}")
        sources["vocabulary_of"] = describe_files(_shared_files(shared, settings))
    return {"settings": dataclasses.asdict(settings), "sources": sources}


def _shared_files(shared: str, settings: Settings) -> list[str]:
    """Returns the paths of the units and the vocabulary of another corpus."""
    return [os.path.join(shared, name) for name in (tokenizers.UNITS[settings.text.units].file, VOCABULARY)]


def _write_files(splits: Splits, settings: Settings, unfinished: str, workers: int) -> Counts:
    """Writes all files but the manifest; returns its counts by split."""
    with Workers(workers) as pool:
        checked = tqdm(splits.items(), desc="checking lines", unit=" splits", disable=None)
        pairs = {split: count_pairs(pool, *paths) for split, paths in checked}
        tokenizer = _tokenizer(pool, splits["train"], pairs["train"], settings, unfinished)
        vocabulary = read_vocabulary(os.path.join(unfinished, VOCABULARY))
        for name, content in tokenizer.files().items():
            files.write(os.path.join(unfinished, name), content)
        counts = {split: {"pairs": number} for split, number in pairs.items()}
        counts["train"] = encoding.write_encoded(
            pool, splits["train"], pairs["train"], tokenizer, vocabulary, settings.max_length, unfinished
        )
        for split, paths in splits.items():
            if split != "train":
                segmenting.write_segmented(pool, split, paths, tokenizer, unfinished)
    if "valid" in splits:
        segmenting.warn_of_problems(splits["valid"][1], tokenizer, unfinished)
    return counts


def _tokenizer(
    pool: Workers, paths: tuple[str, str], pairs: int, settings: Settings, unfinished: str
) -> SubwordTokenizer:
    """Returns the tokenizer, whose merges are learned if the folder has none."""
    if not os.path.exists(os.path.join(unfinished, VOCABULARY)):
        if settings.bpe_units is None or settings.bpe_sample is None or settings.seed is None:
            raise ConfigError("bpe_units, bpe_sample, seed: needed where no other corpus gives the BPE")
        learning.learn(
            pool,
            paths,
            pairs,
            settings.text,
            units=settings.bpe_units,
            sample=settings.bpe_sample,
            seed=settings.seed,
            folder=unfinished,
        )
    return tokenizers.read_units(unfinished, settings.text)
