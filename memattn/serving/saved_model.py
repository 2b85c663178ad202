"""Exports a trained model with its search as TensorFlow's SavedModel, which runs without memattn."""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from memattn import files, xla
from memattn.data.vocabulary import EOS, PAD, UNK
from memattn.runs.checkpoints import tensorflow_variable
from memattn.runs.trained import Trained
from memattn.search.searcher import Searcher
from memattn.search.translation import Hypotheses
from memattn.serving import exporting

EXTRA = "assets.extra"
_NO_TOKEN = ""  # pads tensors of tokens


def export(trained: Trained, folder: str) -> None:
    """Writes a SavedModel as a new folder, which appears when it is complete. Raises ConfigError, OSError."""
    new_folder = exporting.new_folder(trained, folder, EXTRA)
    with new_folder as unfinished, files.naming(unfinished), xla.portable():
        module = _Module(trained)
        tf.saved_model.save(module, unfinished, module.signatures())


def _padded_widths(longest: int) -> list[int]:
    """Returns 8, 12, 16, 24, 32, 48 and so on, up to the first width of at least `longest`."""
    widths = [8]
    while widths[-1] < longest:
        widths.append(widths[-1] * 3 // 2 if len(widths) % 2 else widths[-1] * 4 // 3)
    return widths


class _Module(tf.Module):
    """The functions of a SavedModel. There is a graph for each padded width; the batch size is free."""

    def __init__(self, trained: Trained):
        super().__init__()
        self._searcher = Searcher(trained.model, trained.config.decoding)
        self._longest, self._widths = trained.max_source_length, _padded_widths(trained.max_source_length + 1)
        self._model = trained.model
        # TensorFlow saves the variables that it finds in attributes.
        self.weights = [tensorflow_variable(weight) for model in trained.models for weight in model.weights]
        self.token_table = [
            tf.Variable(tensor, trainable=False) for tensor in tf.nest.flatten(self._searcher.token_table)
        ]
        ids = trained.vocabulary.ids
        table = tf.lookup.KeyValueTensorInitializer(list(ids), tf.constant(list(ids.values()), tf.int32))
        self.ids_of = tf.lookup.StaticHashTable(table, UNK)
        self._tokens = tf.constant(trained.vocabulary.tokens)

    def signatures(self) -> dict[str, Any]:
        """Returns the functions by name.

        Tokens are padded with empty strings, ids with PAD after the end of sentence.
        """
        tokens, ids = (tf.TensorSpec([None, None], dtype, "source") for dtype in (tf.string, tf.int32))
        methods: dict[str, tuple[Callable[..., dict[str, tf.Tensor]], list[tf.TensorSpec]]] = {
            "serving_default": (self._translate, [tokens]),
            "search": (self._search, [ids]),
        }
        if self._searcher.has_alignments:
            target = tf.TensorSpec([None, None], tf.int32, "target")
            methods["translate_and_align"] = (self._translate_and_align, [tokens])
            methods["align"] = (self._align, [ids, target])
        return {name: tf.function(method, specs, autograph=False) for name, (method, specs) in methods.items()}

    def _search(self, source: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns hypotheses of source ids [B, S]."""
        present = _leading(tf.not_equal(source, PAD))
        lengths = tf.reduce_sum(tf.cast(present, tf.int32), 1) - 1  # without the end of sentence
        check = tf.debugging.assert_less_equal(lengths, self._longest, f"a source has more than {self._longest} tokens")
        source = tf.where(present, source, PAD)[:, : self._widths[-1]]
        source_width = tf.shape(source)[1]
        token_table = tf.nest.pack_sequence_as(
            self._searcher.token_table, [tf.convert_to_tensor(variable) for variable in self.token_table]
        )

        def search_padded(width: int) -> tuple[tf.Tensor, ...]:
            padded = tf.pad(source, [[0, 0], [0, width - source_width]], constant_values=PAD)
            return tuple(self._searcher.search(tf.ensure_shape(padded, [None, width]), token_table))

        with tf.control_dependencies([check]):
            index = tf.reduce_sum(tf.cast(source_width > self._widths, tf.int32))  # place of the least sufficient width
            results = tf.switch_case(index, [functools.partial(search_padded, width) for width in self._widths])
        return Hypotheses(*results)._asdict()

    def _align(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns weights of source positions [B, T, S] at each step of target ids [B, T], for source ids [B, S]."""
        return {"alignments": self._model.alignments(source, target)}

    def _translate(self, source: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns hypotheses of source tokens [B, S], as tokens."""
        hypotheses = self._search(self._ids(source))
        return {**hypotheses, "tokens": self._words(hypotheses)}

    def _translate_and_align(self, source: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns hypotheses of source tokens [B, S], as tokens, and their attention weights [B, n, L, S + 1].

        The last position of a source is its end of sentence.
        """
        ids = self._ids(source)
        hypotheses = self._search(ids)
        batch, n_best, steps = tf.unstack(tf.shape(hypotheses["tokens"]))
        targets = tf.reshape(hypotheses["tokens"], [batch * n_best, steps])
        weights = self._align(tf.repeat(ids, n_best, 0), targets)["alignments"]
        weights = tf.reshape(weights, [batch, n_best, steps, tf.shape(ids)[1]])
        return {**hypotheses, "tokens": self._words(hypotheses), "alignments": weights}

    def _ids(self, source: tf.Tensor) -> tf.Tensor:
        """Returns ids [B, S + 1] of tokens [B, S], with the end of sentence."""
        present = _leading(tf.not_equal(source, _NO_TOKEN))
        ids = tf.pad(tf.where(present, self.ids_of.lookup(source), PAD), [[0, 0], [0, 1]], constant_values=PAD)
        lengths = tf.reduce_sum(tf.cast(present, tf.int32), 1)
        return tf.where(tf.range(tf.shape(ids)[1]) == lengths[:, None], EOS, ids)

    def _words(self, hypotheses: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns the tokens [B, n, L] of hypotheses."""
        within = tf.range(tf.shape(hypotheses["tokens"])[2]) < hypotheses["lengths"][:, :, None]
        return tf.where(within, tf.gather(self._tokens, hypotheses["tokens"]), _NO_TOKEN)


def _leading(present: tf.Tensor) -> tf.Tensor:
    """Returns bool [B, S]: true before the first position of each row at which `present` [B, S] is false."""
    return tf.cast(tf.math.cumprod(tf.cast(present, tf.int32), 1), tf.bool)
