"""Trains models with soft attention, and with hard attention by REINFORCE (Xu et al., 2015), to copy symbols.

python scripts/hard_attention.py

A row of the table is a trained model, with the percentage of test sequences that it copies without an error after each
number of training steps in TESTS.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import itertools
import os
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf
from absl import flags
from studies import standalone

import memattn
from memattn import files
from memattn.attention.ops import GENERATOR
from memattn.data.vocabulary import EOS, PAD, SPECIAL_TOKENS
from memattn.models.embeddings import shift_right
from memattn.runs.result import conditions
from memattn.search.config import DecodingConfig
from memattn.search.searcher import Searcher

FIRST_SYMBOL = len(SPECIAL_TOKENS)  # the id of the first symbol
SYMBOLS = 20
MAX_LENGTH = 10  # length of the longest sequence
UNITS = 128
BATCH = 64  # sequences of a training step
SEEDS = (1, 2, 3)  # of weights, sequences and draws
TESTS = (250, 500, 1_000)  # training steps after which a model is tested; the last ends training
TEST_SEQUENCES = 500
_LEARNING_RATE = 0.003
_CLIP_NORM = 5.0

SOFT = "soft (Bahdanau)"
# Kind of hard attention -> function from the losses of tokens [B, T] to those for which each step's draw is rewarded.
REWARDED: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "hard, rewarded for the token": lambda losses: losses,
    "hard, rewarded for the token and all later ones": lambda losses: tf.cumsum(losses, 1, reverse=True),
    "hard, rewarded for the whole sequence": lambda losses: tf.zeros_like(losses) + tf.reduce_sum(losses, 1, True),
}
KINDS = (SOFT, *REWARDED)


class HardAttention(memattn.BahdanauAttention):
    """Reads a single source position in each step, with the weights of Bahdanau attention as probabilities.

    In training, the position is drawn; otherwise, it is the most probable one. No gradient passes through the choice,
    so the loss needs a term for it: `policy_loss`.
    """

    def probabilities(self, query: tf.Tensor, memory: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns the probability of each source position [B, Q, S]."""
        return super().score(query, memory)[0]

    def score(self, query, memory, state=(), seed=None):
        probabilities = self.probabilities(query, memory)
        scores = tf.math.log(probabilities)
        if seed is not None:  # the argmax of log p + Gumbel noise is a draw from p
            shape = tf.shape(scores)
            uniform = tf.random.stateless_uniform(shape, seed, minval=1e-20, dtype=scores.dtype, alg=GENERATOR)
            scores -= tf.math.log(-tf.math.log(uniform))
        chosen = tf.argmax(scores, -1, tf.int32)
        return tf.one_hot(chosen, tf.shape(probabilities)[-1], dtype=probabilities.dtype), state


def policy_loss(log_probabilities: tf.Tensor, losses: tf.Tensor, baseline: tf.Tensor) -> tf.Tensor:
    """Returns (loss - baseline) log p [B, T], with no gradient through the first factor (REINFORCE).

    If `losses` hold all losses that a draw affects, the expected gradient is that of the expected losses with respect
    to the probabilities. Losses that are left out bias it.

    Args:
      log_probabilities: of the positions that were drawn [B, T].
      losses: [B, T], cross-entropies for which the draw of a step is rewarded; the reward is their negative.
      baseline: an estimate of `losses` [B, T], which reduces the variance; it must not depend on the draw of the step.
    """
    return tf.stop_gradient(losses - baseline) * log_probabilities


def sequences(number: int, random: np.random.Generator) -> np.ndarray:
    """Returns `number` sequences of 1 to MAX_LENGTH symbols, each with an end of sentence, padded [B, T]."""
    ids = random.integers(FIRST_SYMBOL, FIRST_SYMBOL + SYMBOLS, [number, MAX_LENGTH + 1])
    ends = random.integers(1, MAX_LENGTH + 1, [number, 1])
    positions = np.arange(MAX_LENGTH + 1)
    return np.where(positions < ends, ids, np.where(positions == ends, EOS, PAD)).astype(np.int32)


def make_model(kind: str) -> memattn.Seq2Seq:
    """Makes a model with one layer and without a mixing layer, so that the output layer reads [h; c]."""
    config = memattn.Seq2SeqConfig(
        layers=1,
        units=UNITS,
        embedding_size=UNITS // 2,
        dropout=0.0,
        init_scale=0.1,
        mix=False,
        attention={"name": "bahdanau" if kind == SOFT else f"{__name__}:{HardAttention.__name__}"},
    )
    return memattn.Seq2Seq(config, vocabulary_size=FIRST_SYMBOL + SYMBOLS, max_source_length=MAX_LENGTH + 1)


