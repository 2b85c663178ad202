"""Decodes a test set, scores the translations and writes the results."""

import contextlib
import dataclasses
import glob
import json
import os
import re
import statistics

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from memattn import config as configs
from memattn import files, reading
from memattn.data import corpus
from memattn.data import tokenizer as text
from memattn.data.sentences import Sentences
from memattn.data.text_files import read_lines
from memattn.data.vocabulary import Vocabulary, split_words
from memattn.errors import ConfigError, DataError
from memattn.evaluation import metrics, model_card
from memattn.evaluation.metrics import Comparison
from memattn.evaluation.plots import alignments
from memattn.evaluation.result import Result
from memattn.evaluation.target_loss import target_loss
from memattn.models.seq2seq import Seq2Seq
from memattn.runs import provenance, run_folder
from memattn.runs.trained import Trained
from memattn.search.searcher import Scorer, Searcher, Translation, decode, warm_up

RESULT, HYPOTHESES, REFERENCES, N_BEST = "result.json", "hypotheses.txt", "references.txt", "n_best.tsv"
ALIGNMENTS, EVALUATIONS = "alignments", "eval"
_DETOKENIZED = ("hypotheses.detokenized.txt", "references.detokenized.txt")


@dataclasses.dataclass(frozen=True)
class TestSet:
    """Sources to decode, and their references.

    Attributes:
      name: of the split, or the source file's.
      source, target: sentences of ids.
      references: words divided by spaces, BPE undone.
      written: the references as people write them. In both, none holds a tab or an end of a line.
    """

    name: str
    source: Sentences
    target: Sentences
    references: list[str]
    written: list[str]


def read_split(trained: Trained, split: str) -> TestSet:
    """A split of the prepared corpus. Raises ConfigError for an unknown split or another run's corpus, DataError."""
    folder = trained.config.data.path
    corpus.check_folder(folder)
    vocabulary = corpus.read_vocabulary(os.path.join(folder, corpus.VOCABULARY))
    if not trained.reads_as(vocabulary, text.read(folder)):
        raise ConfigError(f"data.folder: the vocabulary or BPE of {folder} differs from the run's; see --source")
    corpus.check_split(folder, split, corpus.splits(folder))
    sides = corpus.read_corpus(folder, split, trained.vocabulary)
    tokens, written = corpus.read_references(folder, split)
    references = [text.one_line(trained.text.decode(split_words(line))) for line in tokens]
    return TestSet(split, sides.source, sides.target, references, list(map(text.one_line, written)))


