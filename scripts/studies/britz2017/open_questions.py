"""What the paper leaves open or asks for, from finished runs and measurements."""

import os
import statistics
from collections.abc import Mapping
from itertools import zip_longest

import numpy as np
import tensorflow as tf

from memattn import config as configs
from memattn.data import corpus
from memattn.evaluation import evaluate as evaluation
from memattn.evaluation import formatting, metrics
from memattn.runs import run_folder
from memattn.sweeps.runner import Run
from studies.britz2017 import printed as paper_tables
from studies.britz2017.figures import (
    PRINTED_LENGTHS,
    Output,
    as_in_table_1,
    benchmark,
    best_scorings,
    has_encodings,
    is_memory,
    model_name,
    scorings_name,
)

LEARNT = 95  # validation BLEU, of a copy task
ON_PAR = 0.5  # BLEU behind attention, at most

_FIFTHS = 5

_FIRST_CONTEXTS_CONFIG = {"paper": "configs/wmt17/en-de.yaml", "small": "configs/studies/translation/small.yaml"}
_STARTS = (
    *(("softmax/softmax", 1), ("softmax/softmax", 16), ("sigmoid/softmax", 1), ("softmax/sigmoid", 1)),
    *(("sigmoid/sigmoid", 1), ("softmax_time/softmax", 1)),
)


def training_cost(output: Output) -> None:
    """Time and memory of an update against length and K."""
    lengths = "20,50,100" if output.scale == "small" else "20,50,100,200"
    models = ["no attention", *(f"memory, K = {slots}" for slots in (4, 16, 64)), "Bahdanau"]
    benchmark("train", output, models, ["--lengths", lengths, "--repeats", "3"])


def first_contexts(output: Output) -> None:
    """Before the first update, for random sentences: contexts, and gradients of W_alpha and W_beta, by scorings."""
    path, vocabulary_size, length = _FIRST_CONTEXTS_CONFIG[output.scale], 4_000, 20
    source, target = tf.unstack(tf.random.stateless_uniform([2, 64, length], [1, 1], 4, vocabulary_size, tf.int32))
    rows = []
    for scorings, vote_scale in _STARTS:
        encoder, decoder = scorings.split("/")
        attention = {"encoder_scoring": encoder, "decoder_scoring": decoder, "vote_scale": vote_scale}
        config = configs.load(path, [f"model.attention={ {'name': 'memory', 'num_slots': 32, **attention} }"])
        tf.keras.utils.set_random_seed(config.training.seed)
        model = run_folder.build_model(config, vocabulary_size, length)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(target, model(source, target)))
        mechanism = model.decoder.attention
        kernels = [layer.kernel for layer in (mechanism.encoder_scores, mechanism.decoder_scores)]
        alpha, beta = (f"{float(tf.norm(gradient)):.1e}" for gradient in tape.gradient(loss, kernels))
        memory = model.encode(source).memory
        states = memory["values"]  # of sources shorter than K
        scores, _ = mechanism.score(tf.zeros([len(states), 1, config.model.units]), memory)
        scale = float(tf.norm(scores @ states) / tf.norm(tf.reduce_mean(states, 1)))
        rows.append(
            {
                "scorings": scorings,
                "vote_scale": vote_scale,
                "context / mean state": f"{scale:.2f}",
                "gradient of W_alpha": alpha,
                "gradient of W_beta": beta,
            }
        )
    sizes = config.model
    model = f"{sizes.layers} x {sizes.units} units, weights from +-{sizes.init_scale}, K = 32"
    sentences = f"64 random sentences of {length} tokens, {vocabulary_size:,} types"
    output.table(rows, f"Norms before the first update: {model}, {sentences}")


def ablations(output: Output, runs: list[Run]) -> None:
    """Copy task: what the paper leaves open, one choice changed at a time."""
    rows = []
    for run in runs:
        model = run.config.model
        attention = model.attention
        rows.append(
            {
                "model": model_name(run),
                "scorings": scorings_name(run) if is_memory(run) else "",
                "renormalize": attention["renormalize"] if has_encodings(run) else "",
                "input feeding": _yes(model.input_feeding),
                "mixing layer": _yes(model.mix),
                "cached keys": _yes(attention["cache_keys"]) if "cache_keys" in attention else "",
                "BLEU": f"{run.result['bleu']:.2f}",
                "exact match %": f"{run.result['exact_match']:.1f}",
                "steps to 95 BLEU": run.updates_to(LEARNT) or "never",
                "decode s": f"{run.result['decode_seconds']:.3g}",
                "decode s min-max": formatting.spread(run.result),
            }
        )
    output.table(rows, f"What the paper leaves open: the copy task, L = {runs[0].config.data.copy.max_length}")


def training_choices(output: Output, runs: list[Run]) -> None:
    """Copy task: what the paper leaves open about training, one choice changed at a time."""
    output.runs(runs, "What the paper leaves open about training: the copy task")


def renormalize(output: Output, runs: list[Run]) -> None:
    """Translation: position encodings renormalized to a mean of 1, and not at all."""
    output.runs(runs, "Multi30k English to German: position encodings renormalized")


