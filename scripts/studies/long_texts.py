"""Compares the quality and the decode time of mechanisms on long texts."""

import os
import statistics
from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.trained import Decoder, decoder, in_turns

from memattn.data.sentences import Sentences
from memattn.evaluation import formatting, styles
from memattn.evaluation.evaluate import read_split
from memattn.evaluation.plots import Line
from memattn.files import read_lines
from memattn.runs.trained import load
from memattn.sweeps.runs import SweepRun
from studies import plots
from studies.output import Output
from studies.runs import count, groups, model_words, num_slots, scores, summary, text_name

_BASELINE = "Bahdanau"
_TIMED = {32: 96, 1: 16}  # sources that are searched at once: greatest number of test sources that are decoded
_REPEATS = 3
_BIBLE = "bible"  # corpora of this name differ in the length of their examples alone
_NUM_SLOTS = 32  # of the memories that are drawn against the length


class _Model(NamedTuple):
    """The runs of a mechanism on a text that differ in seed, and the decode seconds of the first by batch size."""

    text: str
    words: int  # the median number of words of a test source
    name: str
    seeds: list[SweepRun]
    seconds: Mapping[int, list[float]]

    @property
    def bleu(self) -> list[float]:
        return scores(self.seeds, "sacrebleu")

    @property
    def attention(self) -> Mapping[str, Any]:
        return styles.attention(self.seeds[0].config)


def long_texts(output: Output, runs: list[SweepRun]) -> None:
    """Writes scores on the test set and decode times by text and model.

    Draws them for the Bible against the length of the sources; and what memories of the longest examples lose in BLEU
    and win in time, by their number of slots.
    """
    models = [model for same in groups(runs, text_name).values() for model in _models(same)]
    models.sort(key=lambda model: model.words)
    rows = []
    for model in models:
        row = {
            "text": model.text,
            "source words": model.words,
            "model": model.name,
            **count(model.seeds),
            **summary("BLEU", model.bleu),
            "chrF": f"{statistics.mean(scores(model.seeds, 'chrf')):.2f}",
        }
        for size, speed_up in _speed_ups(model, models).items():
            times = model.seconds[size]
            row[f"decode s, batch {size}"] = f"{statistics.median(times):.3g}"
            row[f"range, batch {size}"] = formatting.extent(times, ".3g")
            row[f"speed-up, batch {size}"] = f"{speed_up:.2f}" if speed_up else ""
        rows.append(row)
    output.table(rows, "Long texts: scores on the test set; decode seconds, and the speed-up over Bahdanau attention")
    bible = [model for model in models if model.text.startswith(_BIBLE)]
    by_length = [model for model in bible if model.attention.get("num_slots", _NUM_SLOTS) == _NUM_SLOTS]
    title = f"The same text in longer examples{output.label}"
    output.pictures("length", lambda path: plots.by_length(path, *_lines(by_length, models), title))
    longest = [model for model in bible if model.words == bible[-1].words]
    title = f"{longest[0].words} words to a source: quality lost, speed won{output.label}"
    output.pictures("slots", lambda path: plots.loss_and_speed(path, _losses(longest), title))


def _models(runs: list[SweepRun]) -> list[_Model]:
    """Returns the models of the runs on one text, whose first seeds decode the test set in turns."""
    lines = read_lines(os.path.join(runs[0].config.data.path, "test.source"))
    words = round(statistics.median(len(line.replace("@@ ", "").split()) for line in lines))
    by_name = groups(runs, model_words)
    seconds = {size: in_turns(_decoders(by_name, size), _REPEATS) for size in _TIMED}
    return [
        _Model(text_name(runs[0]), words, name, seeds, {size: times[name] for size, times in seconds.items()})
        for name, seeds in by_name.items()
    ]


def _decoders(by_name: Mapping[str, list[SweepRun]], batch_size: int) -> dict[str, Decoder]:
    """Returns what decodes the test set with the first run of each name."""
    decoders = {}
    for name, (run, *_) in by_name.items():
        trained = load([run.folder], [f"decoding.batch_size={batch_size}"], None)
        every = read_split(trained, run.result.split).source
        source = Sentences.from_ids([every[i].tolist() for i in range(min(len(every), _TIMED[batch_size]))])
        decoders[name] = decoder(trained, source)
    return decoders


def _speed_ups(model: _Model, models: list[_Model]) -> dict[int, float | None]:
    """Returns the speed-up over Bahdanau attention on the same text by batch size; None where that has no run."""
    baselines = [each for each in models if (each.text, each.name) == (model.text, _BASELINE)]
    return {
        size: statistics.median(baselines[0].seconds[size]) / statistics.median(times) if baselines else None
        for size, times in model.seconds.items()
    }


def _lines(by_length: list[_Model], models: list[_Model]) -> tuple[list[Line], list[Line]]:
    """Returns a line of BLEU and a line of the speed-up for each mechanism, against words of a source."""
    bleu, speed = [], []
    for name in dict.fromkeys(model.name for model in by_length):
        of_name = [model for model in by_length if model.name == name]
        points = {model.words: (statistics.mean(model.bleu), min(model.bleu), max(model.bleu)) for model in of_name}
        bleu.append(Line(name, of_name[0].attention, points))
        speed_ups = {model.words: _speed_ups(model, models)[32] for model in of_name}
        speed.append(Line(name, of_name[0].attention, {x: (y, y, y) for x, y in speed_ups.items() if y}))
    return bleu, speed


def _losses(longest: list[_Model]) -> list[tuple[Mapping[str, Any], int, float, float]]:
    """Returns attention, K, BLEU lost and speed-up of each memory, as compared with Bahdanau attention."""
    baselines = [statistics.mean(model.bleu) for model in longest if model.name == _BASELINE]
    return [
        (model.attention, num_slots(model.seeds[0]), baselines[0] - statistics.mean(model.bleu), speed_up)
        for model in longest
        if baselines and "num_slots" in model.attention and (speed_up := _speed_ups(model, longest)[32])
    ]
