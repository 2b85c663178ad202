"""Answers questions that the paper leaves open, from finished runs and untrained models."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import cast

import numpy as np
import tensorflow as tf

from memattn import config as configs
from memattn.config import Seq2SeqConfig
from memattn.data.vocabulary import split_words
from memattn.models.seq2seq import Seq2Seq
from memattn.runs.run import Run
from memattn.runs.trained import build_model
from memattn.sweeps.runs import SweepRun
from studies.britz2017 import printed
from studies.britz2017.tables import PRINTED_LENGTHS, place_in_table_1
from studies.mechanisms import MEMORY_VARIANT
from studies.output import Output
from studies.runs import (
    ON_PAR,
    model_name,
    task_length,
)

_FIFTHS = 5  # parts of a target in `errors_by_position`

# Scorings (encoder/decoder) and further options of the models whose first contexts are measured.
_FIRST_CONTEXTS_MODELS: tuple[tuple[str, dict], ...] = (
    ("softmax/softmax", {}),
    ("softmax/softmax", {"vote_scale": 16}),
    ("softmax/softmax", {"encoder_normalize": "time"}),
    ("softmax_time/softmax", {}),
    ("sigmoid/softmax", {}),
    ("softmax/sigmoid", {}),
    ("sigmoid/sigmoid", {}),
)


def first_contexts(output: Output) -> None:
    """Compares scorings before the first training step: norms of contexts, and of gradients of W_alpha and W_beta.

    The sentences are random.
    """
    path, vocabulary_size, length = "configs/studies/translation/small.yaml", 4_000, 20
    source, target = tf.unstack(tf.random.stateless_uniform([2, 64, length], [1, 1], 4, vocabulary_size, tf.int32))
    rows = []
    for scorings, options in _FIRST_CONTEXTS_MODELS:
        encoder, decoder = scorings.split("/")
        attention = {"name": MEMORY_VARIANT, "num_slots": 32, "encoder_scoring": encoder, "decoder_scoring": decoder}
        config = configs.load(path, [f"model.attention={attention | options}"])
        tf.keras.utils.set_random_seed(config.training.seed)
        model = cast(Seq2Seq, build_model(config, vocabulary_size, {"max_source_length": length}))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(target, model(source, target)))
        mechanism = model.decoder.attention
        kernels = [mechanism.encoder_scores.kernel, mechanism.decoder_scores.kernel]
        alpha, beta = (float(tf.norm(gradient)) for gradient in tape.gradient(loss, kernels))
        memory = model.encode(source).memory
        states = memory["values"]  # the encoder's states, as the sources are shorter than K
        scores, _ = mechanism.score(tf.zeros([len(states), 1, config.model.units]), memory)
        scale = float(tf.norm(scores @ states) / tf.norm(tf.reduce_mean(states, 1)))
        rows.append(
            {
                "scorings": scorings,
                "option": ", ".join(f"{name}: {value}" for name, value in options.items()),
                "context / mean state": f"{scale:.2f}",
                "gradient of W_alpha": f"{alpha:.1e}",
                "gradient of W_beta": f"{beta:.1e}",
            }
        )
    sizes = cast(Seq2SeqConfig, config.model)
    model_size = f"{sizes.layers} x {sizes.units} units, weights from +-{sizes.init_scale}, K = 32"
    sentences = f"64 random sentences of {length} tokens, {vocabulary_size:,} types"
    output.table(rows, f"Norms before the first training step: {model_size}, {sentences}")


def slots_by_length(output: Output, runs: list[SweepRun]) -> None:
    """Writes the fewest slots within ON_PAR BLEU of Bahdanau attention on the copy task, by length."""
    rows = []
    for length, paper_length in PRINTED_LENGTHS[output.scale].items():
        bleu = {model_name(run): run.result.scores["bleu"] for run in runs if task_length(run) == length}
        paper_bleu = dict(zip(printed.TABLE_1_MODELS, printed.TABLE_1_BLEU[paper_length], strict=True))
        rows.append(
            {
                "L": length,
                "Bahdanau BLEU": f"{bleu['bahdanau']:.2f}" if "bahdanau" in bleu else "",
                "fewest slots": _fewest_slots(bleu),
                "paper L": paper_length,
                "paper: fewest slots": _fewest_slots(paper_bleu),
            }
        )
    output.table(rows, f"The smallest K within {ON_PAR} BLEU of Bahdanau attention on the copy task")


def errors_by_position(output: Output, runs: list[SweepRun]) -> None:
    """Writes the percentage of wrong tokens in the copy task by their position, in fifths of the greatest length."""
    rows = []
    for run in runs:
        longest = task_length(run)
        wrong: list[list[bool]] = [[] for _ in range(_FIFTHS)]
        for hypothesis, reference in zip(*Run(run.folder).translations(run.result.split), strict=True):
            expected = split_words(reference)
            predicted = split_words(hypothesis)[: len(expected)]
            for position, (token, prediction) in enumerate(zip_longest(expected, predicted)):
                wrong[position * _FIFTHS // longest].append(token != prediction)
        row = {"L": longest, "model": model_name(run)}
        for number, errors in enumerate(wrong, start=1):
            row[f"fifth {number}"] = f"{100 * np.mean(errors):.2f}" if errors else ""
        rows.append(row)
    rows.sort(key=place_in_table_1)
    output.table(rows, "Wrong tokens of the copy task, %, by position in fifths of L")


def _fewest_slots(bleu: Mapping[str, float]) -> str:
    """Returns the smallest K whose BLEU is within 0.5 of attention's; empty if models are missing."""
    if not bleu.keys() >= set(printed.TABLE_1_MODELS):
        return ""
    for model in printed.TABLE_1_MODELS:
        if model.startswith("K=") and bleu[model] >= bleu["bahdanau"] - ON_PAR:
            return model.removeprefix("K=")
    return "none of them"
