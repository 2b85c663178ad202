"""Compares mechanisms on long texts: their scores, their decode times, and BLEU by the length of the source."""

import dataclasses
import os
import statistics
from typing import Any

import numpy as np
from benchmarks.decoders import Decoder, decoder, in_turns, untrained_model

from memattn import files
from memattn.config import Config
from memattn.data import corpus
from memattn.data.sentences import Sentences
from memattn.evaluation import formatting, styles
from memattn.evaluation.metrics import Comparison
from memattn.evaluation.plots import Line
from memattn.files import read_lines
from memattn.runs.run import Run
from memattn.search.searcher import Searcher
from memattn.sweeps.runs import SweepRun
from studies import plots
from studies.lengths import bleu_by_length
from studies.output import Output
from studies.runs import count, groups, mean_score, model_words, num_slots, rows_by, scores, summary, text_name

_BASELINE = "Bahdanau"
_TIMED = {32: 64, 1: 4}  # sources that are searched at once: number of test sources that are decoded
_REPEATS = 5
_BIBLE, _SUMMARIES = "bible", "synopses"  # how texts are called; those of the Bible differ in length alone
_NUM_SLOTS = 32  # of the memories that are drawn against the length


def long_texts(output: Output, runs: list[SweepRun]) -> None:
    """Writes scores on the test set by text and model."""
    keys = {"text": text_name, "model": model_words}
    rows = rows_by(
        sorted(runs, key=text_name),
        keys,
        count,
        lambda seeds: summary("BLEU", scores(seeds, "sacrebleu")),
        lambda seeds: {"chrF": mean_score(seeds, "chrf")},
    )
    output.table(rows, "Long texts: scores on the test set")


def decoding(output: Output, runs: list[SweepRun]) -> None:
    """Writes decode times by text and model, and by the length of the source BLEU; ROUGE of synopses. Draws them."""
    texts = groups(runs, text_name, model_words)
    rows = [row for same in groups(runs, text_name).values() for row in decode_times(same)]
    output.table(rows, f"Long texts: decode seconds of untrained models in turns, median of {_REPEATS}")
    by_length = [
        {"text": text, "model": model, "source tokens": lengths, "sentences": number, "BLEU": f"{bleu:.2f}"}
        for (text, model), seeds in texts.items()
        for (lengths, number), bleu in bleu_by_length(seeds).items()
    ]
    files.write_csv(output.path("by_length.csv"), by_length)
    summaries = {model: seeds for (text, model), seeds in texts.items() if text.startswith(_SUMMARIES)}
    if summaries:
        rouge = [{"model": model, **count(seeds), **_rouge(seeds)} for model, seeds in summaries.items()]
        files.write_csv(output.path("rouge.csv"), rouge)
    draw(output, runs, rows)


def decode_times(runs: list[SweepRun]) -> list[dict[str, Any]]:
    """Returns a row for each model of the runs on one text: decode seconds, and the speed-up over attention.

    The models are untrained, so that the hypotheses of all are equally long: their ratio to the sources is that of the
    references.
    """
    folder, split = runs[0].config.data.path, runs[0].result.split
    lines = read_lines(os.path.join(folder, f"{split}.source"))
    words = round(statistics.median(len(line.replace("@@ ", "").split()) for line in lines))
    by_model = {model: seeds[0].config for model, seeds in groups(runs, model_words).items()}
    rows = {model: {"text": text_name(runs[0]), "source words": words, "model": model} for model in by_model}
    for size in _TIMED:
        seconds = in_turns({model: _decoder(config, split, size) for model, config in by_model.items()}, _REPEATS)
        for model, measured in seconds.items():
            median = statistics.median(measured)
            speed_up = f"{statistics.median(seconds[_BASELINE]) / median:.2f}" if _BASELINE in seconds else ""
            rows[model] |= {
                f"decode s, batch {size}": f"{median:.3g}",
                f"range, batch {size}": formatting.extent(measured, ".3g"),
                f"speed-up, batch {size}": speed_up,
            }
    return list(rows.values())


def _decoder(config: Config, split: str, batch_size: int) -> Decoder:
    """Returns a function that decodes a split's sources of about the median length with an untrained model.

    No hypothesis of the model ends before its greatest length.
    """
    vocabulary = corpus.read_vocabulary(config.data.path)
    pairs = corpus.read_corpus(config.data.path, split, vocabulary)
    lengths = pairs.source.lengths()
    chosen = np.argsort(np.abs(lengths - np.median(lengths)), kind="stable")[: _TIMED[batch_size]]
    source = Sentences.from_ids([pairs.source[i].tolist() for i in chosen])
    decoding = dataclasses.replace(
        config.decoding,
        batch_size=batch_size,
        max_length_ratio=float(pairs.target.lengths().sum() / lengths.sum()),
        max_length=None,
    )
    model = untrained_model(config, len(vocabulary), int(source.lengths().max()))
    return decoder(Searcher(model, decoding), source, vocabulary, num_buckets=1)


def _rouge(seeds: list[SweepRun]) -> dict[str, str]:
    """Returns the mean of each ROUGE over runs that differ in seed."""
    by_run = [Comparison(*Run(run.folder).translations(run.result.split)).rouge for run in seeds]
    return {name: f"{statistics.mean(scores[name].value for scores in by_run):.2f}" for name in by_run[0]}


def draw(output: Output, runs: list[SweepRun], times: list[dict[str, Any]]) -> None:
    """Draws BLEU of runs and speed-ups of `times`: by the length of the Bible's examples; for the longest, by slots.

    Texts without a run of attention have no speed-ups, and are left out.
    """
    bible = {row["text"]: int(row["source words"]) for row in times if row["text"].startswith(_BIBLE)}
    longest = max(bible, key=lambda text: bible[text])
    speed_ups = {
        (row["text"], row["model"]): float(speed_up) for row in times if (speed_up := row["speed-up, batch 32"])
    }
    bleu: dict[str, dict] = {}
    speed: dict[str, dict] = {}
    losses, attentions = [], {}
    by_model = {key: seeds for key, seeds in groups(runs, text_name, model_words).items() if key in speed_ups}
    for (text, model), seeds in by_model.items():
        attention, scored = styles.attention(seeds[0].config), scores(seeds, "sacrebleu")
        speed_up = speed_ups[text, model]
        if text in bible and attention.get("num_slots", _NUM_SLOTS) == _NUM_SLOTS:
            attentions[model] = attention
            bleu.setdefault(model, {})[bible[text]] = (statistics.mean(scored), min(scored), max(scored))
            speed.setdefault(model, {})[bible[text]] = (speed_up,) * 3
        if text == longest and "num_slots" in attention:
            lost = statistics.mean(scores(by_model[text, _BASELINE], "sacrebleu")) - statistics.mean(scored)
            losses.append((attention, num_slots(seeds[0]), lost, speed_up))
    qualities, speed_lines = (
        [Line(model, attentions[model], points[model]) for model in attentions] for points in (bleu, speed)
    )
    title = f"The longer the source, the more speed memories gain and the more quality they lose{output.label}"
    output.pictures("length", lambda path: plots.by_length(path, qualities, speed_lines, title))
    title = f"{bible[longest]} words to a source: more slots lose less quality{output.label}"
    output.pictures("slots", lambda path: plots.loss_and_speed(path, losses, title))
