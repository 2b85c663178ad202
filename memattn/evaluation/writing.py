"""Writes the results of an evaluation: scores, texts, model card and pictures of alignments."""

import contextlib
import glob
import json
import os
import re
from typing import NamedTuple

import numpy as np

from memattn import files
from memattn.data.tokenizer import without_line_breaks
from memattn.data.vocabulary import Vocabulary
from memattn.evaluation import model_card, plots
from memattn.evaluation.evaluate import Evaluation
from memattn.evaluation.stored import ALIGNMENTS, DETOKENIZED, HYPOTHESES, N_BEST, REFERENCES, RESULT
from memattn.models.interface import AligningModel, aligns
from memattn.runs.trained import Trained


class Written(NamedTuple):
    """The files of an evaluation.

    Attributes:
      names: names of the files.
      pictures: number of pictures in the folder ALIGNMENTS.
    """

    names: list[str]
    pictures: int


def write(evaluation: Evaluation, trained: Trained, output_dir: str, *, num_plots: int) -> Written:
    """Writes the results, and pictures of `num_plots` alignments if the model has them.

    Files of an earlier evaluation are replaced or removed. The result comes last: it marks the evaluation as complete.
    Raises OSError.
    """
    os.makedirs(output_dir, exist_ok=True)
    texts = _texts(evaluation, trained)
    for name, lines in texts.items():
        files.write(os.path.join(output_dir, name), "".join(f"{line}\n" for line in lines))
        _remove(output_dir, RESULT)  # of an earlier evaluation, which is complete until a new text stands
    _remove(output_dir, *{N_BEST, *DETOKENIZED} - texts.keys())
    files.write(os.path.join(output_dir, model_card.FILE), model_card.model_card(evaluation.result))
    pictures = os.path.join(output_dir, ALIGNMENTS)
    remove_pictures(pictures)
    model = trained.models[0]  # an ensemble's pictures are of its first model
    num_drawn = 0
    if aligns(model) and aligns(trained.model):
        num_drawn = _plot(model, trained.vocabulary, evaluation, num_plots, pictures)
    files.write(os.path.join(output_dir, RESULT), json.dumps(evaluation.result.to_json(), indent=2) + "\n")
    return Written([RESULT, model_card.FILE, *texts], num_drawn)


def _texts(evaluation: Evaluation, trained: Trained) -> dict[str, list[str]]:
    """Returns the lines of each text file. Detokenized text has files only if it differs from tokenized text."""
    test_set = evaluation.test_set
    tokenized = evaluation.hypotheses, test_set.references
    detokenized = evaluation.detokenized_hypotheses, test_set.detokenized_references
    texts = dict(zip((HYPOTHESES, REFERENCES), tokenized, strict=True))
    if detokenized != tokenized:
        texts |= dict(zip(DETOKENIZED, detokenized, strict=True))
    if trained.config.decoding.n_best > 1:
        texts[N_BEST] = [
            f"{i}\t{score:.6f}\t{without_line_breaks(trained.tokenizer.decode(tokens))}"
            for i, translation in enumerate(evaluation.translations)
            for tokens, score in zip(translation.hypotheses, translation.scores, strict=True)
        ]
    return texts


def _remove(folder: str, *names: str) -> None:
    """Removes the files of a folder that exist."""
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder, name))


def remove_pictures(folder: str) -> None:
    """Removes the pictures of an earlier evaluation, whose names are numbers."""
    for path in glob.glob(os.path.join(glob.escape(folder), "*.png")):
        if re.fullmatch(r"\d+\.png", os.path.basename(path)):
            os.remove(path)


def _plot(model: AligningModel, vocabulary: Vocabulary, evaluation: Evaluation, num_plots: int, folder: str) -> int:
    """Draws the alignments of the longest sources that have a translation; returns their number."""
    if not num_plots:
        return 0
    sources, translations = evaluation.test_set.source, evaluation.translations
    longest_first = np.argsort(-sources.lengths(), kind="stable")
    chosen = [index for index in longest_first if translations[index].best][:num_plots]
    if chosen:
        os.makedirs(folder, exist_ok=True)
    for index in chosen:
        alignment = plots.align(model, vocabulary, sources, index, translations[index].best)
        plots.alignments(os.path.join(folder, f"{index}.png"), *alignment)
    return len(chosen)
