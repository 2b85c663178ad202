"""Readers of contexts from a memory: plain ones, and folded ones that save work in a search.

A context c = scores @ values (Eqs. 1 and 6) is then multiplied by two matrices: one for the cell's input (of the next
step with input feeding, of this step in RNNsearch), one for the output layer. All of this is linear, so a folded reader
multiplies the values by both matrices once per source.
"""

import tensorflow as tf

from memattn.attention import sparse
from memattn.attention.sparse import SparseScores
from memattn.models.dropout import dropout


class Reader:
    """Reads contexts c = scores @ values, and multiplies them by two kernels.

    Args:
      values: [B, M, D].
      feed_kernel: [D, G], for the cell's input; None without input feeding.
      mix_kernel: [D, F], for the output layer; None passes a context on as it is.
      rate: dropout rate of the contexts in the cell's input.

    Attributes:
      width: width of what `read` returns for `feed`.
    """

    def __init__(
        self, values: tf.Tensor, feed_kernel: tf.Tensor | None, mix_kernel: tf.Tensor | None, rate: float = 0.0
    ):
        self._values, self._feed_kernel, self._mix_kernel, self._rate = values, feed_kernel, mix_kernel, rate
        self.width = 0 if feed_kernel is None else feed_kernel.shape[0]

    def read(self, scores: tf.Tensor | SparseScores) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads by scores [B, Q, M]; returns the inputs of `feed` and of `mix`."""
        return self._parts(sparse.contexts(scores, self._values))

    def _parts(self, contexts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return contexts[:, :, : self.width], contexts

    def feed(self, gates: tf.Tensor, fed: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:
        """Adds to gates [B, Q, G] what the contexts in the cell's input contribute."""
        return gates + tf.tensordot(dropout(fed, self._rate, seed), self._feed_kernel, 1) if self.width else gates

    def mix(self, contexts: tf.Tensor) -> tf.Tensor:
        """Returns what contexts contribute to the input of the output layer [B, Q, F]."""
        return contexts if self._mix_kernel is None else tf.tensordot(contexts, self._mix_kernel, 1)


class FoldedReader(Reader):
    """Computes scores @ (values @ kernels) in place of (scores @ values) @ kernels; there is no dropout.

    A query takes M * (G + F) multiply-adds instead of M * D + D * (G + F). Folding pays if many queries share the
    values.
    """

    def __init__(self, values: tf.Tensor, feed_kernel: tf.Tensor | None, mix_kernel: tf.Tensor | None):
        super().__init__(values, feed_kernel, mix_kernel)
        for_feed = values[:, :, :0] if feed_kernel is None else tf.tensordot(values, feed_kernel, 1)
        self.width = for_feed.shape[-1]
        self._values = tf.concat([for_feed, super().mix(values)], -1)  # [B, M, G + F]

    def _parts(self, contexts):
        return contexts[:, :, : self.width], contexts[:, :, self.width :]

    def feed(self, gates, fed, seed):
        del seed
        return gates + fed if self.width else gates

    def mix(self, contexts):
        return contexts


def make_reader(
    values: tf.Tensor, feed_kernel: tf.Tensor | None, mix_kernel: tf.Tensor | None, rate: float, *, fold: bool
) -> Reader:
    """Returns a reader of values [B, M, D]; the arguments are those of `Reader`.

    `fold`, for a search without dropout, returns a folded reader if that takes fewer multiply-adds per query.
    """
    if fold and folding_pays(values.shape[1], values.shape[2], feed_kernel, mix_kernel):
        return FoldedReader(values, feed_kernel, mix_kernel)
    return Reader(values, feed_kernel, mix_kernel, rate=rate)


def folding_pays(
    num_values: int | None, width: int, feed_kernel: tf.Tensor | None, mix_kernel: tf.Tensor | None
) -> bool:
    """Returns whether a query takes fewer multiply-adds with M = `num_values` folded values than with plain ones.

    `width` is D. An unknown number of values is not folded.
    """
    if num_values is None:
        return False
    feed_width, mix_width = (0 if kernel is None else kernel.shape[1] for kernel in (feed_kernel, mix_kernel))
    folded_width = feed_width + (width if mix_kernel is None else mix_width)
    return num_values * folded_width < num_values * width + width * (feed_width + mix_width)
