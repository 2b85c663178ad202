"""Writes a split that is decoded, such as `valid`: lines of tokens, and the targets as people write them."""

import dataclasses
import os
import warnings

from memattn import files
from memattn.data.corpus import SIDES, read_references
from memattn.data.preparation.chunks import Chunk, read_chunks
from memattn.data.preparation.workers import Workers
from memattn.data.tokenizer import SubwordTokenizer, TextSettings, blank_problem, bleu_problem, cached_tokenizer
from memattn.data.vocabulary import split_words

_ENDINGS = (*SIDES, "reference")  # ends of file names


@dataclasses.dataclass(frozen=True)
class SegmentChunk:
    """Turns the pairs of a chunk into lines of source tokens, target tokens, and references."""

    settings: TextSettings
    codes: str

    def __call__(self, chunk: Chunk) -> list[tuple[str, str, str]]:
        tokenizer = cached_tokenizer(self.settings, self.codes)
        return [
            (
                " ".join(tokenizer.encode(source, "source")),
                " ".join(tokenizer.encode(target, "target")),
                tokenizer.reference(target),
            )
            for source, target in chunk.pairs()
        ]


def write_segmented(
    pool: Workers, split: str, paths: tuple[str, str], tokenizer: SubwordTokenizer, folder: str
) -> None:
    """Writes {split}.{source,target,reference} into a folder. Raises DataError, OSError."""
    work = SegmentChunk(tokenizer.settings, tokenizer.codes)
    lines = [line for chunk in pool.map(work, read_chunks(*paths)) for line in chunk]
    for name, column in zip(_ENDINGS, zip(*lines, strict=True), strict=True):
        files.write(os.path.join(folder, f"{split}.{name}"), "".join(f"{line}\n" for line in column))


def warn_of_problems(path: str, tokenizer: SubwordTokenizer, folder: str) -> None:
    """Warns if tokenization changes blanks in the validation targets, or if BLEU says nothing about them.

    Args:
      path: the file of the targets, for the warning.
      tokenizer: the tokenizer of the corpus.
      folder: the folder with the split as `write_segmented` writes it.
    """
    tokens, references = read_references(folder, "valid")
    words = [tokenizer.decode(split_words(line)) for line in tokens]
    for problem in (blank_problem(tokenizer.settings, references), bleu_problem(tokenizer, words)):
        if problem:
            warnings.warn(f"{path}: {problem}", stacklevel=3)
