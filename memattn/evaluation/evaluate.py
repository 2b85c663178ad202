"""Decodes a test set and scores the translations."""

import dataclasses
import json
import statistics
from typing import Any

from tqdm import tqdm

from memattn import config as configs
from memattn.data.tokenizer import without_line_breaks
from memattn.evaluation import metrics
from memattn.evaluation.metrics import METRICS, Comparison
from memattn.evaluation.test_set import TestSet
from memattn.runs import provenance
from memattn.runs.checkpoints import step_of
from memattn.runs.result import Result
from memattn.runs.trained import Trained
from memattn.search.scorer import Scorer
from memattn.search.searcher import Searcher, decode, warm_up
from memattn.search.translation import Translation


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


def evaluate(trained: Trained, test_set: TestSet, *, repeats: int, rouge: bool = False) -> Evaluation:
    """Decodes a test set `repeats` times and scores it, also by ROUGE if asked to. Raises ConfigError, DataError."""
    config, num_buckets, num_sentences = trained.config, trained.config.data.num_buckets, len(test_set.source)
    kinds = {METRICS[config.training.metric].kind}  # of metrics
    kinds |= {"transcripts"} if config.data.source == "features" else set()
    kinds |= {"summaries"} if rouge else set()
    metrics.check_installed(kinds)
    searcher = Searcher(trained.model, config.decoding, trained.lexicon)
    warm_up(searcher, test_set.source, num_buckets)
    seconds = []
    for _ in tqdm(range(repeats), desc=f"decoding {num_sentences:,} sentences", unit="run", disable=None):
        translations, elapsed = decode(searcher, test_set.source, trained.vocabulary, num_buckets)
        seconds.append(elapsed)
    hypotheses = [without_line_breaks(trained.tokenizer.decode(translation.best)) for translation in translations]
    comparison = Comparison.for_tokenizer(
        trained.tokenizer,
        hypotheses=hypotheses,
        references=test_set.references,
        detokenized_references=test_set.detokenized_references,
        target_loss=lambda: Scorer(trained.model).target_loss(test_set.source, test_set.target),
        kinds=kinds,
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
        **_model_fields(trained),
        **provenance.conditions(),
        config=configs.to_dict(config),
    )
    detokenized_hypotheses, _ = comparison.detokenized
    return Evaluation(test_set, result, translations, hypotheses, detokenized_hypotheses)


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
