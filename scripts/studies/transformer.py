"""A Transformer whose decoder reads K slots in place of all S encoder states: model, training, search, decode times."""

import math
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from memattn.data import corpus, tasks, tokenizer
from memattn.data.batches import TrainingBatches, decoding_batches
from memattn.data.config import CopyConfig
from memattn.data.vocabulary import BOS, EOS, PAD
from memattn.evaluation import formatting, metrics
from memattn.layers import SlotMemory

LAYERS, UNITS, HEADS = 2, 128, 4
STATES = (None, None, UNITS)
_WARMUP = 0.1  # share of the training steps
_CLIP_NORM = 1.0
_TESTED_AT_ONCE = 64
_LOG_EVERY = 100
TIMED = ((1, 1), (5, 8))  # beam, and sources that are decoded at once
_TIMED_SLOTS, _TIMED_VOCABULARY, _TIMED_STEPS, _REPEATS = 32, 4_000, 64, 7
_BUCKETS = 3  # padded lengths, each of which is compiled


def feed_forward(activation: str) -> keras.Sequential:
    """Makes a layer normalization, and two layers of which the first is four times as wide."""
    wide = keras.layers.Dense(4 * UNITS, activation)
    return keras.Sequential([keras.layers.LayerNormalization(), wide, keras.layers.Dense(UNITS)])


