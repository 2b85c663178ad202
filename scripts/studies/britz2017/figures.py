"""Draws Figures 2 to 8 of the paper from finished runs."""

from collections.abc import Callable

from memattn.attention.memory import position_encodings
from memattn.config import Config, TrainingConfig
from memattn.data import corpus
from memattn.evaluation import plots as evaluation_plots
from memattn.evaluation import styles
from memattn.runs.trained import load
from memattn.search.searcher import Searcher
from memattn.search.translation import translations
from memattn.sweeps.runs import SweepRun
from studies import names, plots
from studies.output import Output, at_least_one
from studies.runs import (
    groups,
    has_encodings,
    is_memory,
    model_name,
    model_words,
    num_slots,
    scorings_name,
    task_length,
    text_name,
)


def figure_2(output: Output) -> None:
    """Draws the surface of the position encodings."""
    output.pictures("surface", lambda path: plots.surface(path, position_encodings(32, 100)))


def figure_3(output: Output, copy: list[SweepRun], scorings: list[SweepRun]) -> None:
    """Draws learning curves of the copy task: (a) models at the greatest length, (b) the four scorings."""
    longest = max(map(task_length, copy))
    models = {
        model: seeds for (length, model), seeds in groups(copy, task_length, model_name).items() if length == longest
    }
    output.learning_curves("a", models, f"Figure 3a: copy task, L = {longest}")
    combinations = groups(scorings, scorings_name)
    settings = f"L = {task_length(scorings[0])}, K = {num_slots(scorings[0])}"
    output.learning_curves("b", combinations, f"Figure 3b: copy task, scorings, encoder/decoder, {settings}")


def figure_4(output: Output, runs: list[SweepRun]) -> None:
    """Draws learning curves of translation: position encodings with sigmoid encoder and softmax decoder scoring."""
    drawn = [
        run for run in runs if not is_memory(run) or (scorings_name(run) == "sigmoid/softmax" and has_encodings(run))
    ]
    title = "Figure 4: sigmoid/softmax with position encodings"
    _translation_curves(output, at_least_one(drawn, "to be drawn"), model_name, title)


def figure_5(output: Output, runs: list[SweepRun]) -> None:
    """Draws learning curves of translation by scorings, without position encodings.

    K is the number of slots with which the most scorings succeeded; of several, the greatest.
    """
    drawn = [run for run in runs if is_memory(run) and not has_encodings(run)]
    at_least_one(drawn, "of memory attention without position encodings")
    by_slots = groups(drawn, num_slots)
    slots = max(by_slots, key=lambda slots: (len(set(map(scorings_name, by_slots[slots]))), slots))
    title = f"Figure 5: scorings, encoder/decoder, K = {slots}"
    _translation_curves(output, by_slots[slots], scorings_name, title)


def figure_6(output: Output, runs: list[SweepRun]) -> None:
    """Draws alignments of copy models for softmax and for sigmoid scorings: single slots, and all together."""
    most = max(map(num_slots, runs))
    draw_alignments(output, [run for run in runs if num_slots(run) == most], "Figure 6", length=None)


def figure_7(output: Output, runs: list[SweepRun]) -> None:
    """Draws alignments like Figure 6, with K = 4 on a source of 11 tokens."""
    drawn = at_least_one([run for run in runs if num_slots(run) == 4], "with K = 4")
    draw_alignments(output, drawn, "Figure 7", length=11)


def figure_8(output: Output, runs: list[SweepRun]) -> None:
    """Draws alignments of translation: sigmoid scorings and K = 32; at small scale, RNNsearch, too."""
    draw_alignments(output, runs, "Figure 8", length=20)


def in_figure_8(config: Config) -> bool:
    """Returns whether Figure 8 shows the run: English to German, the first seed, K = 32 and sigmoid scorings.

    RNNsearch is shown for comparison.
    """
    attention = styles.attention(config)
    is_papers = names.model(attention) == "K=32" and names.scorings(attention) == "sigmoid/sigmoid"
    is_rnnsearch = getattr(config.model, "decoder", None) == "rnnsearch"
    is_first = config.training.seed == TrainingConfig().seed
    return config.data.path.endswith("en-de") and is_first and (is_papers or is_rnnsearch)


def _translation_curves(output: Output, runs: list[SweepRun], label: Callable[[SweepRun], str], title: str) -> None:
    """Draws a picture of learning curves, means over seeds, for each pair of languages."""
    for text, same in groups(runs, text_name).items():
        output.learning_curves(text, groups(same, label), f"{title}, {text}")


def draw_alignments(output: Output, runs: list[SweepRun], title: str, *, length: int | None) -> None:
    """Draws each run's alignment of a validation source: the first of about `length` tokens, or the longest if None."""
    for run in runs:
        trained = load([run.folder])
        sentences = corpus.read_corpus(run.config.data.path, "valid", trained.vocabulary).source
        lengths = sentences.lengths() - 1  # without the end of sentence
        wanted = lengths.max() if length is None else lengths[abs(lengths - length).argmin()]
        index = int((lengths == wanted).argmax())
        hypotheses = Searcher(trained.model, run.config.decoding, trained.lexicon)(sentences[index][None])
        hypothesis = translations(hypotheses, trained.vocabulary)[0].best
        aligned = evaluation_plots.align(trained.models[0], trained.vocabulary, sentences, index, hypothesis)
        name, settings = model_name(run), model_words(run)
        if is_memory(run):
            name, settings = scorings_name(run), f"{scorings_name(run)}, K = {num_slots(run)}"
        settings += f", BLEU {run.result.scores['bleu']:.1f}"
        output.alignments(name.replace("/", "-"), aligned, f"{title}: {settings}")
