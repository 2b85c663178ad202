"""Trains hard attention by REINFORCE on copying, beside soft attention (Xu et al., 2015, section 4.1).

A step of hard attention reads one source state. In training, it draws the state by its probabilities, through which no
gradient passes. So the logarithm of the drawn state's probability gets a gradient of its own: times the reward, which
is the log-probability of the target, less a baseline.
"""

import time
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from memattn.attention import BahdanauAttention
from memattn.attention.ops import GENERATOR
from memattn.data.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS
from memattn.models.dropout import split_seed
from memattn.models.seq2seq import Seq2Seq
from memattn.models.tokens import shift_right
from memattn.search.beam_search import beam_search
from studies.output import Output

UNITS, SYMBOLS, BATCH, TESTED = 128, 20, 128, 500
LENGTH, STEPS, TESTS_EVERY = 20, 2_000, 500
LEARNING_RATE, CLIP_NORM, ENTROPY_WEIGHT = 0.003, 5.0, 0.01


class HardAttention(BahdanauAttention):
    """Reads the most probable state; with a seed, one that is drawn by the probabilities of Bahdanau attention."""

    def score(self, query, memory, state=(), seed=None):
        """Returns scores [B, Q, S], 1 at a single position, and the state."""
        weights, state = super().score(query, memory, state)
        logits = tf.math.log(weights)  # minus infinity at padding
        if seed is not None:
            uniform = tf.random.stateless_uniform(tf.shape(logits), seed, minval=1e-9, alg=GENERATOR)
            logits -= tf.math.log(-tf.math.log(uniform))  # the largest of these is a draw by the weights
        return tf.one_hot(tf.argmax(logits, -1), tf.shape(logits)[-1], dtype=query.dtype), state


class Kind(NamedTuple):
    """A way to train.

    Attributes:
      is_hard: whether a step reads a single state.
      counts_later_tokens: whether the reward of a draw is that of all tokens from its own on, not of its own alone.
    """

    is_hard: bool
    counts_later_tokens: bool = False


KINDS = {
    "soft attention": Kind(False),
    "hard attention, reward of the token": Kind(True),
    "hard attention, reward of all later tokens": Kind(True, counts_later_tokens=True),
}


def hard_attention(output: Output, *, seeds: tuple[int, ...] = (1, 2), steps: int = STEPS) -> None:
    """Writes how many of the test sequences each kind copies without an error, by training step."""
    rows = []
    for name, kind in KINDS.items():
        for seed in seeds:
            started, trained = time.monotonic(), Training(kind, seed, steps)
            exact = {step: trained.exact_match() for step in trained.run(TESTS_EVERY)}
            row = {
                "model": name,
                "seed": seed,
                **{f"exact match % at step {step}": f"{exact[step]:.1f}" for step in exact},
            }
            rows.append({**row, "seconds": round(time.monotonic() - started)})
    output.table(rows, f"Copying up to {LENGTH} of {SYMBOLS} symbols, one layer of {UNITS} units")


