"""Decodes a corpus, in sorted batches of few padded shapes, and times it; scores given pairs."""

import contextlib
import dataclasses
import math
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import tensorflow as tf

from memattn import resources, xla
from memattn.config import DecodingConfig
from memattn.data.batches import decoding_batches
from memattn.data.lexicon import Lexicon
from memattn.data.sentences import Sentences
from memattn.data.vocabulary import BOS, EOS, PAD, Vocabulary
from memattn.errors import ConfigError
from memattn.models.interface import Alternative, DecodingModel
from memattn.search.beam_search import Hypotheses, beam_search
from memattn.search.sampling import sample

_ARITHMETIC = "arithmetic_optimization"
BATCHES_AT_ONCE = 2  # so that one uses the cores that the other's small operations leave idle


class _WithoutArithmeticOptimizer:
    """A context in which TensorFlow's arithmetic optimizer is off; any number of threads may be in it.

    It fuses sums of three terms into one operation. When short of memory, TensorFlow computes that in a temporary
    variable, which concurrent batches confuse with each other's (tensorflow#33713).
    """

    def __init__(self):
        self._lock, self._inside, self._before = threading.Lock(), 0, None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = tf.config.optimizer.get_experimental_options().get(_ARITHMETIC)
            self._inside += 1
            self._set(False)

    def __exit__(self, *_) -> None:
        with self._lock:
            self._inside -= 1
            self._set(False if self._inside else self._before)

    def _set(self, value: bool | None) -> None:
        """Sets the option, None for its default. Each thread has to: TensorFlow keeps a copy of the options in each."""
        tf.config.optimizer.set_experimental_options({_ARITHMETIC: value})


_WITHOUT_ARITHMETIC = _WithoutArithmeticOptimizer()


@dataclasses.dataclass(frozen=True)
class Translation:
    """The n best hypotheses of one source, best first, with their scores."""

    hypotheses: list[list[str]]
    scores: list[float]

    @property
    def best(self) -> list[str]:
        return self.hypotheses[0] if self.hypotheses else []


