"""Trains small Transformers whose decoder reads all states of the encoder or K slots, or measures their decode times.

KERAS_BACKEND=tensorflow python scripts/transformer.py --tasks copy --seeds 1,2,3
KERAS_BACKEND=tensorflow python scripts/transformer.py --times

A row of the table is a trained model with its scores on held-out examples; rows that the output already has are not
trained again. With --times, a row is a length of the source, and an untrained model; a picture shows them.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import functools
import itertools
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from absl import flags
from keras import layers, ops
from studies import plots, standalone
from studies.runs import groups, summary

import memattn
from memattn import files
from memattn.data import corpus, tasks, tokenizer
from memattn.data.batches import TrainingBatches, decoding_batches
from memattn.data.config import CopyConfig
from memattn.data.vocabulary import BOS, EOS, PAD
from memattn.errors import ConfigError
from memattn.evaluation import formatting, metrics
from memattn.evaluation.evaluate import read_test_set
from memattn.evaluation.plots import Line
from memattn.layers import SlotMemory
from memattn.options import not_one_of
from memattn.runs.result import conditions

LAYERS, UNITS, HEADS = 2, 128, 4
STATES = (None, None, UNITS)
_BUCKETS = 3  # padded lengths of training and test, each of which is compiled
TIMED = ((1, 1), (5, 8))  # beam, and sources that are decoded at once
_TIMED_SLOTS, _TIMED_VOCABULARY, _TIMED_STEPS, _REPEATS = 32, 4_000, 64, 7


def _feed_forward(activation: str) -> keras.Sequential:
    return keras.Sequential([layers.LayerNormalization(), layers.Dense(4 * UNITS, activation), layers.Dense(UNITS)])


class Latents(layers.Layer):
    """Writes states [B, S, D] into K slots: learned queries attend to the states once (Jaegle et al., 2021)."""

    def __init__(self, num_slots: int):
        super().__init__()
        self.latents = self.add_weight(shape=(1, num_slots, UNITS), initializer="random_normal", name="latents")
        self.attention = layers.MultiHeadAttention(HEADS, UNITS // HEADS)
        self.norm, self.feed = layers.LayerNormalization(), _feed_forward("gelu")
        self.supports_masking = True

    def build(self, states_shape):
        self.attention.build(STATES, STATES)
        self.norm.build(STATES)
        self.feed.build(STATES)

    def call(self, states, mask=None):
        latents = ops.repeat(self.latents, ops.shape(states)[0], 0)
        slots = latents + self.attention(self.norm(latents), states, attention_mask=mask[:, None])
        return slots + self.feed(slots)

    def compute_mask(self, states, mask=None):
        """Returns no mask: all slots are real."""
        return


class Reading(NamedTuple):
    """The memories that a decoder reads: states or slots."""

    # makes a layer from states [B, S, D] to slots [B, K, D], given K; None: the states themselves are read
    writer: Callable[[int], layers.Layer] | None
    # for each decoder layer, the numbers of the memories that it reads, each with equally many heads
    memories: list[list[int]] = [[0]] * LAYERS


MODELS = {
    "all states": Reading(None),
    "windowed slots": Reading(SlotMemory),
    "stretch means": Reading(lambda num_slots: SlotMemory(num_slots, writing="means")),
    "Perceiver latents": Reading(Latents),
    "slots without windows": Reading(lambda num_slots: SlotMemory(num_slots, writing="weights")),
    "a memory per layer": Reading(SlotMemory, [[layer] for layer in range(LAYERS)]),
    "a memory per head": Reading(SlotMemory, [list(range(HEADS))] * LAYERS),
}


def key_and_value(layer: layers.MultiHeadAttention, memory):
    """Projects a memory [B, M, D], and returns keys [B, heads, width, M] and values [B, heads, M, width]."""
    return ops.transpose(layer.key_dense(memory), (0, 2, 3, 1)), ops.transpose(layer.value_dense(memory), (0, 2, 1, 3))


def attend(layer: layers.MultiHeadAttention, queries, memory: tuple, mask=None):
    """Returns what `layer` returns for queries [B, Q, D], from `key_and_value` of a memory.

    `mask` [B or 1, 1, 1, M] is false for keys that are not read.
    """
    queries, (keys, values) = ops.transpose(layer.query_dense(queries), (0, 2, 1, 3)), memory
    scores = ops.matmul(queries, keys) / math.sqrt(layer.key_dim)  # [B, heads, Q, M]
    if mask is not None:
        scores = ops.where(mask, scores, -1e9)
    return layer.output_dense(ops.transpose(ops.matmul(ops.softmax(scores), values), (0, 2, 1, 3)))


class Block(layers.Layer):
    """Self-attention, attention to memories if there are any, and a feed-forward layer: all residual, pre-norm."""

    def __init__(self, num_memories: int = 0, dropout: float = 0.0):
        super().__init__()
        heads, width = HEADS // max(num_memories, 1), UNITS // HEADS
        self.attention = layers.MultiHeadAttention(HEADS, width)
        self.readers = [layers.MultiHeadAttention(heads, width, output_shape=UNITS) for _ in range(num_memories)]
        self.norms = [layers.LayerNormalization() for _ in range(2 if self.readers else 1)]
        self.feed, self.dropout = _feed_forward("relu"), layers.Dropout(dropout)

    def build(self, shape):
        for layer in (self.attention, *self.readers):
            layer.build(STATES, STATES)
        for layer in (self.feed, *self.norms):
            layer.build(STATES)

    def call(self, x, memories=(), source_mask=None, training=None):
        """Returns the next layer's input [B, T, D]: of a decoder, which is causal, given memories; else of an encoder.

        `source_mask` [B, 1, 1, S] is false for padding; None for slots, of which all are real.
        """
        positions = ops.arange(ops.shape(x)[1])
        self_mask = (positions <= positions[:, None])[None, None] if self.readers else source_mask
        states = self.norms[0](x)
        keys_and_values = key_and_value(self.attention, states)
        return self._after(x, states, keys_and_values, self_mask, self.project(memories), source_mask, training)

    def project(self, memories: list) -> list[tuple]:
        """Returns keys and values of each memory [B, M, D]: once a source."""
        return [key_and_value(reader, memory) for reader, memory in zip(self.readers, memories, strict=True)]

    def step(self, x, place, cache: tuple, projected: list[tuple], mask):
        """Returns the next layer's input for the target position `place`, and the cache with its key and value.

        Args:
          x: [B k, 1, D], for k hypotheses of each source.
          place: from 0.
          cache: keys and values of the positions before, and room for those up to the longest target.
          projected: what `project` returned.
          mask: [B, 1, 1, S], or None for slots.
        """
        states, (keys, values) = self.norms[0](x), cache
        key, value = key_and_value(self.attention, states)
        cache = ops.slice_update(keys, (0, 0, 0, place), key), ops.slice_update(values, (0, 0, place, 0), value)
        self_mask = (ops.arange(values.shape[2]) <= place)[None, None, None]
        return self._after(x, states, cache, self_mask, projected, mask), cache

    def _after(self, x, states, keys_and_values: tuple, self_mask, projected: list[tuple], mask, training=None):
        """Returns the next layer's input; `states` is x normalized, whose self-attention reads `keys_and_values`."""
        x += self.dropout(attend(self.attention, states, keys_and_values, self_mask), training=training)
        if projected:  # hypotheses of a source are queries that share its memories
            queries = ops.reshape(self.norms[1](x), (ops.shape(projected[0][0])[0], -1, UNITS))
            read = sum(
                attend(reader, queries, each, mask) for reader, each in zip(self.readers, projected, strict=True)
            )
            x += self.dropout(ops.reshape(read, ops.shape(x)), training=training)
        return x + self.dropout(self.feed(x), training=training)


