"""Compares attention mechanisms in speech recognition: error rates, learning curves, attention."""

import statistics
from collections.abc import Mapping

from memattn.config import Config, TrainingConfig
from memattn.evaluation import evaluate as evaluation
from memattn.evaluation import plots as evaluation_plots
from memattn.evaluation import styles
from memattn.evaluation.evaluate import read_split
from memattn.runs.trained import load
from memattn.sweeps.runs import SweepRun
from studies import plots
from studies.output import Output, at_least_one
from studies.runs import count, groups, mean_score, scores, summary

_ONLINE = ("monotonic", "mocha", "matcha")  # mechanisms whose decoder need not wait for the end of the source
# Models whose attention is drawn, and which are fine-tuned on the voice of a person.
_CHOSEN = ("Bahdanau", "monotonic", "memory, K = 32", "windowed memory, K = 32, read by address")


def speech(output: Output, runs: list[SweepRun]) -> None:
    """Writes error rates for voices of the training split and for new ones.

    Draws learning curves, and attention weights above the features of an utterance.
    """
    by_label = groups(runs, lambda run: _label(run.config))
    rows = []
    for label, seeds in by_label.items():
        # data/spoken_captions.py prepares this corpus last; its voices are not in the training split.
        unheard = [_evaluated(run, f"data.folder={run.config.data.path}.unheard") for run in seeds]
        rows.append(
            {
                "model": label,
                **count(seeds),
                **summary("CER %", scores(seeds, "cer"), ".1f"),
                "WER %": mean_score(seeds, "wer", ".1f"),
                "CER %, new voices": mean_score(unheard, "cer", ".1f"),
                "WER %, new voices": mean_score(unheard, "wer", ".1f"),
                "online decoder": "yes" if styles.attention(seeds[0].config)["name"] in _ONLINE else "no",
                "parameters": f"{seeds[0].result.parameters:,}",
            }
        )
    output.table(rows, "Speech recognition: error rates")
    output.learning_curves("learning_curves", by_label, "Speech recognition", metric="cer")
    _draw_attention(output, by_label)


def person(output: Output, spoken: list[SweepRun], tuned: list[SweepRun]) -> None:
    """Writes error rates for a person's voice, before and after fine-tuning: a row for each fine-tuned run."""
    before = {_label(run.config): run for run in spoken}
    rows = []
    for run in tuned:
        label = _label(run.config)
        untuned = _evaluated(before[label], f"data.folder={run.config.data.path}")
        rows.append(
            {
                "model": label,
                "CER %, synthetic voices": mean_score([before[label]], "cer", ".1f"),
                "CER %, a person": mean_score([untuned], "cer", ".1f"),
                "WER %, a person": mean_score([untuned], "wer", ".1f"),
                "CER %, fine-tuned": mean_score([run], "cer", ".1f"),
                "WER %, fine-tuned": mean_score([run], "wer", ".1f"),
            }
        )
    output.table(rows, "A person's voice: error rates of models trained on synthetic voices")


def in_fine_tuning(config: Config) -> bool:
    """Returns whether a run is fine-tuned on a person's voice, or is a run that fine-tuning starts from."""
    start = _label(config) in _CHOSEN and config.training.seed == TrainingConfig().seed
    return bool(config.training.init_from) or start


def _label(config: Config) -> str:
    attention = styles.attention(config)
    chunk = f", w = {attention['chunk_size']}" if "chunk_size" in attention else ""
    return styles.words(attention) + chunk


def _evaluated(run: SweepRun, override: str) -> SweepRun:
    """Returns a run with its result on the split `test`, with an override of its config."""
    trained = load([run.folder], [override])
    return run._replace(result=evaluation.evaluate(trained, read_split(trained, "test"), repeats=1).result)


def _draw_attention(output: Output, runs_by_label: Mapping[str, list[SweepRun]]) -> None:
    """Draws attention weights of several models over an utterance, above its features.

    For each model with memory slots, draws another picture, of the slots.
    """
    drawn = {label: runs_by_label[label][0] for label in _CHOSEN if label in runs_by_label}
    weights = {}
    for label, run in at_least_one(list(drawn.items()), "to be drawn"):
        trained = load([run.folder])
        test_set = read_split(trained, "test")
        lengths = test_set.source.lengths()
        index = int(abs(lengths - statistics.median(lengths)).argmin())
        reference = trained.tokenizer.encode(test_set.references[index], "target")
        aligned = evaluation_plots.align(trained.models[0], trained.vocabulary, test_set.source, index, reference)
        weights[label] = aligned.weights
        if len(aligned.slots):
            output.alignments(styles.attention(run.config)["name"], aligned, label)
    title = f"Attention over the sound{output.label}"
    features, text = test_set.source[index], test_set.references[index]
    output.pictures("attention", lambda path: plots.attention_over_sound(path, features, weights, text, title))
