"""An evaluation: reads a test set, decodes it, scores the translations, and writes all results."""

import contextlib
import dataclasses
import glob
import json
import os
import re
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from memattn import config as configs
from memattn import files
from memattn.config import Config
from memattn.data import corpus
from memattn.data import tokenizer as tokenizers
from memattn.data.sentences import Sentences, Sources
from memattn.data.tokenizer import Tokenizer, without_line_breaks
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError
from memattn.evaluation import metrics
from memattn.evaluation.metrics import METRICS, Comparison
from memattn.evaluation.model_card import model_card
from memattn.models.interface import Model
from memattn.runs.checkpoints import step_of
from memattn.runs.result import Result, conditions
from memattn.runs.run import ALIGNMENTS, DETOKENIZED, HYPOTHESES, MODEL_CARD, N_BEST, REFERENCES, RESULT, RESULTS
from memattn.runs.trained import Trained
from memattn.search.searcher import Searcher, decode, warm_up
from memattn.search.translation import Translation
from memattn.serving.scorer import Scorer


@dataclasses.dataclass(frozen=True)
class TestSet:
    """Sources to decode, and their references. A reference is one line without tabs."""

    name: str  # name of the split, or path of the file with the sources
    source: Sources
    target: Sentences  # ids of the references, for the loss
    references: list[str]  # words divided by spaces, BPE undone
    detokenized_references: list[str]  # ordinary text

    def comparison(
        self, translations: Sequence[Translation], tokenizer: Tokenizer, target_loss: Callable[[], float]
    ) -> Comparison:
        """Returns the comparison of translations with the references; `target_loss` is its field."""
        return Comparison(
            hypotheses=tokenizer.decode(translation.best for translation in translations),
            references=self.references,
            by_characters=tokenizer.by_characters,
            language=tokenizer.target_language,
            detokenize=tokenizer.detokenize,
            detokenized_references=self.detokenized_references,
            target_loss=target_loss,
        )


def read_split(trained: Trained, split: str) -> TestSet:
    """Reads a split of the prepared corpus.

    Raises ConfigError if there is no such split, or if its vocabulary or features differ from the run's; DataError,
    OSError.
    """
    folder = trained.config.data.path
    corpus.check_split(folder, split)
    vocabulary = corpus.read_vocabulary(folder)
    run = trained.runs[0]
    if not run.reads_as(vocabulary, tokenizers.read(folder)):
        problem = f"the vocabulary or BPE of {folder} differs from the run's"
        raise ConfigError(f"data.folder: {problem}; memattn-eval decodes files with --source")
    test_set = read_test_set(folder, split, vocabulary, run.tokenizer, trained.config.data.source)
    if (metadata := test_set.source.metadata()) != run.source_metadata:
        problem = f"the sources of {folder} have {metadata}, not the run's {run.source_metadata}"
        raise ConfigError(f"data.folder: {problem}; prepare it with --vocabulary_of")
    return test_set


def read_test_set(folder: str, split: str, vocabulary: Vocabulary, tokenizer: Tokenizer, kind: str) -> TestSet:
    """Reads a split whose sources are of the kind that `data.source` names. Raises ConfigError, DataError, OSError."""
    pairs = corpus.read_corpus(folder, split, vocabulary, kind)
    tokenized, detokenized = corpus.read_references(folder, split)
    references = tokenizer.decode(tokenized)
    return TestSet(split, pairs.source, pairs.target, references, list(map(without_line_breaks, detokenized)))


