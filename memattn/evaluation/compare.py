"""Compares runs by their translations of a test set: scores, significance, and the sentences that differ most."""

import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from sacrebleu.metrics import CHRF
from sacrebleu.significance import PairedTest

from memattn import reading
from memattn.config import DecodingConfig
from memattn.data import tokenizer as tokenizers
from memattn.data.trees import are_trees
from memattn.errors import ConfigError, RunError
from memattn.evaluation import formatting
from memattn.evaluation.metrics import METRICS, default_bleu
from memattn.evaluation.stored import (
    DETOKENIZED,
    HYPOTHESES,
    REFERENCES,
    RESULT,
    evaluation_command,
    read_translations,
    stored_folder,
)

_RESAMPLES = 1_000  # of the test set, for intervals and p-values; as in sacreBLEU's command
# Keys of `decoding` that change no translation in an evaluation.
_WITHOUT_EFFECT = ("batch_size", "jit_compile", "long_lines", "max_source_length")


class RunTranslations(NamedTuple):
    """A run's translations of a test set.

    Attributes:
      run_dir: path of the run folder.
      language: code of the target language; "" if there is none, or if the folder has results alone.
      hypotheses, references: ordinary text.
      decoding: the settings that the run was decoded with.
    """

    run_dir: str
    language: str
    hypotheses: list[str]
    references: list[str]
    decoding: Mapping[str, Any]


def read(run_dir: str, split: str) -> RunTranslations:
    """Reads what an evaluation of a run has written.

    Raises ConfigError if there is no such folder, RunError if it has no evaluation, DataError, OSError.
    """
    if not os.path.isdir(run_dir):
        raise ConfigError(f"{run_dir}: no such folder")
    folder = stored_folder(run_dir, split)
    if folder is None:
        raise RunError(f"{run_dir}: no evaluation on {split}; make one with: {evaluation_command(run_dir, split)}")
    has_detokenized = os.path.exists(os.path.join(folder, DETOKENIZED[0]))
    hypotheses, references = read_translations(folder, DETOKENIZED if has_detokenized else (HYPOTHESES, REFERENCES))
    result = reading.json_file(os.path.join(folder, RESULT), {("config", "decoding"): dict})
    language = tokenizers.read(run_dir).target_language
    decoding = {**dataclasses.asdict(DecodingConfig()), **result["config"]["decoding"]}  # older results lack keys
    return RunTranslations(run_dir, language, hypotheses, references, decoding)


def compare(runs: list[RunTranslations], num_sentences: int) -> str:
    """Returns a table of scores with intervals of 95% and p-values against the first run, and sentences that differ.

    Intervals and p-values are by sacreBLEU's paired bootstrap (Koehn, 2004). The `num_sentences` sentences are those
    whose chrF differs most between the first two runs. Raises RunError if the references are trees or differ between
    runs.
    """
    first = runs[0]
    if are_trees(first.references):
        raise RunError(
            f"{first.run_dir}: has trees, of which sacreBLEU and chrF say little; compare bracketing_f1 in result.json"
        )
    for run in runs[1:]:
        if run.references != first.references:
            raise RunError(f"{run.run_dir}: has other references than {first.run_dir}; compare runs on one test set")
    sacrebleu_logger = logging.getLogger("sacrebleu")
    level = sacrebleu_logger.level
    sacrebleu_logger.setLevel(logging.ERROR)  # it would report each run
    try:
        systems: list[tuple[str, Sequence[str]]] = [(run.run_dir, run.hypotheses) for run in runs]
        language = next((run.language for run in runs if run.language), "")
        metrics = {"BLEU": default_bleu(language), "chrF": CHRF()}
        signatures, results = PairedTest(systems, metrics, [first.references], "bs", _RESAMPLES)()
    finally:
        sacrebleu_logger.setLevel(level)
    rows = []
    for i, run in enumerate(runs):
        row = {"run": run.run_dir}
        for name, metric in zip(signatures, (METRICS["sacrebleu"], METRICS["chrf"]), strict=True):
            result = cast(Any, results[name][i])
            row[metric.title] = f"{result.score:.2f}"
            row[f"{metric.title} 95%"] = formatting.extent([result.mean - result.ci, result.mean + result.ci], ".2f")
            # sacreBLEU would give the smallest p to a difference of 0.
            p = 1.0 if result.score == cast(Any, results[name][0]).score else result.p_value
            row[f"{metric.title} p"] = "" if run is first else f"{p:.3f}"
        rows.append(row)
    lines = [formatting.markdown(rows), *(str(signature) for signature in signatures.values())]
    lines += _decoding_differences(runs)
    return "\n".join([*lines, *_most_different(runs[0], runs[1], num_sentences)]) + "\n"


def _decoding_differences(runs: list[RunTranslations]) -> list[str]:
    """Returns a line on the settings of decoding that differ between runs; none if they are the same."""
    ignored = {*_WITHOUT_EFFECT, *([] if any(run.decoding["lexicon"] for run in runs) else ["lexicon_size"])}
    different = [
        key
        for key in sorted(set().union(*(run.decoding for run in runs)) - ignored)
        if any(run.decoding.get(key) != runs[0].decoding.get(key) for run in runs)
    ]
    if not different:
        return []
    values = "; ".join(f"{key} {', '.join(str(run.decoding.get(key)) for run in runs)}" for key in different)
    return ["", f"The runs were decoded with different settings, from which differences may come: {values}"]


def _most_different(first: RunTranslations, second: RunTranslations, number: int) -> list[str]:
    """Returns lines that show the sentences whose chrF differs most between two runs; none if all are equal."""
    chrf = CHRF()
    scores = np.array(
        [
            [chrf.sentence_score(hypothesis, [reference]).score for hypothesis in hypotheses]
            for *hypotheses, reference in zip(first.hypotheses, second.hypotheses, first.references, strict=True)
        ]
    )
    differences = np.abs(scores[:, 0] - scores[:, 1])
    width = max(len("reference"), len(first.run_dir), len(second.run_dir))
    lines = []
    for index in np.argsort(-differences, kind="stable")[:number]:
        if differences[index] == 0:
            break
        lines += [
            "",
            f"line {index + 1:,}: chrF {scores[index, 0]:.1f} and {scores[index, 1]:.1f}",
            f"  {'reference':{width}}  {first.references[index]}",
            f"  {first.run_dir:{width}}  {first.hypotheses[index]}",
            f"  {second.run_dir:{width}}  {second.hypotheses[index]}",
        ]
    return lines