class Training:
    """Trains a model on random sequences, with a learning rate that falls to 0."""

    def __init__(self, kind: Kind, seed: int, steps: int):
        tf.keras.utils.set_random_seed(seed)
        self._kind, self._seed, self._steps = kind, seed, steps
        self.model = Seq2Seq(
            vocabulary_size=len(SPECIAL_TOKENS) + SYMBOLS,
            max_source_length=LENGTH + 1,
            layers=1,
            units=UNITS,
            embedding_size=UNITS,
            dropout=0.0,
            init_scale=0.1,
            input_feeding=True,
            mix=False,  # so that the output layer's input begins with the query
            bridge="zero",
            tie_embeddings="none",
            attention={"name": f"{__name__}:HardAttention" if kind.is_hard else "bahdanau"},
        )
        self._baseline = tf.keras.layers.Dense(1)
        self._baseline.build((None, None, UNITS))
        self._optimizer = tf.keras.optimizers.Adam(global_clipnorm=CLIP_NORM)
        self._weights = [*self.model.trainable_variables, *self._baseline.trainable_variables]
        self._update = tf.function(self._take_step)
        self._copy = tf.function(self._decode)

    def run(self, every: int):
        """Trains; yields the number of steps so far, each time that so many more are done."""
        random = np.random.default_rng(self._seed)
        for step in range(self._steps):
            self._optimizer.learning_rate.assign(LEARNING_RATE * (1 - step / self._steps))
            self._update(tf.constant(sequences(BATCH, random)), tf.constant([self._seed, step]))
            if (step + 1) % every == 0:
                yield step + 1

    def exact_match(self) -> float:
        """Returns the share of new sequences, in percent, that greedy decoding copies without an error."""
        tested = sequences(TESTED, np.random.default_rng(0))
        copies = self._copy(tf.constant(tested)).numpy()[:, : tested.shape[1]]
        return 100 * float((copies == np.where(tested == PAD, EOS, tested)).all(1).mean())

    def _take_step(self, ids: tf.Tensor, seed: tf.Tensor) -> None:
        mask = tf.cast(ids != PAD, tf.float32)
        encoder_seed, decoder_seed = split_seed(seed, 2)
        with tf.GradientTape() as tape:
            encoded = self.model.encode(ids, encoder_seed)
            inputs = self.model.target_embedding(shift_right(ids))
            features, scores = self.model.decoder(inputs, encoded.cells, encoded.memory, decoder_seed)
            logits = self.model.output_layer(features)
            rewards = -tf.nn.sparse_softmax_cross_entropy_with_logits(ids, logits)  # [B, T], log p(y_t)
            objective = -tf.reduce_sum(rewards * mask)
            if self._kind.is_hard:
                objective += tf.reduce_sum(
                    self._policy_loss(features[..., :UNITS], encoded.memory, scores, rewards, mask)
                )
            objective /= tf.reduce_sum(mask)
        gradients = tape.gradient(objective, self._weights, unconnected_gradients="zero")
        self._optimizer.apply_gradients(zip(gradients, self._weights, strict=True))

    def _policy_loss(self, queries: tf.Tensor, memory: Any, scores: tf.Tensor, rewards: tf.Tensor, mask: tf.Tensor):
        """Returns the losses [B, T] of the drawn positions and of the baseline."""
        probabilities, _ = BahdanauAttention.score(self.model.attention, queries, memory)  # [B, T, S]
        log_probabilities = tf.math.log(probabilities + 1e-9)
        log_drawn = tf.reduce_sum(scores * log_probabilities, -1)
        entropies = -tf.reduce_sum(probabilities * log_probabilities, -1)
        rewards = tf.stop_gradient(rewards * mask)
        if self._kind.counts_later_tokens:
            rewards = tf.cumsum(rewards, 1, reverse=True)
        baselines = self._baseline(tf.stop_gradient(queries))[..., 0]
        advantages = tf.stop_gradient(rewards - baselines)
        losses = -advantages * log_drawn - ENTROPY_WEIGHT * entropies + tf.math.squared_difference(baselines, rewards)
        return losses * mask

    def _decode(self, ids: tf.Tensor) -> tf.Tensor:
        shared, first = self.model.start(self.model.encode(ids), 1, self.model.token_table())

        def step(tokens, state):
            logits, _, state = self.model.step(tokens, state, shared)
            return logits, state

        most = LENGTH + 1
        limits = tf.fill([TESTED], most)
        found = beam_search(step, first, beam_size=1, max_lengths=limits, max_steps=most, start=BOS, end=EOS)
        return found.tokens[:, 0]


def sequences(number: int, random: np.random.Generator) -> np.ndarray:
    """Draws sequences of 0 to LENGTH symbols, each with its end, padded to one length."""
    lengths, places = random.integers(0, LENGTH + 1, [number, 1]), np.arange(LENGTH + 1)
    symbols = random.integers(len(SPECIAL_TOKENS), len(SPECIAL_TOKENS) + SYMBOLS, [number, LENGTH + 1])
    return np.where(places < lengths, symbols, np.where(places == lengths, EOS, PAD)).astype(np.int32)