def make_update(kind: str, model: memattn.Seq2Seq) -> Callable[[tf.Tensor, tf.Tensor], None]:
    """Returns a function that makes a training step from ids [B, T] and a seed [2].

    The baseline of hard attention is a linear function of the query, learned beside the model. Xu et al. have a running
    mean, the entropy of the probabilities as a further term, and steps that read the expected position.
    """
    estimator = tf.keras.layers.Dense(1, name="baseline")
    estimator.build([None, None, UNITS])
    optimizers = [(tf.keras.optimizers.Adam(_LEARNING_RATE, global_clipnorm=_CLIP_NORM), model.trainable_variables)]
    if kind in REWARDED:
        optimizers.append((tf.keras.optimizers.Adam(_LEARNING_RATE), estimator.trainable_variables))
    for optimizer, weights in optimizers:
        optimizer.build(weights)

    @tf.function(autograph=False)
    def update(ids: tf.Tensor, seed: tf.Tensor) -> None:
        mask = tf.cast(ids != PAD, tf.float32)
        with tf.GradientTape() as tape:
            encoded = model.encode(ids, seed)
            inputs = model.target_embedding(shift_right(ids))
            features, choices = model.decoder(inputs, encoded.cells, encoded.memory, seed)
            losses = mask * tf.nn.sparse_softmax_cross_entropy_with_logits(ids, model.output_layer(features))
            total = tf.reduce_sum(losses)
            if kind in REWARDED:
                queries = features[:, :, :UNITS]  # h of [h; c]
                probabilities = model.attention.probabilities(queries, encoded.memory)
                log_probabilities = tf.math.log(tf.reduce_sum(choices * probabilities, -1))
                rewarded = tf.stop_gradient(REWARDED[kind](losses))
                baseline = estimator(tf.stop_gradient(queries))[:, :, 0]
                total += tf.reduce_sum(mask * policy_loss(log_probabilities, rewarded, baseline))
                total += tf.reduce_sum(mask * (rewarded - baseline) ** 2)
            total /= tf.reduce_sum(mask)
        gradients = tape.gradient(total, [weights for _, weights in optimizers])
        for (optimizer, weights), parts in zip(optimizers, gradients, strict=True):
            optimizer.apply_gradients(zip(parts, weights, strict=True))

    return update


def train(kind: str, seed: int) -> Iterator[float]:
    """Trains a model of one of KINDS; yields the fraction of test sequences copied exactly after each of TESTS."""
    tf.keras.utils.set_random_seed(seed)
    model = make_model(kind)
    update = make_update(kind, model)
    random = np.random.default_rng([seed, 0])
    test_set = sequences(TEST_SEQUENCES, np.random.default_rng([seed, 1]))
    for step in range(1, TESTS[-1] + 1):
        update(tf.constant(sequences(BATCH, random)), tf.constant([seed, step]))
        if step in TESTS:
            yield fraction_copied(model, test_set)


def fraction_copied(model: memattn.Seq2Seq, ids: np.ndarray) -> float:
    """Returns the fraction of sequences that greedy decoding copies without an error."""
    searcher = Searcher(model, DecodingConfig(beam_size=1, max_length=ids.shape[1], jit_compile=False))
    tokens = searcher(ids).tokens[:, 0]
    tokens = np.pad(tokens, [(0, 0), (0, ids.shape[1] - tokens.shape[1])], constant_values=EOS)
    return float(np.mean(np.all((tokens == ids) | (ids == PAD), axis=1)))


def main() -> None:
    output = flags.FLAGS.output
    files.make_folder(os.path.dirname(output))
    rows = []
    for kind, seed in itertools.product(KINDS, SEEDS):
        row = {"attention": kind, "L": MAX_LENGTH, "seed": seed}
        for steps, fraction in zip(TESTS, train(kind, seed), strict=True):
            row[f"after {steps:,} steps"] = f"{100 * fraction:.1f}%"
            print(f"{kind}, seed {seed}: {100 * fraction:.1f}% copied after {steps:,} steps", flush=True)
        rows.append(row)
        standalone.write_table(output, rows, {"rows": rows, **conditions()})


if __name__ == "__main__":
    flags.DEFINE_string("output", "runs/results/hard_attention/table", "Files of the table, without their ending.")
    cli.run(main)
