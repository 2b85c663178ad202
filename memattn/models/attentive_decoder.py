"""The interface of decoders: what all of them share, and what the model calls."""

import tensorflow as tf

from memattn.attention import AttentionMechanism
from memattn.attention.configured import ConfiguredLayer
from memattn.attention.initializers import Initializer
from memattn.attention.ops import cast
from memattn.models.bridge import Cells
from memattn.models.dropout import split_seed
from memattn.models.stepper import Stepper, run_steps


class AttentiveDecoder(ConfiguredLayer):
    """A decoder that reads one context in each step from an attention mechanism.

    A decoder defines `_make_weights`, `gates`, `stepper` and `compute_output_shape`.

    Args:
      attention: the mechanism.
      units: width U of the state, and of the queries.
      dropout: rate on the inputs of cells, with a fresh mask in each step.
      initializer: name, config or object, of the weight matrices.
    """

    state_parts = 1
    """Number of tensors in the state of a layer."""
    default_bridge = "zero"
    """The bridge that `bridge: auto` chooses where there is attention."""

    def __init__(
        self,
        *,
        attention: AttentionMechanism,
        units: int,
        dropout: float = 0.0,
        initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.attention, self.units = attention, units
        self.dropout, self.initializer = dropout, initializer
        self._has_weights = False

    def build(self, inputs_shape, memory_shape=None):
        """Makes the weights for inputs [B, T, E] and a memory whose "values" are [B, M, D]."""
        if memory_shape is not None and not self._has_weights:  # Keras 2 passes only the first shape
            values_shape = memory_shape["values"]
            if not self.attention.built:
                self.attention.build((None, None, self.units), values_shape)
            self._make_weights(inputs_shape[-1], self.attention.context_size(values_shape[-1]))
            self._has_weights = True
        self.built = True

    def _make_weights(self, width: int, context_size: int) -> None:
        """Makes the weights for inputs of a width E and contexts of a width D."""
        raise NotImplementedError

    def gates(self, inputs: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns what inputs [..., E] contribute to the gates of a step [..., G], biases included."""
        raise NotImplementedError

    def stepper(self, memory: dict[str, tf.Tensor], *, fold: bool = False) -> Stepper:
        """Does the work that all steps over one memory share; returns the stepper that runs single steps.

        `fold` is for searches, which have no dropout: what the mechanism's `for_search` returns computes the scores,
        and the memory is folded if that saves work (see `FoldedReader`).
        """
        raise NotImplementedError

    def call(
        self, inputs: tf.Tensor, cells: Cells, memory: dict[str, tf.Tensor], seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs all steps under teacher forcing, from the state `cells`, for inputs [B, T, E].

        Returns the inputs of the output layer [B, T, F], and scores [B, T, M] of the memory's values.
        """
        if not self._has_weights:
            self.build(inputs.shape, {"values": memory["values"].shape})
        stepper = self.stepper(memory)
        outputs, contexts, scores = self._unroll(inputs, cells, stepper, seed)
        return stepper.read_out(outputs, contexts), scores

    def _unroll(
        self, inputs: tf.Tensor, cells: Cells, stepper: Stepper, seed: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Runs step after step; returns outputs and contexts for `Stepper.read_out`, and scores [B, T, M]."""
        inputs_seed, step_seed = split_seed(seed, 2)
        return run_steps(stepper, self.gates(inputs, inputs_seed), cells, step_seed)

    def _cast(self, weight) -> tf.Tensor:
        return cast(weight, self.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "attention": tf.keras.layers.serialize(self.attention)}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "attention": tf.keras.layers.deserialize(config["attention"])})
