"""Decodes a test set, scores the translations and writes the results."""

import contextlib
import dataclasses
import glob
import json
import os
import re
import shlex
import statistics
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from memattn import config as configs
from memattn import files, reading
from memattn.data import corpus
from memattn.data import tokenizer as text
from memattn.data.sentences import Sentences, Sources
from memattn.data.text_files import read_lines
from memattn.data.vocabulary import Vocabulary, split_words
from memattn.errors import ConfigError, DataError
from memattn.evaluation import metrics, model_card, plots
from memattn.evaluation.metrics import METRICS, Comparison
from memattn.evaluation.result import Result
from memattn.evaluation.target_loss import target_loss
from memattn.models.interface import AligningModel, aligns
from memattn.runs import provenance, run_folder
from memattn.runs.checkpoints import step_of
from memattn.runs.trained import Trained
from memattn.search.scorer import Scorer
from memattn.search.searcher import Searcher, Translation, decode, warm_up

RESULT, HYPOTHESES, REFERENCES, N_BEST = "result.json", "hypotheses.txt", "references.txt", "n_best.tsv"
ALIGNMENTS, EVALUATIONS = "alignments", "eval"
DETOKENIZED = ("hypotheses.detokenized.txt", "references.detokenized.txt")


@dataclasses.dataclass(frozen=True)
class TestSet:
    """Sources to decode, and their references.

    Attributes:
      name: name of the split, or of the file with the sources.
      source: the sources.
      target: sentences of ids.
      references: words divided by spaces, BPE undone; each without tabs or ends of lines.
      detokenized_references: the references as ordinary text, likewise in one line.
    """

    name: str
    source: Sources
    target: Sentences
    references: list[str]
    detokenized_references: list[str]


def read_split(trained: Trained, split: str) -> TestSet:
    """Reads a split of the prepared corpus.

    Raises ConfigError if there is no such split, or if the corpus has another vocabulary or other features than the
    run; DataError.
    """
    folder = trained.config.data.path
    corpus.check_folder(folder)
    vocabulary = corpus.read_vocabulary(os.path.join(folder, corpus.VOCABULARY))
    if not trained.reads_as(vocabulary, text.read(folder)):
        raise ConfigError(f"data.folder: the vocabulary or BPE of {folder} differs from the run's; see --source")
    corpus.check_split(folder, split, corpus.splits(folder))
    pairs = corpus.read_corpus(folder, split, trained.vocabulary, trained.config.data.source)
    if (facts := pairs.source.facts()) != trained.source_facts:
        problem = f"the sources of {folder} have {facts}, not the run's {trained.source_facts}"
        raise ConfigError(f"data.folder: {problem}; prepare it with --vocabulary_of")
    tokenized, detokenized = corpus.read_references(folder, split)
    references = [text.one_line(trained.text.decode(split_words(line))) for line in tokenized]
    return TestSet(split, pairs.source, pairs.target, references, list(map(text.one_line, detokenized)))


