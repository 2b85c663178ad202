"""Trains hard attention (Xu et al., 2015) by REINFORCE, to copy sequences of symbols."""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

import memattn
from memattn.data.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS
from memattn.models.tokens import shift_right

FIRST_SYMBOL = len(SPECIAL_TOKENS)  # the id of the first symbol
SYMBOLS = 20
UNITS = 128
BATCH = 64  # sequences of a training step
TESTED = 500  # sequences that are copied to test a model
SOFT = "soft (Bahdanau)"
TOKEN = "hard, reward: the token"
SENTENCE = "hard, reward: the sentence"
KINDS = (SOFT, TOKEN, SENTENCE)
_LEARNING_RATE = 0.003
_CLIP_NORM = 5.0
_DECAY = 0.9  # of the running mean that is the baseline of sentences, as in Xu et al.


class HardAttention(memattn.BahdanauAttention):
    """Reads a single source position in each step, with the weights of Bahdanau attention as probabilities.

    In training, the position is drawn; otherwise, it is the likeliest one. The choice has no gradient, so that the loss
    must have a term for it: see `policy_loss`.
    """

    def probabilities(self, query: tf.Tensor, memory: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns the probability of each source position [B, Q, S]."""
        return super().score(query, memory)[0]

    def score(self, query, memory, state=(), seed=None):
        probabilities = self.probabilities(query, memory)
        values = tf.math.log(probabilities)
        if seed is not None:  # the largest of log p + Gumbel noise is a draw from p
            uniform = tf.random.stateless_uniform(tf.shape(values), seed, minval=1e-20, dtype=values.dtype)
            values -= tf.math.log(-tf.math.log(uniform))
        chosen = tf.argmax(values, -1, tf.int32)
        return tf.one_hot(chosen, tf.shape(probabilities)[-1], dtype=probabilities.dtype), state


def policy_loss(log_probabilities: tf.Tensor, losses: tf.Tensor, baseline: tf.Tensor) -> tf.Tensor:
    """Returns a term [B, T] whose gradient is, in expectation, that of the losses through the choice of positions.

    Args:
      log_probabilities: of the positions that were drawn [B, T].
      losses: cross-entropies [B, T] that a draw is responsible for; the reward is their negative.
      baseline: an estimate of the losses [B, T] that does not depend on the draw; it reduces the variance.
    """
    return tf.stop_gradient(losses - baseline) * log_probabilities


def sequences(number: int, max_length: int, random: np.random.Generator) -> np.ndarray:
    """Returns `number` sequences of 1 to `max_length` symbols, each with its end, padded [B, T]."""
    ids = random.integers(FIRST_SYMBOL, FIRST_SYMBOL + SYMBOLS, [number, max_length + 1])
    ends = random.integers(1, max_length + 1, [number, 1])
    places = np.arange(max_length + 1)
    return np.where(places < ends, ids, np.where(places == ends, EOS, PAD)).astype(np.int32)


def make_model(kind: str, max_length: int) -> memattn.Seq2Seq:
    """Makes a model with one layer and without a mixing layer, so that the output layer reads [h; c]."""
    attention = memattn.BahdanauAttention if kind == SOFT else HardAttention
    return memattn.Seq2Seq(
        vocabulary_size=FIRST_SYMBOL + SYMBOLS,
        max_source_length=max_length + 1,
        layers=1,
        units=UNITS,
        embedding_size=UNITS // 2,
        dropout=0.0,
        init_scale=0.1,
        input_feeding=True,
        mix=False,
        bridge="auto",
        tie_embeddings="none",
        attention={"name": f"{attention.__module__}:{attention.__name__}"},
    )


def train(kind: str, *, max_length: int, tests: list[int], seed: int) -> Iterator[float]:
    """Trains a model; after each number of steps in `tests`, yields the share of test sequences that it copies exactly.

    Args:
      kind: one of KINDS. If a draw is rewarded for its own token, the baseline is a linear function of the query,
        learned beside the model. If it is rewarded for all tokens of the sequence, the baseline is a running mean, as
        in Xu et al. (2015).
      max_length: length of the longest sequence.
      tests: ascending numbers of training steps.
      seed: of weights, sequences and draws.
    """
    tf.keras.utils.set_random_seed(seed)
    model = make_model(kind, max_length)
    estimator = tf.keras.layers.Dense(1, name="baseline")
    estimator.build([None, None, UNITS])
    running_mean = tf.Variable(0.0, trainable=False)
    weights = model.trainable_variables + (estimator.trainable_variables if kind == TOKEN else [])
    optimizer = tf.keras.optimizers.Adam(_LEARNING_RATE, global_clipnorm=_CLIP_NORM)
    optimizer.build(weights)

    @tf.function(autograph=False)
    def update(ids: tf.Tensor, seed: tf.Tensor) -> None:
        is_real = tf.cast(ids != PAD, tf.float32)
        with tf.GradientTape() as tape:
            encoded = model.encode(ids, seed)
            inputs = model.target_embedding(shift_right(ids))
            features, choices = model.decoder(inputs, encoded.cells, encoded.memory, seed)
            logits = model.output_layer(features)
            losses = is_real * tf.nn.sparse_softmax_cross_entropy_with_logits(ids, logits)
            total = tf.reduce_sum(losses)
            if kind != SOFT:
                queries = features[:, :, :UNITS]  # h of [h; c]
                probabilities = model.attention.probabilities(queries, encoded.memory)
                log_probabilities = tf.math.log(tf.reduce_sum(choices * probabilities, -1))
                if kind == TOKEN:
                    baseline = estimator(tf.stop_gradient(queries))[:, :, 0]
                    total += tf.reduce_sum(is_real * (tf.stop_gradient(losses) - baseline) ** 2)
                else:
                    losses = tf.reduce_sum(losses, 1, keepdims=True)
                    running_mean.assign(_DECAY * running_mean + (1 - _DECAY) * tf.reduce_mean(losses))
                    baseline = running_mean
                total += tf.reduce_sum(is_real * policy_loss(log_probabilities, losses, baseline))
            total /= tf.reduce_sum(is_real)
        optimizer.apply_gradients(zip(tape.gradient(total, weights), weights, strict=True))

    random = np.random.default_rng([seed, 0])
    test_set = sequences(TESTED, max_length, np.random.default_rng([seed, 1]))
    for step in range(1, tests[-1] + 1):
        update(tf.constant(sequences(BATCH, max_length, random)), tf.constant([seed, step]))
        if step in tests:
            yield share_copied(model, test_set)


def share_copied(model: memattn.Seq2Seq, ids: np.ndarray) -> float:
    """Returns the share of sequences that greedy decoding copies without an error."""
    shared, state = model.start(model.encode(tf.constant(ids)), 1, model.token_table())
    lengths = tf.fill([len(ids)], ids.shape[1])

    def step(tokens, state):
        logits, _, state = model.step(tokens, state, shared)
        return logits, state

    hypotheses = memattn.beam_search(
        step, state, beam_size=1, max_lengths=lengths, max_steps=ids.shape[1], start=BOS, end=EOS
    )
    tokens = hypotheses.tokens[:, 0].numpy()
    tokens = np.pad(tokens, [(0, 0), (0, ids.shape[1] - tokens.shape[1])], constant_values=EOS)
    return float(np.mean(np.all((tokens == ids) | (ids == PAD), axis=1)))