def read_files(trained: Trained, source: str, target: str) -> TestSet:
    """Reads two files of text (plain or .gz), processed as the training text was.

    Raises ConfigError if the run's sources are no text, DataError, OSError.
    """
    trained.check_reads_text("--source")
    source_lines, target_lines = (files.read_lines(path) for path in (source, target))
    corpus.check_line_counts({source: len(source_lines), target: len(target_lines)})
    source_tokens = [trained.tokenizer.encode(line, "source") for line in source_lines]
    target_tokens = [trained.tokenizer.encode(line, "target") for line in target_lines]
    return TestSet(
        name=source,
        source=Sentences.from_ids([trained.vocabulary.encode(tokens) for tokens in source_tokens]),
        target=Sentences.from_ids([trained.vocabulary.encode(tokens) for tokens in target_tokens]),
        references=trained.tokenizer.decode(target_tokens),
        detokenized_references=[without_line_breaks(trained.tokenizer.reference(line)) for line in target_lines],
    )


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The translations of a test set, and their scores."""

    test_set: TestSet
    result: Result
    translations: list[Translation]  # the n best hypotheses of each source
    comparison: Comparison  # the best hypotheses beside the references


def evaluate(trained: Trained, test_set: TestSet, *, repeats: int, rouge: bool = False) -> Evaluation:
    """Decodes a test set `repeats` times and scores it, also by ROUGE if asked to. Raises ConfigError, DataError."""
    config, num_buckets, num_sentences = trained.config, trained.config.data.num_buckets, len(test_set.source)
    computed = _metrics(config, test_set.references, rouge=rouge)
    searcher = Searcher(trained.model, config.decoding, trained.lexicon)
    warm_up(searcher, test_set.source, num_buckets)
    seconds = []
    for _ in tqdm(range(repeats), desc=f"decoding {num_sentences:,} sentences", unit="run", disable=None):
        translations, elapsed = decode(searcher, test_set.source, trained.vocabulary, num_buckets)
        seconds.append(elapsed)
    scorer = Scorer(trained.model)
    comparison = test_set.comparison(
        translations, trained.tokenizer, lambda: scorer.target_loss(test_set.source, test_set.target)
    )
    scores = metrics.scores(comparison, computed)
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
        **_model_fields(trained),
        **conditions(),
        config=configs.to_dict(config),
    )
    return Evaluation(test_set, result, translations, comparison)


def _metrics(config: Config, references: list[str], *, rouge: bool) -> list[str]:
    """Returns the names of the metrics to compute. Raises ConfigError if one needs a package that is not installed."""
    kinds = {METRICS[config.training.metric].kind}
    if config.data.source == "features":
        kinds.add("transcripts")
    if rouge:
        kinds.add("summaries")
    metrics.check_installed(kinds)
    return metrics.evaluation_metrics(references, kinds)


def _model_fields(trained: Trained) -> dict[str, Any]:
    """Returns the fields of a result that describe the model and the overrides of its search."""
    run_config = trained.runs[0].config
    run_decoding, decoding = (dataclasses.asdict(config.decoding) for config in (run_config, trained.config))
    changes = {key: value for key, value in decoding.items() if value != run_decoding[key]}
    return {
        "dtype": ", ".join(sorted({model.dtype_policy.name for model in trained.models})),
        "trained_on": run_config.data.path,
        "overrides": [f"decoding.{key}={json.dumps(value)}" for key, value in changes.items()],
        "seed": run_config.training.seed,
        "parameters": sum(model.count_params() for model in trained.models),
        "step": max(map(step_of, trained.checkpoints)),
        "checkpoints": trained.checkpoints,
    }


def write(evaluation: Evaluation, trained: Trained, output_dir: str, *, num_plots: int) -> None:
    """Writes the results, and pictures of `num_plots` alignments if the model has them.

    Removes those of an earlier evaluation. The result comes last: it marks the evaluation as complete. Raises OSError.
    """
    pictures = os.path.join(output_dir, ALIGNMENTS)
    os.makedirs(output_dir, exist_ok=True)
    _remove_results(output_dir)
    for name, lines in _texts(evaluation, trained).items():
        files.write_lines(os.path.join(output_dir, name), lines)
    files.write(os.path.join(output_dir, MODEL_CARD), model_card(evaluation.result))
    model = trained.models[0]  # an ensemble's pictures are of its first model
    if num_plots and trained.model.has_alignments:
        _plot(model, trained.vocabulary, evaluation, num_plots, pictures)
    files.write(os.path.join(output_dir, RESULT), json.dumps(evaluation.result.to_json(), indent=2) + "\n")


def _texts(evaluation: Evaluation, trained: Trained) -> dict[str, list[str]]:
    """Returns the lines of each text file. Detokenized text has files only if it differs from tokenized text."""
    comparison = evaluation.comparison
    tokenized = comparison.hypotheses, comparison.references
    texts = dict(zip((HYPOTHESES, REFERENCES), tokenized, strict=True))
    if comparison.detokenized != tokenized:
        texts |= dict(zip(DETOKENIZED, comparison.detokenized, strict=True))
    if trained.config.decoding.n_best > 1:
        texts[N_BEST] = [
            f"{i}\t{score:.6f}\t{line}"
            for i, translation in enumerate(evaluation.translations)
            for line, score in zip(trained.tokenizer.decode(translation.hypotheses), translation.scores, strict=True)
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


def _plot(model: Model, vocabulary: Vocabulary, evaluation: Evaluation, num_plots: int, folder: str) -> None:
    """Draws the alignments of the longest sources that have a translation."""
    from memattn.evaluation import plots  # loads much of Matplotlib

    sources, translations = evaluation.test_set.source, evaluation.translations
    longest_first = np.argsort(-sources.lengths(), kind="stable")
    chosen = [index for index in longest_first if translations[index].best][:num_plots]
    if chosen:
        os.makedirs(folder, exist_ok=True)
    for index in chosen:
        alignment = plots.align(model, vocabulary, sources, index, translations[index].best)
        plots.save(plots.alignment_figure(alignment), os.path.join(folder, f"{index}.png"))
