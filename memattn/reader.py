"""How a decoder reads contexts from a memory: as they are, or folded through the matrices that would multiply them."""

import tensorflow as tf

from memattn.dropout import dropout


class Reader:
    """Reads contexts c = scores @ values (Eqs. 1 and 6) as they are.

    Args:
      values: [B, M, D].
      feed_kernel: [D, G], what multiplies a context that is fed to the next step; None without input feeding.
      mix_kernel: [D, F], what multiplies it on its way to the output layer; None leaves it as it is.
      rate: dropout on the contexts that are fed.

    Attributes:
      width: of what `read` hands to the next step.
    """

    def __init__(
        self,
        values: tf.Tensor,
        feed_kernel: tf.Tensor | None,
        mix_kernel: tf.Tensor | None,
        rate: float = 0.0,
    ):
        self._values, self._feed_kernel, self._mix_kernel, self._rate = values, feed_kernel, mix_kernel, rate
        self.width = 0 if feed_kernel is None else feed_kernel.shape[0]

    def read(self, scores: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """What scores [B, Q, M] read: [B, Q, width] for `feed` in the next step, and what `mix` takes in this one."""
        contexts = tf.matmul(scores, self._values)
        return contexts[:, :, : self.width], contexts

    def feed(self, gates: tf.Tensor, fed: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:
        """Gates [B, Q, 4U] and what the contexts of the step before add to them."""
        return gates + tf.tensordot(dropout(fed, self._rate, seed), self._feed_kernel, 1) if self.width else gates

    def mix(self, contexts: tf.Tensor) -> tf.Tensor:
        """What contexts add to the output layer's input [B, Q, F]."""
        return contexts if self._mix_kernel is None else tf.tensordot(contexts, self._mix_kernel, 1)


class FoldedReader(Reader):
    """Reads scores @ (values @ kernels) in place of (scores @ values) @ kernels; its `width` is G.

    That is M * (G + F) multiply-adds a query in place of M * D + D * (G + F), and pays where many queries share values.
    """

    def __init__(self, values: tf.Tensor, feed_kernel: tf.Tensor | None, mix_kernel: tf.Tensor | None):
        super().__init__(values, feed_kernel, mix_kernel)
        fed = values[:, :, :0] if feed_kernel is None else tf.tensordot(values, feed_kernel, 1)
        self.width = fed.shape[-1]
        self._values = tf.concat([fed, super().mix(values)], -1)  # [B, M, G + F]

    def read(self, scores):
        contexts = tf.matmul(scores, self._values)
        return contexts[:, :, : self.width], contexts[:, :, self.width :]

    def feed(self, gates, fed, seed):
        del seed
        return gates + fed if self.width else gates

    def mix(self, contexts):
        return contexts