def read_files(trained: Trained, source: str, target: str) -> TestSet:
    """Reads two files of text (plain or .gz) or pipes, processed as the training text was.

    Raises ConfigError if the run's sources are no text, DataError.
    """
    trained.check_reads_text("--source")
    source_lines, target_lines = (read_lines(path, pipes=True) for path in (source, target))
    if len(source_lines) != len(target_lines):
        raise DataError(f"{source} has {len(source_lines):,} lines and {target} has {len(target_lines):,}")
    if not source_lines:
        raise DataError(f"{source}: empty; there is nothing to decode")
    source_tokens = [trained.text.encode(line, "source") for line in source_lines]
    target_tokens = [trained.text.encode(line, "target") for line in target_lines]
    return TestSet(
        name=source,
        source=Sentences.from_ids([trained.vocabulary.encode(tokens) for tokens in source_tokens]),
        target=Sentences.from_ids([trained.vocabulary.encode(tokens) for tokens in target_tokens]),
        references=[text.one_line(trained.text.decode(tokens)) for tokens in target_tokens],
        detokenized_references=[text.one_line(trained.text.reference(line)) for line in target_lines],
    )


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The translations of a test set, and their scores.

    Attributes:
      test_set: the sources that were decoded, and their references.
      result: scores, times and conditions.
      translations: the n best hypotheses of each source.
      hypotheses: the best hypothesis of each source, words divided by spaces.
      detokenized_hypotheses: the best hypotheses as ordinary text.
    """

    test_set: TestSet
    result: Result
    translations: list[Translation]
    hypotheses: list[str]
    detokenized_hypotheses: list[str]


def evaluate(trained: Trained, test_set: TestSet, *, repeats: int) -> Evaluation:
    """Decodes a test set `repeats` times and scores it. Raises ConfigError, DataError."""
    config, num_buckets, num_sentences = trained.config, trained.config.data.num_buckets, len(test_set.source)
    is_transcript = config.data.source == "features" or METRICS[config.training.metric].is_error_rate
    metrics.check_installed(["cer", "wer"] if is_transcript else [])
    searcher = Searcher(trained.model, config.decoding, trained.lexicon)
    warm_up(searcher, test_set.source, num_buckets)
    seconds = []
    for _ in tqdm(range(repeats), desc=f"decoding {num_sentences:,} sentences", unit="run", disable=None):
        translations, elapsed = decode(searcher, test_set.source, trained.vocabulary, num_buckets)
        seconds.append(elapsed)
    hypotheses = [text.one_line(trained.text.decode(translation.best)) for translation in translations]
    comparison = Comparison.for_tokenizer(
        trained.text,
        hypotheses=hypotheses,
        references=test_set.references,
        detokenized_references=test_set.detokenized_references,
        target_loss=lambda: target_loss(Scorer(trained.model), test_set.source, test_set.target),
        is_transcript=is_transcript,
    )
    scores = metrics.scores(comparison)
    median, num_tokens = statistics.median(seconds), sum(len(translation.best) + 1 for translation in translations)
    result = Result(
        scores={name: score.value for name, score in scores.items()},
        signatures={name: score.signature for name, score in scores.items() if score.signature},
        decode_seconds=median,
        decode_seconds_min=min(seconds),
        decode_seconds_max=max(seconds),
        repeats=repeats,
        sentences_per_second=num_sentences / median,
        tokens_per_second=num_tokens / median,
        excluded_from_time="model construction, tracing and compiling, data loading, batching, ids to text",
        sentences=num_sentences,
        split=test_set.name,
        beam_size=config.decoding.beam_size,
        batch_size=config.decoding.batch_size,
        jit_compile=searcher.jit_compile,
        **_model_facts(trained),
        **provenance.conditions(),
        config=configs.to_dict(config),
    )
    detokenized_hypotheses, _ = comparison.detokenized
    return Evaluation(test_set, result, translations, hypotheses, detokenized_hypotheses)


def _model_facts(trained: Trained) -> dict[str, Any]:
    """Returns the fields of a result that describe the model and the overrides of its search."""
    run_dir = os.path.dirname(os.path.dirname(trained.checkpoints[0]))  # a checkpoint is RUN/best/step-N
    run_config = run_folder.load_config(run_dir)
    run_decoding, decoding = (dataclasses.asdict(config.decoding) for config in (run_config, trained.config))
    changes = {key: value for key, value in decoding.items() if value != run_decoding[key]}
    return {
        "dtype": ", ".join(sorted({model.dtype_policy.name for model in trained.models})),
        "trained_on": run_config.data.path,
        "overrides": [f"decoding.{key}={json.dumps(value)}" for key, value in changes.items()],
        "seed": trained.config.training.seed,
        "parameters": sum(model.count_params() for model in trained.models),
        "step": max(map(step_of, trained.checkpoints)),
        "checkpoints": trained.checkpoints,
    }


def default_folder(run_dir: str, name: str) -> str:
    """Returns the folder for the results of a test set: the run folder for `valid`, RUN/eval/NAME for any other.

    If the run folder holds the results of another split, as a sweep may have written, `valid` has RUN/eval/valid.
    Raises ConfigError if RUN/eval/NAME holds the results of another test set, such as a file of that name elsewhere.
    """
    if name == "valid" and _split_of(run_dir) in ("valid", None):
        return run_dir
    folder = os.path.join(run_dir, EVALUATIONS, os.path.basename(name))
    if (split := _split_of(folder)) not in (name, None):
        raise ConfigError(f"--output_dir: give one for {name}, since {folder} holds the results of {split}")
    return folder


def _split_of(folder: str) -> str | None:
    """Returns the name of the test set whose results a folder holds; None if it has no result, or a damaged one."""
    try:
        return reading.json_file(os.path.join(folder, RESULT), {"split": str})["split"]
    except (OSError, DataError):
        return None


def stored_folder(run_dir: str, split: str) -> str | None:
    """Returns the folder with the results of a run on a split; None if there are none. Raises DataError, OSError."""
    for folder in (run_dir, os.path.join(run_dir, EVALUATIONS, split)):
        path = os.path.join(folder, RESULT)
        if os.path.exists(path) and reading.json_file(path, {"split": str})["split"] == split:
            return folder
    return None


def evaluation_command(run_dir: str, split: str) -> str:
    """Returns the command that evaluates a run."""
    return f"memattn-eval --run_dir {shlex.quote(run_dir)} --split {shlex.quote(split)}"


def write(evaluation: Evaluation, trained: Trained, output_dir: str, *, num_plots: int) -> list[str]:
    """Writes the results, and pictures of `num_plots` alignments if the model has them; returns the files' names.

    Files of an earlier evaluation are replaced or removed. The result comes last: it marks the evaluation as complete.
    Raises OSError.
    """
    os.makedirs(output_dir, exist_ok=True)
    texts = _texts(evaluation, trained)
    for name, lines in texts.items():
        files.write(os.path.join(output_dir, name), "".join(f"{line}\n" for line in lines))
        _remove(output_dir, RESULT)  # of an earlier evaluation, whose texts are no longer complete
    _remove(output_dir, *{N_BEST, *DETOKENIZED} - texts.keys())
    files.write(os.path.join(output_dir, model_card.FILE), model_card.model_card(evaluation.result))
    names = [RESULT, model_card.FILE, *texts]
    pictures = os.path.join(output_dir, ALIGNMENTS)
    remove_pictures(pictures)
    model = trained.models[0]  # an ensemble's pictures are of its first model
    if aligns(model) and aligns(trained.model):
        num_drawn = _plot(model, trained.vocabulary, evaluation, num_plots, pictures)
        names += [f"{ALIGNMENTS}/ (by line, from 0)"] if num_drawn else []
    files.write(os.path.join(output_dir, RESULT), json.dumps(evaluation.result.to_json(), indent=2) + "\n")
    return names


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
            f"{i}\t{score:.6f}\t{text.one_line(trained.text.decode(tokens))}"
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
        alignment = align(model, vocabulary, sources, index, translations[index].best)
        plots.alignments(os.path.join(folder, f"{index}.png"), *alignment)
    return len(chosen)


class Alignment(NamedTuple):
    """Attention weights between a source and a hypothesis.

    Attributes:
      source: labels of the source positions: tokens, or the numbers of vectors from 0.
      target: tokens.
      weights: attention weights of the source positions at each target token, [T, S].
      slot_weights: each memory slot's share of the weights, [K, T, S]; K = 0 without slots.
    """

    source: list[str]
    target: list[str]
    weights: np.ndarray
    slot_weights: np.ndarray


def align(
    model: AligningModel, vocabulary: Vocabulary, sources: Sources, index: int, hypothesis: list[str]
) -> Alignment:
    """Returns a model's alignment of a hypothesis with the source that has this index."""
    labels, target = sources.labels(index, vocabulary), vocabulary.encode(hypothesis)
    source = sources.padded(np.array([index]), 1, len(labels))
    pair = tf.constant(source), tf.constant([target])
    tokens = [vocabulary.tokens[i] for i in target]
    return Alignment(labels, tokens, model.alignments(*pair)[0].numpy(), model.slot_shares(*pair)[0].numpy())
