"""Writes the results of an evaluation: scores, texts, model card and pictures of alignments."""

import contextlib
import glob
import json
import os
import re

import numpy as np

from memattn import files
from memattn.data.tokenizer import without_line_breaks
from memattn.data.vocabulary import Vocabulary
from memattn.evaluation import plots
from memattn.evaluation.evaluate import Evaluation
from memattn.evaluation.model_card import model_card
from memattn.models.interface import AligningModel, aligns
from memattn.runs.run import ALIGNMENTS, DETOKENIZED, HYPOTHESES, MODEL_CARD, N_BEST, REFERENCES, RESULT, RESULTS
from memattn.runs.trained import Trained


def write(evaluation: Evaluation, trained: Trained, output_dir: str, *, num_plots: int) -> None:
    """Writes the results, and pictures of `num_plots` alignments if the model has them.

    Removes those of an earlier evaluation. The result comes last: it marks the evaluation as complete. Raises OSError.
    """
    pictures = os.path.join(output_dir, ALIGNMENTS)
    os.makedirs(output_dir, exist_ok=True)
    _remove_results(output_dir)
    for name, lines in _texts(evaluation, trained).items():
        files.write(os.path.join(output_dir, name), "".join(f"{line}\n" for line in lines))
    files.write(os.path.join(output_dir, MODEL_CARD), model_card(evaluation.result))
    model = trained.models[0]  # an ensemble's pictures are of its first model
    if num_plots and aligns(model) and aligns(trained.model):
        _plot(model, trained.vocabulary, evaluation, num_plots, pictures)
    files.write(os.path.join(output_dir, RESULT), json.dumps(evaluation.result.to_json(), indent=2) + "\n")


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


def _remove_results(folder: str) -> None:
    """Removes the files of an earlier evaluation, and its pictures, whose names are numbers."""
    names = [name for name in RESULTS if name != ALIGNMENTS]
    pictures = glob.glob(os.path.join(ALIGNMENTS, "*.png"), root_dir=folder)
    names += [name for name in pictures if re.fullmatch(r"\d+\.png", os.path.basename(name))]
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder, name))
    with contextlib.suppress(OSError):  # other files are in it, or it does not exist
        os.rmdir(os.path.join(folder, ALIGNMENTS))


def _plot(model: AligningModel, vocabulary: Vocabulary, evaluation: Evaluation, num_plots: int, folder: str) -> None:
    """Draws the alignments of the longest sources that have a translation."""
    sources, translations = evaluation.test_set.source, evaluation.translations
    longest_first = np.argsort(-sources.lengths(), kind="stable")
    chosen = [index for index in longest_first if translations[index].best][:num_plots]
    if chosen:
        os.makedirs(folder, exist_ok=True)
    for index in chosen:
        alignment = plots.align(model, vocabulary, sources, index, translations[index].best)
        plots.alignments(os.path.join(folder, f"{index}.png"), *alignment)