def memory_rows(output: Output, runs: list[Run]) -> None:
    """Translation: memory attention with larger slots, with slots that are means, and with additive reading."""
    output.runs(runs, "Multi30k English to German: what the slots of the memory hold")


def longer(output: Output, runs: list[Run]) -> None:
    """Copy task: K = 32 and 64 trained three times as long."""
    output.runs(runs, f"Copy task, L = {runs[0].config.data.copy.max_length}, trained three times as long")


def slots_by_length(output: Output, runs: list[Run]) -> None:
    """Copy task: the fewest slots within half a BLEU of attention, by length."""
    printed = PRINTED_LENGTHS[output.scale]
    rows = []
    for length, paper_length in printed.items():
        ours = {model_name(run): run.result["bleu"] for run in runs if run.config.data.copy.max_length == length}
        theirs = dict(zip(paper_tables.TABLE_1_MODELS, paper_tables.TABLE_1_BLEU[paper_length], strict=True))
        rows.append(
            {
                "L": length,
                "Bahdanau BLEU": f"{ours['bahdanau']:.2f}" if "bahdanau" in ours else "",
                "fewest slots": _fewest_slots(ours),
                "paper L": paper_length,
                "paper: fewest slots": _fewest_slots(theirs),
            }
        )
    output.table(rows, "The smallest K within 0.5 BLEU of Bahdanau attention on the copy task")


def bleu_by_length(output: Output, copy: list[Run], translation: list[Run]) -> None:
    """BLEU by source length, for the longest copy task and for translation as in Table 2."""
    longest = max(run.config.data.copy.max_length for run in copy)
    groups = {
        (f"copy, L = {longest}", model_name(run)): [run] for run in copy if run.config.data.copy.max_length == longest
    } | best_scorings(translation)
    rows = []
    for text in dict.fromkeys(text for text, _ in groups):
        by_model = {model: by_length(own) for (of, model), own in groups.items() if of == text}
        for lengths, sentences in next(iter(by_model.values())):
            bleu = {model: f"{own[lengths, sentences]:.2f}" for model, own in by_model.items()}
            rows.append({"text": text, "source tokens": lengths, "sentences": sentences, **bleu})
    columns = dict.fromkeys(key for row in rows for key in row)
    output.table([{key: row.get(key, "") for key in columns} for row in rows], "BLEU by the length of the source")


def errors_by_position(output: Output, runs: list[Run]) -> None:
    """Copy task: wrong tokens by their position, in fifths of the greatest length."""
    rows = []
    for run in runs:
        longest = run.config.data.copy.max_length
        wrong = [[] for _ in range(_FIFTHS)]
        for hypothesis, reference in zip(*(map(str.split, side) for side in _outputs(run)), strict=True):
            for position, (token, written) in enumerate(zip_longest(reference, hypothesis[: len(reference)])):
                wrong[position * _FIFTHS // longest].append(token != written)
        shares = {
            f"fifth {fifth}": f"{100 * np.mean(own):.2f}" if own else "" for fifth, own in enumerate(wrong, start=1)
        }
        rows.append({"L": longest, "model": model_name(run), **shares})
    rows.sort(key=as_in_table_1)
    output.table(rows, "Wrong tokens of the copy task, %, by position in fifths of L")


def by_length(runs: list[Run]) -> dict[tuple[str, int], float]:
    """Source lengths and number of sentences -> mean BLEU of runs, for each quarter of their test set."""
    data = runs[0].config.data
    vocabulary = corpus.read_vocabulary(os.path.join(data.path, corpus.VOCABULARY))
    sources = corpus.read_corpus(data.path, runs[0].result["split"], vocabulary).source
    lengths = sources.lengths() - 1  # without the end of sentence
    ends = np.unique(np.quantile(lengths, (0.25, 0.5, 0.75, 1), method="lower"))
    texts = list(map(_outputs, runs))
    quarters = {}
    for start, end in zip([lengths.min(), *(ends[:-1] + 1)], ends, strict=True):
        wanted = np.flatnonzero((start <= lengths) & (lengths <= end))
        bleu = [metrics.score(*([side[i] for i in wanted] for side in sides)).bleu for sides in texts]
        quarters[f"{start}-{end}", len(wanted)] = statistics.mean(bleu)
    return quarters


def _outputs(run: Run) -> list[list[str]]:
    """What the run wrote in its evaluation, and the references."""
    names = (evaluation.HYPOTHESES, evaluation.REFERENCES)
    return [corpus.read_lines(os.path.join(run.folder, name)) for name in names]


def _fewest_slots(bleu: Mapping[str, float]) -> str:
    """The smallest K whose BLEU is within 0.5 of attention's; empty if models are missing."""
    if not bleu.keys() >= set(paper_tables.TABLE_1_MODELS):
        return ""
    slots = [model for model in paper_tables.TABLE_1_MODELS if model.startswith("K=")]
    return next((model[2:] for model in slots if bleu[model] >= bleu["bahdanau"] - ON_PAR), "none of them")


def _yes(value: bool) -> str:
    return "yes" if value else "no"
