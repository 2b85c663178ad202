"""Searches batches with a model, and decodes a corpus in such batches."""

import contextlib
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from memattn import xla
from memattn.data.batches import decoding_batches
from memattn.data.lexicon import Lexicon, Selection
from memattn.data.sentences import Sources
from memattn.data.vocabulary import BOS, EOS, Vocabulary
from memattn.errors import ConfigError
from memattn.models.interface import Ensemble, MemoryLength, Model
from memattn.search.beam_search import beam_search
from memattn.search.config import DecodingConfig
from memattn.search.sampling import sample
from memattn.search.translation import Hypotheses, Translation, translations

BATCHES_AT_ONCE = 2  # each uses the cores that small operations of the other leave idle


class Searcher:
    """Finds the n best hypotheses of each source in a batch; traced once per padded shape.

    The search is beam search, or sampling, with one model or an ensemble, as `config` says. With a lexicon, hypotheses
    consist of the tokens that it selects for the sources of a batch, and each source's probabilities are over its own
    selection.

    XLA compiles the search but not the encoder, whose LSTMs are faster with TensorFlow's kernels (cuDNN on GPUs). The
    exception is a CPU that decodes a single sentence: starting the kernels would take most of the time. Without XLA,
    TensorFlow's arithmetic optimizer is off while a search runs.

    Attributes:
      jit_compile: whether XLA compiles the search.
      has_alignments: whether the model weighs source positions, so that `align` can be called.
      token_table: see `Model.token_table`.

    Raises ConfigError for a coverage penalty without attention.
    """

    def __init__(self, model: Model | Ensemble, config: DecodingConfig, lexicon: Lexicon | None = None):
        if config.coverage_penalty and not model.has_alignments:
            raise ConfigError("decoding.coverage_penalty: needs a model with attention")
        self.config, self._model, self._lexicon = config, model, lexicon
        self.has_alignments = model.has_alignments
        self.jit_compile = jit = xla.jit_compile(config.jit_compile, model.compute_dtype)
        self._graph_options = contextlib.nullcontext if jit else xla.without_arithmetic_optimizer
        self._search = tf.function(self._search_memory_length, autograph=False, jit_compile=jit)
        self._encode = tf.function(model.encode, autograph=False)
        compiles = jit and not xla.uses_cudnn()
        self._encode_one = tf.function(model.encode, autograph=False, jit_compile=True) if compiles else self._encode
        self._make_token_table = tf.function(model.token_table, autograph=False)
        if self.has_alignments:
            self._align = tf.function(model.alignments, autograph=False)
        self.renew()

    def renew(self) -> None:
        """Repeats the work that depends on the weights alone; must be called when they have changed."""
        with self._graph_options():
            self.token_table = self._make_token_table()

    def __call__(self, source: np.ndarray, numbers: Sequence[int] | np.ndarray | None = None) -> Hypotheses:
        """Returns the n best hypotheses of a padded batch of sources, as NumPy arrays.

        Samples depend on the seed and on the `numbers` of the sentences, by default 0, 1 and so on. If the last rows
        are padding, they need no numbers.
        """
        selection = Selection(*map(tf.constant, self._lexicon(source))) if self._lexicon else None
        uniforms = None
        if self.config.sample:
            numbers = range(len(source)) if numbers is None else numbers
            uniforms = tf.constant(self._uniforms(self.config.sample.seed, numbers, *source.shape[:2]))
        with self._graph_options():
            hypotheses = self.search(tf.constant(source), self.token_table, selection, uniforms)
            return Hypotheses(*(tensor.numpy() for tensor in hypotheses))

    def search(
        self, source: tf.Tensor, token_table: Any, selection: Selection | None = None, uniforms: tf.Tensor | None = None
    ) -> Hypotheses:
        """Returns the n best hypotheses of a batch of sources, whose padded length S is static; for use in graphs, too.

        `token_table` is the attribute of this name, or what stands for it in an export. With a `selection`, which the
        lexicon returned for the sources, only its tokens are chosen. `uniforms` [steps, B, n] are for sampling.
        """
        encode = self._encode_one if source.shape[0] == 1 else self._encode
        lengths = list(self._model.memory_lengths(encode(source), self.config.memory_ratio))
        results = [self._search(source, length, token_table, selection, uniforms) for length in lengths]
        if len(results) == 1:
            return results[0]
        mask = self._model.state_mask(source)
        max_lengths = [self._max_lengths(mask, length.max_steps) for length in lengths]
        return best_memory_length(results, max_lengths)

    def align(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Returns weights of source positions [B, T, S] at each step of target ids [B, T], for a batch of sources."""
        with self._graph_options():
            return self._align(tf.constant(source), tf.constant(target, tf.int32)).numpy()

    def traced_by(self, source: np.ndarray) -> tuple:
        """Returns what decides whether a padded batch of sources is traced anew: its shape, and the tokens selected."""
        return source.shape, len(self._lexicon(source).ids) if self._lexicon else None

    def _search_memory_length(
        self, source: tf.Tensor, length: MemoryLength, token_table: Any, selection: Selection | None, uniforms: Any
    ) -> Hypotheses:
        """Searches with one memory length; the other arguments are those of `search`."""
        model, config = self._model, self.config
        mask = model.state_mask(source)
        num_queries = config.n_best if config.sample else config.beam_size
        decoding, state = model.start(length.encoded, num_queries, token_table, selection)

        def model_step(tokens, state):
            tokens = tokens if selection is None else tf.gather(selection.ids, tokens)
            return model.step(tokens, state, decoding)

        def step(tokens, state):
            logits, _, state = model_step(tokens, state)
            return logits, state

        shared = {
            "max_lengths": self._max_lengths(mask, length.max_steps),
            "length_penalty_weight": config.length_penalty,
            "no_repeat_ngram_size": config.no_repeat_ngram_size or 0,
            "start": BOS,
            "end": EOS,
        }
        if config.sample:
            hypotheses = sample(
                step,
                state,
                uniforms=uniforms,
                temperature=config.sample.temperature,
                top_k=config.sample.top_k,
                top_p=config.sample.top_p,
                **shared,
            )
        else:
            coverage: dict[str, Any] = {}
            if config.coverage_penalty:
                step, state, coverage = self._with_coverage(model_step, state, decoding, mask)
            hypotheses = beam_search(
                step,
                state,
                beam_size=config.beam_size,
                n_best=config.n_best,
                max_steps=config.max_steps(mask.shape[1]),
                **coverage,
                **shared,
            )
        if selection is None:
            return hypotheses
        return hypotheses._replace(tokens=tf.gather(selection.ids, hypotheses.tokens))

    def _with_coverage(
        self, model_step: Callable, state: Any, decoding: Any, mask: tf.Tensor
    ) -> tuple[Callable, Any, dict[str, Any]]:
        """Returns a step function and an initial state with attention weights, and a search's coverage arguments."""

        def step(tokens, state):
            logits, memory_weights, decoder_state = model_step(tokens, state["decoder"])
            weights = tf.abs(tf.cast(self._model.attention_weights(decoding, memory_weights), tf.float32))
            weights /= tf.maximum(tf.reduce_sum(weights, -1, keepdims=True), 1e-12)  # slots' weights may not sum to 1
            return logits, {"decoder": decoder_state, "weights": weights}

        is_padding = 1 - tf.cast(mask, tf.float32)
        no_weights = tf.repeat(tf.zeros_like(is_padding)[:, None], self.config.beam_size, 1)
        coverage = {
            "attended": lambda state: state["weights"],
            "covered": is_padding,
            "coverage_penalty_weight": self.config.coverage_penalty,
        }
        return step, {"decoder": state, "weights": no_weights}, coverage

    def _uniforms(self, seed: int, numbers: Iterable[int], rows: int, width: int) -> np.ndarray:
        """Returns random numbers [steps, B, n], which depend on the seed and a sentence's number, not on the batch."""
        uniforms = np.zeros([self.config.max_steps(width), rows, self.config.n_best], np.float32)
        for row, number in enumerate(numbers):
            generator = np.random.Generator(np.random.Philox(key=[seed, number]))
            uniforms[:, row] = generator.random([uniforms.shape[0], uniforms.shape[2]], np.float32)
        return uniforms

    def _max_lengths(self, mask: tf.Tensor, max_steps: tf.Tensor | None) -> tf.Tensor:
        """Returns upper bounds on decoder steps [B] by the mask of states [B, P]; `max_steps` [B] is the model's."""
        lengths = tf.reduce_sum(tf.cast(mask, tf.int32), 1)
        # Computed in Python, where products are exact.
        limits = tf.constant([self.config.max_steps(length) for length in range(mask.shape[1] + 1)], tf.int32)
        max_lengths = tf.gather(limits, lengths)
        return max_lengths if max_steps is None else tf.minimum(max_lengths, max_steps)


class StoppedError(Exception):
    """`stop()` ended the work early."""


def decode(
    searcher: Searcher,
    sentences: Sources,
    vocabulary: Vocabulary,
    num_buckets: int,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[list[Translation], float]:
    """Decodes a corpus in batches of sentences of similar length.

    Warns of sentences without a hypothesis. Raises StoppedError once `stop()`, asked before each batch, is true.

    Returns the translations, in the order of the sentences, and the seconds that the search took. These include tracing
    unless `warm_up` ran before; they do not include work done once per model, batching, and turning ids into tokens.
    """
    batches = list(decoding_batches(sentences, batch_size=searcher.config.batch_size, num_buckets=num_buckets))

    def search(batch: tuple[np.ndarray, np.ndarray]) -> Hypotheses:
        if stop():
            raise StoppedError
        numbers, source = batch
        return searcher(source, numbers)

    start = time.perf_counter()
    with ThreadPoolExecutor(BATCHES_AT_ONCE) as pool:
        results = list(pool.map(search, batches))
    seconds = time.perf_counter() - start
    by_index = {
        index: translation
        for (indices, _), hypotheses in zip(batches, results, strict=True)
        for index, translation in zip(indices, translations(hypotheses, vocabulary), strict=False)  # then padding
    }
    if failed := sum(not translation.hypotheses for translation in by_index.values()):
        # The search drops each hypothesis for which the model gives NaN.
        warnings.warn(f"outputs are not finite in {failed:,} sentences; their translations are empty", stacklevel=2)
    return [by_index[index] for index in range(len(sentences))], seconds


def warm_up(searcher: Searcher, sentences: Sources, num_buckets: int) -> None:
    """Runs one batch of each shape, so that a timed run neither traces nor compiles."""
    seen = set()
    batches = decoding_batches(sentences, batch_size=searcher.config.batch_size, num_buckets=num_buckets)
    for _, source in batches:
        if (key := searcher.traced_by(source)) not in seen:
            seen.add(key)
            searcher(source)


def best_memory_length(results: list[Hypotheses], max_lengths: list[tf.Tensor]) -> Hypotheses:
    """Returns, for each source, the hypotheses with the memory length whose best hypothesis has the highest score.

    A best hypothesis that was cut at its maximum length competes only if no memory length has one that ended. Both
    lists have an item for each memory length; `max_lengths` are upper bounds on steps [B].
    """
    scores = tf.stack([result.scores[:, 0] for result in results])
    ended = tf.stack([result.lengths[:, 0] < limit for result, limit in zip(results, max_lengths, strict=True)])
    ended &= tf.math.is_finite(scores)  # otherwise the search has no hypothesis
    competes = ended | ~tf.reduce_any(ended, 0)
    best = tf.argmax(tf.where(competes, scores, -float("inf")), 0)
    return Hypotheses(*(tf.gather(tf.stack(values, 1), best, batch_dims=1) for values in zip(*results, strict=True)))