def read_files(trained: Trained, source: str, target: str) -> TestSet:
    """Two files of text (plain or .gz) or pipes, processed as the training text was. Raises DataError."""
    sources, targets = (read_lines(path, pipes=True) for path in (source, target))
    if len(sources) != len(targets):
        raise DataError(f"{source} has {len(sources):,} lines and {target} has {len(targets):,}")
    if not sources:
        raise DataError(f"{source}: empty; there is nothing to decode")
    spoken, encode, one_line = trained.text, trained.vocabulary.encode, text.one_line
    tokens = [spoken.encode(line, "target") for line in targets]
    sentences = [spoken.encode(line, "source") for line in sources]
    sides = [Sentences.from_ids([encode(one) for one in side]) for side in (sentences, tokens)]
    references = [one_line(spoken.decode(one)) for one in tokens]
    return TestSet(source, *sides, references, [one_line(spoken.reference(line)) for line in targets])


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The results on a test set.

    Attributes:
      translations: the n best of each source.
      hypotheses: the best of each source, words divided by spaces.
      written: the same, as people write them.
    """

    test_set: TestSet
    result: Result
    translations: list[Translation]
    hypotheses: list[str]
    written: list[str]


def evaluate(trained: Trained, test_set: TestSet, *, repeats: int) -> Evaluation:
    """Decodes a test set `repeats` times and scores it. Raises ConfigError, DataError."""
    config, vocabulary = trained.config, trained.vocabulary
    searcher = Searcher(trained.model, config.decoding, trained.lexicon)
    warm_up(searcher, test_set.source, config.data.num_buckets)
    seconds = []
    sentences = len(test_set.source)
    for _ in tqdm(range(repeats), desc=f"decoding {sentences:,} sentences", unit="run", disable=None):
        translations, elapsed = decode(searcher, test_set.source, vocabulary, config.data.num_buckets)
        seconds.append(elapsed)
    spoken, one_line = trained.text, text.one_line
    hypotheses = [one_line(spoken.decode(translation.best)) for translation in translations]
    comparison = Comparison(
        hypotheses=hypotheses,
        references=test_set.references,
        by_characters=spoken.by_characters,
        language=spoken.target_language,
        detokenize=lambda hypothesis: one_line(spoken.detokenize(hypothesis)),
        written_references=test_set.written,
        target_loss=lambda: target_loss(Scorer(trained.model), test_set.source, test_set.target),
    )
    scores = metrics.scores(comparison)
    written, _ = comparison.written
    tokens = sum(len(translation.best) + 1 for translation in translations)
    run_config = run_folder.load_config(os.path.dirname(os.path.dirname(trained.checkpoints[0])))  # of RUN/best/step-N
    searches = [dataclasses.asdict(each.decoding) for each in (run_config, config)]
    changed = {key: value for key, value in searches[1].items() if value != searches[0][key]}
    median = statistics.median(seconds)
    result = Result(
        scores={name: score.value for name, score in scores.items()},
        signatures={name: score.signature for name, score in scores.items() if score.signature},
        decode_seconds=median,
        decode_seconds_min=min(seconds),
        decode_seconds_max=max(seconds),
        repeats=repeats,
        sentences_per_second=sentences / median,
        tokens_per_second=tokens / median,
        excluded_from_time="model construction, tracing and compiling, data loading, batching, ids to text",
        sentences=sentences,
        split=test_set.name,
        beam_size=config.decoding.beam_size,
        batch_size=config.decoding.batch_size,
        jit_compile=searcher.jit_compile,
        dtype=", ".join(sorted({model.dtype_policy.name for model in trained.models})),
        trained_on=run_config.data.path,
        overrides=[f"decoding.{key}={json.dumps(value)}" for key, value in changed.items()],
        seed=config.training.seed,
        parameters=sum(model.count_params() for model in trained.models),
        step=max(int(path.rpartition("-")[2]) for path in trained.checkpoints),
        checkpoints=trained.checkpoints,
        **provenance.conditions(),
        config=configs.to_dict(config),
    )
    return Evaluation(test_set, result, translations, hypotheses, written)


def default_folder(run_dir: str, name: str) -> str:
    """Where a test set's results go: the run folder if it is `valid`, RUN/eval/NAME for others.

    RUN/eval/valid if the run folder holds the result of another split, as sweeps write it.
    """
    try:
        stored = reading.json_file(os.path.join(run_dir, RESULT), {"split": str})["split"]
    except (OSError, DataError):  # no result that can be used
        stored = "valid"
    return run_dir if name == stored == "valid" else os.path.join(run_dir, EVALUATIONS, os.path.basename(name))


def write(evaluation: Evaluation, trained: Trained, output_dir: str, *, plots: int) -> list[str]:
    """Writes the results and pictures of `plots` alignments, if there are any; returns the files' names.

    Raises OSError.
    """
    test_set, translations = evaluation.test_set, evaluation.translations
    plots = plots if trained.model.has_alignments else 0
    os.makedirs(output_dir, exist_ok=True)
    texts = {HYPOTHESES: evaluation.hypotheses, REFERENCES: test_set.references}
    if (evaluation.written, test_set.written) != (evaluation.hypotheses, test_set.references):
        texts |= dict(zip(_DETOKENIZED, (evaluation.written, test_set.written), strict=True))
    if trained.config.decoding.n_best > 1:
        texts[N_BEST] = [
            f"{i}\t{score:.6f}\t{text.one_line(trained.text.decode(tokens))}"
            for i, translation in enumerate(translations)
            for tokens, score in zip(translation.hypotheses, translation.scores, strict=True)
        ]
    for name in {N_BEST, *_DETOKENIZED} - texts.keys():  # of an earlier evaluation
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(output_dir, name))
    for name, lines in texts.items():
        files.write(os.path.join(output_dir, name), "".join(f"{line}\n" for line in lines))
    files.write(os.path.join(output_dir, RESULT), json.dumps(evaluation.result.to_json(), indent=2) + "\n")
    files.write(os.path.join(output_dir, model_card.FILE), model_card.model_card(evaluation.result))
    drawn = _plot(trained, evaluation, plots, os.path.join(output_dir, ALIGNMENTS))
    return [RESULT, model_card.FILE, *texts, *[f"{ALIGNMENTS}/ (by line, from 0)"] * bool(drawn)]


def _plot(trained: Trained, evaluation: Evaluation, plots: int, folder: str) -> int:
    """Draws alignments of the `plots` longest sources with a translation, in place of older pictures; how many.

    An ensemble's are those of its first model.
    """
    for path in glob.glob(os.path.join(glob.escape(folder), "*.png")):
        if re.fullmatch(r"\d+\.png", os.path.basename(path)):
            os.remove(path)  # of an earlier evaluation
    sources, translations = evaluation.test_set.source, evaluation.translations
    longest_first = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
    chosen = [index for index in longest_first if translations[index].best][:plots]
    if chosen:
        os.makedirs(folder, exist_ok=True)
    for index in chosen:
        drawn = aligned(trained.models[0], trained.vocabulary, sources[index], translations[index].best)
        alignments(os.path.join(folder, f"{index}.png"), *drawn)
    return len(chosen)


def aligned(
    model: Seq2Seq, vocabulary: Vocabulary, source: np.ndarray, hypothesis: list[str]
) -> tuple[list[str], list[str], np.ndarray, np.ndarray]:
    """The arguments of `plots.alignments` for source ids [S] and a hypothesis: both as tokens, and weights."""
    target = vocabulary.encode(hypothesis)
    combined, slots = model.alignments(tf.constant([source]), tf.constant([target]))
    tokens = [[vocabulary.tokens[i] for i in ids] for ids in (source, target)]
    return *tokens, combined[0].numpy(), slots[0].numpy()