class Latents(keras.layers.Layer):
    """Writes states [B, S, D] into K slots: learned queries attend to the states once, as in the Perceiver.

    Jaegle et al. (2021), https://arxiv.org/abs/2103.03206; with layer normalization and a feed-forward layer.
    """

    def __init__(self, num_slots: int):
        super().__init__()
        self.latents = self.add_weight(shape=(1, num_slots, UNITS), initializer="random_normal", name="latents")
        self.attention = keras.layers.MultiHeadAttention(HEADS, UNITS // HEADS)
        self.feed = feed_forward("gelu")
        self.norm = keras.layers.LayerNormalization()
        self.supports_masking = True

    def build(self, states_shape):
        self.attention.build(STATES, STATES)
        self.feed.build(STATES)
        self.norm.build(STATES)

    def call(self, states, mask=None):
        latents = ops.repeat(self.latents, ops.shape(states)[0], 0)
        slots = latents + self.attention(self.norm(latents), states, attention_mask=mask[:, None])
        return slots + self.feed(slots)

    def compute_mask(self, states, mask=None):
        return


def _slots(writing: str) -> Callable[[int], keras.layers.Layer]:
    return lambda num_slots: SlotMemory(num_slots, writing=writing)


class Reading(NamedTuple):
    """What a decoder reads.

    Attributes:
      writer: makes a layer from states [B, S, D] to slots [B, K, D], given K; None if the states themselves are read.
      memories: for each decoder layer, the numbers of the memories that it reads, each with equally many heads.
    """

    writer: Callable[[int], keras.layers.Layer] | None
    memories: list[list[int]] = [[0]] * LAYERS


ALL_STATES, WINDOWS = "all states", "windowed slots"
MODELS = {
    ALL_STATES: Reading(None),
    WINDOWS: Reading(_slots("windows")),
    "stretch means": Reading(_slots("means")),
    "Perceiver latents": Reading(Latents),
    "slots without windows": Reading(_slots("weights")),
    "a memory per layer": Reading(_slots("windows"), [[layer] for layer in range(LAYERS)]),
    "a memory per head": Reading(_slots("windows"), [list(range(HEADS))] * LAYERS),
}


def attend(layer: keras.layers.MultiHeadAttention, queries, keys, values, mask=None):
    """Returns what `layer` returns for queries [B, Q, D], from keys and values that it projected [B, M, heads, width].

    `mask` [B or 1, 1, 1, M] is false for keys that are not read.
    """
    return layer.output_dense(ops.dot_product_attention(layer.query_dense(queries), keys, values, mask=mask))


class Block(keras.layers.Layer):
    """Self-attention, attention to memories if there are any, and a feed-forward layer: all residual, pre-norm."""

    def __init__(self, num_memories: int = 0, dropout: float = 0.0):
        super().__init__()
        width = UNITS // HEADS
        self.attention = keras.layers.MultiHeadAttention(HEADS, width)
        self.readers = [
            keras.layers.MultiHeadAttention(HEADS // num_memories, width, output_shape=UNITS)
            for _ in range(num_memories)
        ]
        self.feed = feed_forward("relu")
        self.norms = [keras.layers.LayerNormalization() for _ in range(2 if self.readers else 1)]
        self.dropout = keras.layers.Dropout(dropout)

    def build(self, shape):
        for layer in (self.attention, *self.readers):
            layer.build(STATES, STATES)
        for layer in (self.feed, *self.norms):
            layer.build(STATES)

    def call(self, x, memories=(), source_mask=None, training=None):
        """Returns the next layer's input [B, T, D]; without memories, of an encoder.

        `source_mask` [B, 1, S] is false for padding; None if memories have none.
        """
        own, read = (None, source_mask) if self.readers else (source_mask, None)

        def attend_to_itself(x):
            return self.attention(x, x, attention_mask=own, use_causal_mask=bool(self.readers))

        def read_memories(x):
            return sum(
                reader(x, each, attention_mask=read) for reader, each in zip(self.readers, memories, strict=True)
            )

        return self._residual(x, attend_to_itself, read_memories, training)

    def _residual(self, x, attend_to_itself: Callable, read_memories: Callable, training=None):
        x += self.dropout(attend_to_itself(self.norms[0](x)), training=training)
        if self.readers:
            x += self.dropout(read_memories(self.norms[1](x)), training=training)
        return x + self.dropout(self.feed(x), training=training)

    def project(self, memories: list) -> list[tuple]:
        """Returns keys and values [B, M, heads, width] of each memory [B, M, D]: once a source."""
        return [(reader.key_dense(m), reader.value_dense(m)) for reader, m in zip(self.readers, memories, strict=True)]

    def step(self, x, place, cache: tuple, projected: list[tuple], mask):
        """Returns the next layer's input for one target position, and the cache with its key and value.

        Args:
          x: [B k, 1, D], for k hypotheses of each source.
          place: the position, from 0.
          cache: keys and values [B k, L, heads, width] of the positions before it; L is the longest target.
          projected: what `project` returns.
          mask: [B, 1, 1, M] or None, of the memories.
        """
        keys, values = cache

        def attend_to_itself(x):
            nonlocal keys, values
            keys = ops.slice_update(keys, (0, place, 0, 0), self.attention.key_dense(x))
            values = ops.slice_update(values, (0, place, 0, 0), self.attention.value_dense(x))
            return attend(self.attention, x, keys, values, (ops.arange(keys.shape[1]) <= place)[None, None, None])

        def read_memories(x):  # the hypotheses of a source are queries that share its memory
            queries = ops.reshape(x, (projected[0][0].shape[0], -1, UNITS))
            read = sum(attend(reader, queries, *kv, mask) for reader, kv in zip(self.readers, projected, strict=True))
            return ops.reshape(read, x.shape)

        return self._residual(x, attend_to_itself, read_memories), (keys, values)


class Transformer(keras.Model):
    """Logits [B, T, V] of each target token from sources [B, S] and target tokens before it [B, T].

    One embedding of V tokens for both sides, sinusoidal positions (Vaswani et al., 2017), pre-norm blocks.

    Args:
      vocabulary_size: V.
      reading: what the decoder reads.
      num_slots: K, for slots.
      dropout: rate, of embeddings and of the output of each layer of a block.
    """

    def __init__(self, vocabulary_size: int, reading: Reading, num_slots: int, dropout: float = 0.0):
        super().__init__()
        self.embedding = keras.layers.Embedding(vocabulary_size, UNITS, keras.initializers.RandomNormal(stddev=1.0))
        self.reading = reading
        count = 1 + max(map(max, reading.memories))
        self.writers = [reading.writer(num_slots) for _ in range(count)] if reading.writer else []
        self.encoder = [Block(dropout=dropout) for _ in range(LAYERS)]
        self.decoder = [Block(len(numbers), dropout) for numbers in reading.memories]
        self.norms = [keras.layers.LayerNormalization() for _ in range(2)]
        self.dropout = keras.layers.Dropout(dropout)
        self.classify = keras.layers.Dense(vocabulary_size)

    def call(self, inputs, training=None):
        source, target = inputs
        memories, mask = self._write(source, training)
        x = self._embed(target, ops.arange(ops.shape(target)[1]), training)
        for block, numbers in zip(self.decoder, self.reading.memories, strict=True):
            x = block(x, [memories[number] for number in numbers], mask, training=training)
        return self.classify(self.norms[1](x))

    def _embed(self, ids, places, training=None):
        rates = ops.exp(-math.log(10_000) * ops.arange(UNITS // 2, dtype="float32") / (UNITS // 2))
        angles = ops.cast(places, "float32")[:, None] * rates
        x = self.embedding(ids) + ops.concatenate([ops.sin(angles), ops.cos(angles)], -1)
        return self.dropout(x, training=training)

    def _write(self, source, training=None) -> tuple[list, Any]:
        """Returns the memories that decoder layers read, and their mask [B, 1, M] or None."""
        mask = source != PAD
        x = self._embed(source, ops.arange(ops.shape(source)[1]), training)
        for block in self.encoder:
            x = block(x, source_mask=mask[:, None], training=training)
        states = self.norms[0](x)
        return (
            ([writer(states, mask=mask) for writer in self.writers], None)
            if self.writers
            else ([states], mask[:, None])
        )

    def memorize(self, source) -> tuple[list[list[tuple]], Any]:
        """Returns all that decoding reads of sources [B, S]: keys and values by decoder layer and memory; the mask."""
        memories, mask = self._write(source)
        mask = None if mask is None else mask[:, None]
        pairs = zip(self.decoder, self.reading.memories, strict=True)
        return [block.project([memories[number] for number in numbers]) for block, numbers in pairs], mask

    def step(self, tokens, place, caches: list[tuple], memory: tuple) -> tuple[Any, list[tuple]]:
        """Returns logits [B k, V] of the token after `tokens` [B k], which stand at `place`, and the next caches."""
        projected, mask = memory
        x, after = self._embed(tokens[:, None], place[None]), []
        for block, cache, each in zip(self.decoder, caches, projected, strict=True):
            x, cache = block.step(x, place, cache, each, mask)
            after.append(cache)
        return self.classify(self.norms[1](x))[:, 0], after


def search(model: Transformer, memory: tuple, beam: int, steps: int, end: int = EOS):
    """Returns the most probable hypothesis [B, steps] of each source; greedy if `beam` is 1.

    `memory` is what `model.memorize` returns. A finished hypothesis stays on the beam, followed by PAD.
    """
    batch = memory[0][0][0][0].shape[0]
    rows, vocabulary_size = batch * beam, model.classify.units
    cache = ops.zeros((rows, steps, HEADS, UNITS // HEADS))
    only_pad = ops.where(ops.arange(vocabulary_size) == PAD, 0.0, -1e9)
    first_of_beams = ops.arange(batch)[:, None] * beam

    def unfinished(place, hypotheses, scores, last, caches):
        del hypotheses, scores, caches
        return ops.logical_and(place < steps, ops.any(ops.logical_and(last != PAD, last != end)))

    def advance(place, hypotheses, scores, last, caches):
        logits, caches = model.step(last, place, caches, memory)
        ended = ops.logical_or(last == end, last == PAD)[:, None]
        scores = ops.reshape(scores, (rows, 1)) + ops.where(ended, only_pad, ops.log_softmax(logits))
        scores, best = ops.top_k(ops.reshape(scores, (batch, -1)), beam)
        last = ops.reshape(ops.cast(best % vocabulary_size, "int32"), (rows,))
        if beam > 1:
            parents = ops.reshape(first_of_beams + ops.cast(best // vocabulary_size, "int32"), (rows,))
            hypotheses = ops.take(hypotheses, parents, 0)
            caches = [tuple(ops.take(each, parents, 0) for each in pair) for pair in caches]
        hypotheses = ops.slice_update(hypotheses, (0, place), last[:, None])
        return place + 1, hypotheses, scores, last, caches

    scores = ops.tile(ops.where(ops.arange(beam) == 0, 0.0, -1e9)[None], (batch, 1))  # at first all are alike
    start = ops.full((rows, steps), BOS, "int32"), scores, ops.full((rows,), BOS, "int32"), [(cache, cache)] * LAYERS
    place = ops.zeros((), "int32")
    _, hypotheses, *_ = ops.while_loop(unfinished, advance, (place, *start))
    return hypotheses[::beam]


def compiled(model: Transformer, function: Callable) -> Callable:
    """Compiles a function of tensors, which reads the weights of the model, by XLA; under PyTorch, not at all."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=True)
    if keras.backend.backend() == "jax":
        import jax

        @jax.jit
        def with_weights(weights, *inputs):  # weights that the function closed over would be constants
            with keras.StatelessScope(list(zip(model.variables, weights, strict=True))):
                return function(*inputs)

        return lambda *inputs: with_weights([weight.value for weight in model.variables], *inputs)
    return function


class Task(NamedTuple):
    """A corpus to train and to test on, and the training that it needs.

    Attributes:
      folder: the prepared corpus.
      num_slots: K.
      split: the pairs to test on; no choice depends on them, as the last weights are tested.
      updates: training steps.
      batch_size: sentence pairs of a training step.
      learning_rate: Adam's highest; it rises linearly over a tenth of the steps, and falls to 0 by a cosine.
      dropout: rate.
    """

    folder: str
    num_slots: int
    split: str
    updates: int
    batch_size: int
    learning_rate: float
    dropout: float


COPY = CopyConfig(max_length=40, num_symbols=20, train_examples=50_000, valid_examples=500)
TASKS = {
    "copy": Task(COPY.folder, 10, "valid", updates=1_000, batch_size=32, learning_rate=0.002, dropout=0.0),
    "multi30k": Task("data/multi30k.en-de", 8, "test", updates=2_000, batch_size=64, learning_rate=0.002, dropout=0.1),
    **{
        f"bible.en-es.{verses}": Task(
            f"data/bible.en-es.{verses}", 32, "test", updates=2_000, batch_size=32, learning_rate=0.002, dropout=0.1
        )
        for verses in (1, 4, 8)
    },
}


def teacher_forced(source: np.ndarray, target: np.ndarray) -> tuple:
    """Returns inputs, targets and their weights, 0 for padding, as `fit` takes them."""
    before = np.pad(target[:, :-1], [(0, 0), (1, 0)], constant_values=BOS)
    return (source, before), target, (target != PAD).astype(np.float32)


def result(task: Task, name: str, *, seed: int) -> dict[str, Any]:
    """Trains and tests a model, and returns its row of the table; seconds are CPU time, compiling included."""
    if task.folder == COPY.folder:
        tasks.prepare(COPY, task.folder)
    start = time.process_time()
    model = train(task, name, seed=seed)
    return {
        "K": task.num_slots if MODELS[name].writer else "",
        "parameters": model.count_params(),
        "training steps": task.updates,
        "CPU s": round(time.process_time() - start),
        **{score: f"{value:.2f}" for score, value in test(task, model).items()},
    }


def train(task: Task, name: str, *, seed: int) -> Transformer:
    """Trains a model, and returns it."""
    keras.utils.set_random_seed(seed)
    vocabulary = corpus.read_vocabulary(f"{task.folder}/{corpus.VOCABULARY}")
    pairs = corpus.read_corpus(task.folder, "train", vocabulary)
    stream = TrainingBatches(pairs, batch_size=task.batch_size, num_buckets=_BUCKETS, seed=seed).stream(0, 0, 0)
    model = Transformer(len(vocabulary), MODELS[name], task.num_slots, task.dropout)
    warmup = int(_WARMUP * task.updates)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, task.updates - warmup, warmup_target=task.learning_rate, warmup_steps=warmup
    )
    model.compile(
        keras.optimizers.Adam(rate, beta_2=0.98, global_clipnorm=_CLIP_NORM),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight"),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy()],
    )
    for update in range(1, task.updates + 1):
        (source, target), _ = next(stream)
        logs = model.train_on_batch(*teacher_forced(source, target), return_dict=True)
        if update % _LOG_EVERY == 0:
            accuracy = logs["sparse_categorical_accuracy"]
            print(f"{name}, seed {seed}, step {update}: loss {logs['loss']:.3f}, accuracy {accuracy:.3f}", flush=True)
            model.reset_metrics()
    return model


def test(task: Task, model: Transformer) -> dict[str, float]:
    """Returns token accuracy under teacher forcing, and scores of greedy decoding, all in percent."""
    vocabulary, words = corpus.read_vocabulary(f"{task.folder}/{corpus.VOCABULARY}"), tokenizer.read(task.folder)
    pairs = corpus.read_corpus(task.folder, task.split, vocabulary)
    tokens, references = corpus.read_references(task.folder, task.split)
    decode = compiled(model, lambda source: search(model, model.memorize(source), 1, 2 * source.shape[1]))
    hypotheses, logs, width = [""] * len(tokens), {}, int(pairs.target.lengths().max())
    model.reset_metrics()
    for members, source in decoding_batches(pairs.source, batch_size=_TESTED_AT_ONCE, num_buckets=_BUCKETS):
        target = pairs.target.padded(members, len(source), width)
        logs = model.test_on_batch(*teacher_forced(source, target), return_dict=True)
        for index, ids in zip(members, ops.convert_to_numpy(decode(source)), strict=False):
            hypotheses[index] = words.decode(vocabulary.decode(ids))
    comparison = metrics.Comparison(
        hypotheses,
        [words.decode(line.split()) for line in tokens],
        language=words.target_language,
        detokenize=words.detokenize,
        detokenized_references=references,
    )
    scores = metrics.scores(comparison, ["exact_match", "sacrebleu", "chrf"])
    accuracy = 100 * logs["sparse_categorical_accuracy"]
    return {"token accuracy": accuracy, **{name: score.value for name, score in scores.items()}}


def cache_bytes(memory: tuple) -> int:
    """Returns the bytes of all keys and values that `Transformer.memorize` returned."""
    return sum(math.prod(each.shape) * 4 for layer in memory[0] for pair in layer for each in pair)


def decode_times(length: int, names: list[str], *, beam: int, batch: int) -> list[dict[str, Any]]:
    """Returns a row for each model, untrained, with the time of its searches for sources of one length, taken in turns.

    Time is CPU time of this process, so other processes hardly count, and several threads add up. That of a token is
    of a search of _TIMED_STEPS steps that never ends earlier, for each of the sources; that of a source is of encoder,
    writing, and projection of keys and values, once. Compiling is left out.
    """
    sources = ops.convert_to_tensor(np.full((batch, length), EOS, np.int32))
    runs: dict[str, tuple] = {}
    for name in names:
        keras.utils.set_random_seed(1)
        model = Transformer(_TIMED_VOCABULARY, MODELS[name], _TIMED_SLOTS)
        model((sources, sources))
        memorize = compiled(model, model.memorize)
        decode = compiled(model, lambda memory, model=model: search(model, memory, beam, _TIMED_STEPS, end=-1))
        memory = memorize(sources)
        ops.convert_to_numpy(decode(memory))
        runs[name] = memory, lambda f=memorize: f(sources)[0][0][0][0], lambda f=decode, memory=memory: f(memory)
    seconds: dict[tuple[str, int], list[float]] = {(name, part): [] for name in names for part in (1, 2)}
    for _ in range(_REPEATS):
        for name, part in seconds:
            start = time.process_time()
            ops.convert_to_numpy(runs[name][part]())
            seconds[name, part].append(time.process_time() - start)
    rows = []
    for name in names:
        source, token = ([each / batch for each in seconds[name, part]] for part in (1, 2))
        token = [1000 * each / _TIMED_STEPS for each in token]
        rows.append(
            {
                "beam": beam,
                "sources at once": batch,
                "S": length,
                "decoder reads": name,
                "K": _TIMED_SLOTS if MODELS[name].writer else "",
                "cache KiB per source": f"{cache_bytes(runs[name][0]) / batch / 1024:.0f}",
                "ms per token": f"{statistics.median(token):.3g}",
                "range": formatting.extent(token, ".3g"),
                "ms per source": f"{1000 * statistics.median(source):.3g}",
            }
        )
    return rows