class Searcher:
    """Beam search with one model or an ensemble, or samples, as `decoding` says; traced once per padded shape.

    XLA compiles the search but not the encoder, whose LSTMs are faster with TensorFlow's own kernels (cuDNN on GPUs),
    unless a CPU decodes a sentence alone: most of the kernels' time then goes into starting them. Without XLA,
    TensorFlow's arithmetic optimizer is off while a search runs. With a lexicon, hypotheses have only the tokens that
    it selects for their source, and probabilities are over these.

    Raises ConfigError for a coverage penalty without attention.
    """

    max_source_length = None  # a searcher of a run takes sources of any length

    def __init__(self, model: DecodingModel, config: DecodingConfig, lexicon: Lexicon | None = None):
        if config.coverage_penalty and not model.has_alignments:
            raise ConfigError("decoding.coverage_penalty: needs a model with attention")
        self.config, self._model, self._lexicon = config, model, lexicon
        self.jit_compile = jit = xla.jit_compile(config.jit_compile, model.compute_dtype)
        self._optimizer = contextlib.nullcontext() if jit else _WITHOUT_ARITHMETIC
        self._search = tf.function(self._search_batch, autograph=False, jit_compile=jit)
        self._encode = tf.function(model.encode, autograph=False)
        compiles = jit and not tf.config.list_logical_devices("GPU")
        self._encode_one = tf.function(model.encode, autograph=False, jit_compile=True) if compiles else self._encode
        self._fold = tf.function(model.token_table, autograph=False)
        self._align = tf.function(lambda source, target: model.alignments(source, target)[0], autograph=False)
        self.renew()

    def renew(self) -> None:
        """Repeats the work done once per model; call it when the weights have changed."""
        with self._optimizer:
            self.token_table = self._fold()

    @property
    def has_alignments(self) -> bool:
        return self._model.has_alignments

    def __call__(self, source: np.ndarray, numbers: np.ndarray | None = None) -> Hypotheses:
        """The n best hypotheses of source ids [B, S].

        With the seed, the `numbers` [B or less] of the sentences, by default from 0 on, decide what is sampled.
        """
        selection = tuple(map(tf.constant, self._lexicon(source))) if self._lexicon else None
        uniforms = None
        if self.config.sample:
            numbers = range(len(source)) if numbers is None else numbers
            uniforms = tf.constant(self._uniforms(numbers, *source.shape))
        self.check(*source.shape)
        with self._optimizer:
            found = self.search(tf.constant(source, tf.int32), self.token_table, selection, uniforms)
            return Hypotheses(*(tensor.numpy() for tensor in found))

    def check(self, rows: int, width: int) -> None:
        """Raises ConfigError if a batch of that shape does not fit into memory."""
        hypotheses = rows * (self.config.n_best if self.config.sample else self.config.beam_size)
        logits = 0 if self._lexicon else self._model.vocabulary_size
        needed = 4 * rows * width + hypotheses * (8 * self._limit(width) + 4 * logits)
        what = f"{rows:,} sources of up to {width:,} tokens, {hypotheses // max(rows, 1):,} hypotheses of each,"
        resources.check(needed, "decoding.batch_size", f"decoding {what}")

    def search(self, source: tf.Tensor, token_table: Any, selection: Any = None, uniforms: Any = None) -> Hypotheses:
        """The same for tensors, also in a graph, in which S is static."""
        encode = self._encode_one if source.shape[0] == 1 else self._encode
        alternatives = list(self._model.alternatives(encode(source), self.config.memory_ratio))
        results = [self._search(source, alternative, token_table, selection, uniforms) for alternative in alternatives]
        if len(results) == 1:
            return results[0]
        limits = [self._max_lengths(source, alternative.max_steps) for alternative in alternatives]
        return most_probable(results, limits)

    def _uniforms(self, numbers: Iterable[int], rows: int, width: int) -> np.ndarray:
        """Random numbers [steps, B, n] for sentences of these numbers, the same in any batch of any width."""
        drawn = np.zeros([self._limit(width), rows, self.config.n_best], np.float32)
        for row, number in enumerate(numbers):
            generator = np.random.Generator(np.random.Philox(key=[self.config.sample.seed, number]))
            drawn[:, row] = generator.random([drawn.shape[0], drawn.shape[2]], np.float32)
        return drawn

    def align(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Weights of source positions [B, T, S] at each step of target ids [B, T], for source ids [B, S]."""
        with self._optimizer:
            return self._align(tf.constant(source, tf.int32), tf.constant(target, tf.int32)).numpy()

    def shapes(self, source: np.ndarray) -> tuple:
        """Those that searching source ids [B, S] is traced for."""
        return source.shape, len(self._lexicon(source).ids) if self._lexicon else None

    def _search_batch(
        self, source: tf.Tensor, alternative: Alternative, token_table: Any, selection: Any, uniforms: Any
    ) -> Hypotheses:
        model, config = self._model, self.config
        ids, allowed = selection or (None, None)
        queries = config.n_best if config.sample else config.beam_size
        decoding, state = model.start(alternative.encoded, queries, token_table, ids)

        def logits_of(tokens, state):
            if selection is None:
                return model.step(tokens, state, decoding)
            logits, scores, state = model.step(tf.gather(ids, tokens), state, decoding)
            return tf.where(allowed[:, None], logits, -float("inf")), scores, state

        coverage = {}
        if config.coverage_penalty:

            def step(tokens, state):
                logits, scores, state = logits_of(tokens, state["decoder"])
                weights = tf.abs(tf.cast(model.attention_weights(decoding, scores), tf.float32))
                weights /= tf.maximum(tf.reduce_sum(weights, -1, keepdims=True), 1e-12)  # memory's may not sum to 1
                return logits, {"decoder": state, "weights": weights}

            covered = tf.cast(tf.equal(source, PAD), tf.float32)
            state = {"decoder": state, "weights": tf.repeat(tf.zeros_like(covered)[:, None], config.beam_size, 1)}
            coverage = {"attended": lambda state: state["weights"], "covered": covered}
        else:

            def step(tokens, state):
                logits, _, state = logits_of(tokens, state)
                return logits, state

        shared = {
            "max_lengths": self._max_lengths(source, alternative.max_steps),
            "length_penalty_weight": config.length_penalty,
            "no_repeat_ngram_size": config.no_repeat_ngram_size or 0,
            "start": BOS,
            "end": EOS,
        }
        if config.sample:
            how = {key: value for key, value in vars(config.sample).items() if key != "seed"}
            found = sample(step, state, uniforms=uniforms, **how, **shared)
        else:
            found = beam_search(
                step,
                state,
                beam_size=config.beam_size,
                n_best=config.n_best,
                max_steps=self._limit(source.shape[1]),
                coverage_penalty_weight=config.coverage_penalty,
                **coverage,
                **shared,
            )
        return found if selection is None else found._replace(tokens=tf.gather(ids, found.tokens))

    def _max_lengths(self, source: tf.Tensor, allowed: tf.Tensor | None) -> tf.Tensor:
        """Most decoder steps [B] for source ids [B, S], of which the model allows `allowed` [B]; None: any number."""
        lengths = tf.reduce_sum(tf.cast(tf.not_equal(source, PAD), tf.int32), 1)
        # Computed in Python, where products are exact.
        limits = tf.constant([self._limit(length) for length in range(source.shape[1] + 1)], tf.int32)
        most = tf.gather(limits, lengths)
        return most if allowed is None else tf.minimum(most, allowed)

    def _limit(self, length: int) -> int:
        """Most steps for a source of `length` tokens, both including the end of sentence; 0 for a padding row."""
        relative = math.ceil(Fraction(str(self.config.max_length_ratio)) * length)  # with floats, 1.1 * 50 > 55
        return relative if self.config.max_length is None else min(relative, self.config.max_length)


def decode(
    searcher: Searcher, sentences: Sentences, vocabulary: Vocabulary, num_buckets: int
) -> tuple[list[Translation], float]:
    """Translations in the order of the sentences, and the seconds that the search took.

    The seconds do not include work done once per model, batching, and turning ids into tokens. They include tracing
    unless `warm_up` ran before.
    """
    searcher.check(searcher.config.batch_size, int(sentences.lengths().max(initial=0)))
    batches = list(decoding_batches(sentences, batch_size=searcher.config.batch_size, num_buckets=num_buckets))
    start = time.perf_counter()
    with ThreadPoolExecutor(BATCHES_AT_ONCE) as pool:
        found = list(pool.map(searcher, [source for _, source in batches], [numbers for numbers, _ in batches]))
    seconds = time.perf_counter() - start
    translations = [None] * len(sentences)
    for (indices, _), hypotheses in zip(batches, found, strict=True):
        for row, index in enumerate(indices):
            translations[index] = translation(hypotheses, row, vocabulary)
    return translations, seconds


def warm_up(searcher: Searcher, sentences: Sentences, num_buckets: int) -> None:
    """Runs one batch of each shape, so that a timed run does no tracing or compiling."""
    searcher.check(searcher.config.batch_size, int(sentences.lengths().max(initial=0)))
    seen = set()
    batches = decoding_batches(sentences, batch_size=searcher.config.batch_size, num_buckets=num_buckets)
    for _, source in batches:
        shapes = searcher.shapes(source)
        if shapes not in seen:
            seen.add(shapes)
            searcher(source)


class Scorer:
    """Log-probabilities of given targets, traced once per padded shape."""

    def __init__(self, model: DecodingModel):
        self._model = model
        self._score = tf.function(self._score_batch, autograph=False)

    def __call__(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """[B]: sums over the tokens of targets [B, T], including the end of sentence, given sources [B, S]."""
        return self._score(tf.constant(source, tf.int32), tf.constant(target, tf.int32)).numpy()

    def _score_batch(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        log_probs = tf.nn.log_softmax(tf.cast(self._model(source, target), tf.float32))
        tokens = tf.gather(log_probs, target, batch_dims=2)
        return tf.reduce_sum(tf.where(tf.equal(target, PAD), 0.0, tokens), 1)


def most_probable(results: list[Hypotheses], max_lengths: list[tf.Tensor]) -> Hypotheses:
    """Returns, for each source, the hypotheses of the alternative whose best hypothesis has the highest score.

    A best hypothesis that was cut at its maximum length counts only where all are cut.
    """
    scores = tf.stack([hypotheses.scores[:, 0] for hypotheses in results])
    ended = tf.stack([result.lengths[:, 0] < most for result, most in zip(results, max_lengths, strict=True)])
    counted = ended | ~tf.reduce_any(ended, 0)
    best = tf.argmax(tf.where(counted, scores, -float("inf")), 0)
    return Hypotheses(*(tf.gather(tf.stack(values, 1), best, batch_dims=1) for values in zip(*results, strict=True)))


def translation(hypotheses: Hypotheses, row: int, vocabulary: Vocabulary) -> Translation:
    taken = [k for k in range(hypotheses.scores.shape[1]) if np.isfinite(hypotheses.scores[row, k])]
    tokens = [vocabulary.decode(hypotheses.tokens[row, k, : hypotheses.lengths[row, k]]) for k in taken]
    return Translation(tokens, [float(hypotheses.scores[row, k]) for k in taken])