class Transformer(keras.Model):
    """Logits [B, T, V] of target tokens, from sources [B, S] and the token before each [B, T].

    Both sides share an embedding; positions are sinusoids (Vaswani et al., 2017).
    """

    def __init__(self, vocabulary_size: int, reading: Reading, num_slots: int, dropout: float = 0.0):
        super().__init__()
        self.reading = reading
        self.embedding = layers.Embedding(vocabulary_size, UNITS, keras.initializers.RandomNormal(stddev=1.0))
        self.encoder = [Block(dropout=dropout) for _ in range(LAYERS)]
        count = 1 + max(map(max, reading.memories))
        self.writers = [reading.writer(num_slots) for _ in range(count)] if reading.writer else []
        self.decoder = [Block(len(numbers), dropout) for numbers in reading.memories]
        self.norms = [layers.LayerNormalization() for _ in range(2)]
        self.dropout, self.classify = layers.Dropout(dropout), layers.Dense(vocabulary_size)

    def call(self, inputs, training=None):
        source, tokens = inputs
        memories, mask = self._memories(source, training)
        x = self._embed(tokens, ops.arange(ops.shape(tokens)[1]), training)
        for block, read in zip(self.decoder, memories, strict=True):
            x = block(x, read, mask, training=training)
        return self.classify(self.norms[1](x))

    def _embed(self, ids, places, training=None):
        rates = ops.exp(-math.log(10_000) * ops.arange(UNITS // 2, dtype="float32") / (UNITS // 2))
        angles = ops.cast(places, "float32")[:, None] * rates
        positions = ops.concatenate([ops.sin(angles), ops.cos(angles)], -1)
        return self.dropout(self.embedding(ids) + positions, training=training)

    def _memories(self, source, training=None) -> tuple[list[list], Any]:
        """Returns the memories that each decoder layer reads, and the mask [B, 1, 1, S] of states; None for slots."""
        mask = source != PAD
        x = self._embed(source, ops.arange(ops.shape(source)[1]), training)
        for block in self.encoder:
            x = block(x, source_mask=mask[:, None, None], training=training)
        states = self.norms[0](x)
        memories = [writer(states, mask=mask) for writer in self.writers] or [states]
        read = [[memories[number] for number in numbers] for numbers in self.reading.memories]
        return read, None if self.writers else mask[:, None, None]

    def memorize(self, source) -> tuple[list[list[tuple]], Any]:
        """Returns keys and values of sources [B, S] by decoder layer and memory, and their mask, for `step`."""
        memories, mask = self._memories(source)
        return [block.project(read) for block, read in zip(self.decoder, memories, strict=True)], mask

    def step(self, tokens, place, caches: list[tuple], memory: tuple) -> tuple[Any, list[tuple]]:
        """Returns logits [B k, V] of the token after `tokens` [B k], which stand at `place`, and the next caches."""
        projected, mask = memory
        x, after = self._embed(tokens[:, None], place[None]), []
        for block, cache, each in zip(self.decoder, caches, projected, strict=True):
            x, cache = block.step(x, place, cache, each, mask)
            after.append(cache)
        return self.classify(self.norms[1](x))[:, 0], after


def search(model: Transformer, memory: tuple, beam: int, steps: int, end: int = EOS):
    """Returns the most probable hypothesis [B, steps] of each source, after its end filled with `end`.

    `memory` is what `model.memorize` returned.
    """
    batch, width = memory[0][0][0][0].shape[0], UNITS // HEADS

    def step(tokens, state):  # [B, k]
        places, caches = state
        caches = tf.nest.map_structure(lambda cache: tf.reshape(cache, [batch * beam, *cache.shape[2:]]), caches)
        logits, caches = model.step(tf.reshape(tokens, [-1]), places[0, 0], caches, memory)
        logits, caches = tf.nest.map_structure(
            lambda tensor: tf.reshape(tensor, [batch, beam, *tensor.shape[1:]]), (logits, caches)
        )
        return logits, (places + 1, caches)

    cache = tf.zeros([batch, beam, HEADS, width, steps]), tf.zeros([batch, beam, HEADS, steps, width])
    limits = {"max_lengths": tf.fill([batch], steps), "max_steps": steps}
    state = tf.zeros([batch, beam], tf.int32), [cache] * LAYERS
    return memattn.beam_search(step, state, beam_size=beam, start=BOS, end=end, **limits).tokens[:, 0]


class Task(NamedTuple):
    """A prepared corpus, and a training on it: no choice depends on its test split, as the last weights are tested."""

    folder: str
    split: str  # to test on
    num_slots: int
    steps: int  # of training
    batch_size: int  # sentence pairs
    dropout: float
    learning_rate: float = 0.002  # Adam's highest: it rises for a tenth of the steps, and falls to 0 by a cosine


COPY = CopyConfig(max_length=40, num_symbols=20, train_examples=50_000, valid_examples=500)
# Corpora of each task: a model is trained and tested on the first, then trained further and tested on the next.
TASKS = {
    "copy": {"copy": Task(COPY.folder, "valid", 10, steps=1_000, batch_size=32, dropout=0.0)},
    "multi30k": {"multi30k": Task("data/multi30k.en-de", "test", 8, steps=1_500, batch_size=64, dropout=0.1)},
    "bible": {
        "bible.en-es.1": Task("data/bible.en-es.1", "test", 32, steps=2_000, batch_size=32, dropout=0.1),
        "bible.en-es.4": Task("data/bible.en-es.4", "test", 32, steps=500, batch_size=8, dropout=0.1),
        "bible.en-es.8": Task("data/bible.en-es.8", "test", 32, steps=500, batch_size=4, dropout=0.1),
    },
}


def results(corpora: dict[str, Task], name: str, *, seed: int) -> Iterator[dict[str, Any]]:
    """Trains and tests a model on each corpus, and yields a row of the table; seconds are CPU time with compiling."""
    model = None
    for corpus_name, task in corpora.items():
        if task.folder == COPY.folder:
            tasks.prepare(COPY, task.folder)
        start = time.process_time()
        model = train(task, name, seed=seed, model=model)
        seconds, slots = round(time.process_time() - start), task.num_slots if model.writers else ""
        row = {"task": corpus_name, "decoder reads": name, "seed": seed, "K": slots}
        row |= {"parameters": model.count_params(), "training steps": task.steps, "CPU s": seconds}
        yield {**row, **{score: f"{value:.2f}" for score, value in test(task, model).items()}}


def over_seeds(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns a row for each task and model: means over its seeds, with the range of BLEU."""
    means = []
    for seeds in groups(rows, itemgetter("task", "decoder reads")).values():
        bleu, accuracy = ([float(row[score]) for row in seeds] for score in ("sacrebleu", "token accuracy"))
        row = {key: seeds[0][key] for key in ("task", "decoder reads", "K")}
        accuracies = {"token accuracy": f"{statistics.mean(accuracy):.2f}"}
        means.append({**row, "seeds": len(seeds), **summary("BLEU", bleu), **accuracies})
    return means


def before(target: np.ndarray) -> np.ndarray:
    """Returns the token before each token of targets [B, T]."""
    return np.pad(target[:, :-1], [(0, 0), (1, 0)], constant_values=BOS)


def is_token(target: np.ndarray) -> np.ndarray:
    """Returns the weights of target tokens: 0 for padding, else 1."""
    return (target != PAD).astype(np.float32)


def train(task: Task, name: str, *, seed: int, model: Transformer | None = None) -> Transformer:
    """Returns a trained model, which starts from the weights of `model` if that is given."""
    keras.utils.set_random_seed(seed)
    vocabulary = corpus.read_vocabulary(task.folder)
    pairs = corpus.read_corpus(task.folder, "train", vocabulary)
    stream = TrainingBatches(pairs, batch_size=task.batch_size, num_buckets=_BUCKETS, seed=seed).stream(0, 0, 0)
    model = model or Transformer(len(vocabulary), MODELS[name], task.num_slots, task.dropout)
    rise = task.steps // 10
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, task.steps - rise, warmup_target=task.learning_rate, warmup_steps=rise
    )
    model.compile(
        keras.optimizers.Adam(rate, beta_2=0.98, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight"),
    )
    for step in range(1, task.steps + 1):
        (source, target), _ = next(stream)
        loss = model.train_on_batch((source, before(target)), target, sample_weight=is_token(target))
        if step % 100 == 0:
            print(f"{name}, seed {seed}, step {step}: loss {loss:.3f}", flush=True)
    return model


def test(task: Task, model: Transformer) -> dict[str, float]:
    """Returns token accuracy under teacher forcing, and scores of greedy decoding, all in percent."""
    vocabulary, words = corpus.read_vocabulary(task.folder), tokenizer.read(task.folder)
    test_set = read_test_set(task.folder, task.split, vocabulary, words, "tokens")
    decode = tf.function(lambda source: search(model, model.memorize(source), 1, 2 * source.shape[1]), jit_compile=True)
    width = int(test_set.target.lengths().max())
    hypotheses: list[list[str]] = [[]] * len(test_set.source)
    accuracy = keras.metrics.SparseCategoricalAccuracy()
    for members, source in decoding_batches(test_set.source, batch_size=64, num_buckets=_BUCKETS):
        target = test_set.target.padded(members, len(source), width)
        accuracy.update_state(target, model.predict_on_batch((source, before(target))), is_token(target))
        for index, ids in zip(members, ops.convert_to_numpy(decode(source)), strict=False):
            hypotheses[index] = vocabulary.decode(ids)
    comparison = metrics.Comparison(
        words.decode(hypotheses),
        test_set.references,
        detokenize=words.detokenize,
        detokenized_references=test_set.detokenized_references,
    )
    scores = metrics.scores(comparison, ["exact_match", "sacrebleu", "chrf"])
    return {"token accuracy": 100 * float(accuracy.result()), **{name: score.value for name, score in scores.items()}}


def decode_times(length: int, names: list[str], *, beam: int, batch: int) -> list[dict[str, Any]]:
    """Returns rows of untrained models, whose searches of sources of one length take turns.

    Times are CPU time of this process, without compiling: of a source, the encoder, the writing of slots, and the
    projection of keys and values; of a token, a step of a search that does not end before its last, for each source.
    """
    sources = ops.convert_to_tensor(np.full((batch, length), EOS, np.int32))
    parts: dict[tuple[str, str], Callable] = {}
    sizes = {}
    for name in names:
        keras.utils.set_random_seed(1)
        model = Transformer(_TIMED_VOCABULARY, MODELS[name], _TIMED_SLOTS)
        model((sources, sources))
        memorize = tf.function(model.memorize, jit_compile=True)
        search_all = functools.partial(search, model, beam=beam, steps=_TIMED_STEPS, end=-1)
        decode = tf.function(search_all, jit_compile=True)
        memory = memorize(sources)
        sizes[name] = sum(4 * math.prod(each.shape) for layer in memory[0] for pair in layer for each in pair) // batch
        parts[name, "source"] = lambda memorize=memorize: memorize(sources)[0][-1][-1][-1]
        parts[name, "token"] = lambda decode=decode, memory=memory: decode(memory)
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in parts}
    for repeat in range(1 + _REPEATS):  # the first compiles
        for key, part in parts.items():
            start = time.process_time()
            ops.convert_to_numpy(part())
            seconds[key] += [time.process_time() - start] if repeat else []
    rows = []
    for name in names:
        row = {"beam": beam, "sources at once": batch, "S": length, "decoder reads": name}
        row |= {"K": _TIMED_SLOTS if MODELS[name].writer else "", "cache KiB": f"{sizes[name] / 1024:.0f}"}
        for kind, count in (("token", batch * _TIMED_STEPS), ("source", batch)):
            times = [1000 * each / count for each in seconds[name, kind]]
            row[f"ms a {kind}"] = f"{statistics.median(times):.3g}"
            row[f"range, {kind}"] = formatting.extent(times, ".3g")
        rows.append(row)
    return rows


def draw_times(path: str, rows: list[dict[str, Any]]) -> None:
    """Draws the rows of `decode_times` against the length of a source: the time of a token, and the size of a cache."""
    colours = {"all states": "bahdanau", "windowed slots": "windowed_memory", "stretch means": "stretch_means"}
    columns = {"ms a token": "CPU time of a token, ms", "cache KiB": "cross-attention cache of a source, KiB"}
    with plots.picture(path, "", (9, 4), 1, 2) as both:
        for axes, (column, label) in zip(both, columns.items(), strict=True):
            lines = [
                Line(
                    f"{name}, beam {beam}",
                    {"name": colours.get(name, name)},
                    {row["S"]: (float(row[column]),) * 3 for row in rows_of_line},
                )
                for (name, beam), rows_of_line in groups(rows, itemgetter("decoder reads", "beam")).items()
            ]
            plots.draw_lines(axes, lines)
            plots.log_axis(axes, sorted({row["S"] for row in rows}), base=2)
            axes.set(xlabel="source tokens", ylabel=label, ylim=0)
        both[0].legend(fontsize=9)


def main() -> None:
    options = flags.FLAGS
    for flag, given, known in (("tasks", options.tasks, TASKS), ("models", options.models, MODELS)):
        if unknown := [name for name in given if name not in known]:
            raise ConfigError(f"--{flag}: {not_one_of(unknown[0], known)}")
    output = options.output + ("times" if options.times else "table")
    files.make_folder(os.path.dirname(output))
    rows = files.read_json(f"{output}.json")["rows"] if os.path.exists(f"{output}.json") else []
    if options.times:
        for (beam, batch), length in itertools.product(TIMED, options.lengths):
            measured = decode_times(length, options.models, beam=beam, batch=batch)
            _write(output, rows, measured, itemgetter("beam", "sources at once", "S", "decoder reads"))
        draw_times(f"{output}.svg", rows)
        return
    for task, seed, name in itertools.product(options.tasks, options.seeds, options.models):
        last = {"task": list(TASKS[task])[-1], "decoder reads": name, "seed": seed}
        if not any(last.items() <= row.items() for row in rows):
            for row in results(TASKS[task], name, seed=seed):
                _write(output, rows, [row], itemgetter("task", "decoder reads", "seed"))
                files.write_csv(f"{options.output}seeds.csv", over_seeds(rows))


def _write(output: str, rows: list[dict], added: list[dict], key: Callable[[dict], Any]) -> None:
    """Adds rows to the table, and to its JSON with the conditions under which they were made.

    They replace rows with the same keys, such as those of a training on several corpora that was interrupted.
    """
    keys = list(map(key, added))
    rows[:] = [row for row in rows if key(row) not in keys] + [{**row, "conditions": conditions()} for row in added]
    table = [{name: row[name] for name in row if name != "conditions"} for row in rows]
    standalone.write_table(output, table, {"rows": rows})


if __name__ == "__main__":
    flags.DEFINE_boolean("times", False, "Measure decode times in place of training.")
    flags.DEFINE_list("tasks", "copy", "Tasks: copy, multi30k, bible (1 verse, then 4, then 8 to an example).")
    flags.DEFINE_list(
        "models",
        "all states,windowed slots,stretch means,Perceiver latents",
        "What decoders read: these, slots without windows, a memory per layer, a memory per head.",
    )
    standalone.define_numbers("seeds", "1", "Seeds of weights and batches.")
    standalone.define_numbers("lengths", "25,50,100,200,400,800", "Source lengths of --times.")
    flags.DEFINE_string("output", "runs/results/transformer/", "Folder of the table, with a / at its end.")
    cli.run(main)
