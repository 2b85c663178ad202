"""The decoder: its state, one step, and the same step over a whole target."""

import tensorflow as tf

from memattn.attention import AttentionMechanism
from memattn.attention.initializers import Initializer, initializer_config, initializer_of
from memattn.attention.ops import cast
from memattn.models.dropout import dropout, split
from memattn.models.stepper import LSTMStepper, make_reader, run_steps


@tf.keras.utils.register_keras_serializable("memattn")
class Decoder(tf.keras.layers.Layer):
    """A stack of LSTM cells that reads one context per step from an attention mechanism.

    The query is the top cell's output of the same step (h of Eq. 7).

    Args:
      attention: the mechanism.
      layers, units: of the LSTM stack.
      dropout: rate on the input of every cell, a fresh mask each time step.
      input_feeding: concatenate the previous step's context to the input.
      mix: give tanh(W [h; c]), U wide, to the output layer; False gives it [h; c] as in Eq. 3.
      initializer: name, config or object, of the weight matrices.
    """

    def __init__(
        self,
        *,
        attention: AttentionMechanism,
        layers: int,
        units: int,
        dropout: float = 0.0,
        input_feeding: bool = True,
        mix: bool = True,
        initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.attention = attention
        self.layers, self.units, self.dropout = layers, units, dropout
        self.input_feeding, self.mix, self.initializer = input_feeding, mix, initializer
        self.stack = [
            # Not Keras' LSTM: on a GPU it becomes a cuDNN operation, which XLA cannot compile.
            tf.keras.layers.RNN(
                tf.keras.layers.LSTMCell(
                    units,
                    kernel_initializer=initializer_of(f"lstm_{i}/kernel", initializer),
                    recurrent_initializer=initializer_of(f"lstm_{i}/recurrent_kernel", initializer),
                    dtype=self.dtype_policy,
                ),
                return_sequences=True,
                dtype=self.dtype_policy,
                name=f"lstm_{i}",
            )
            for i in range(layers)
        ]
        self.mixing_layer = (
            tf.keras.layers.Dense(
                units,
                activation="tanh",
                kernel_initializer=initializer_of("mix", initializer),
                dtype=self.dtype_policy,
                name="mix",
            )
            if mix
            else None
        )

    def gates(self, inputs: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """What inputs [..., E] add to the gates of the first cell [..., 4U], including its bias."""
        cell = self.stack[0].cell
        kernel, bias = self._cast(cell.kernel)[: inputs.shape[-1]], self._cast(cell.bias)
        return tf.tensordot(dropout(inputs, self.dropout, seed), kernel, 1) + bias

    def stepper(self, memory: dict[str, tf.Tensor], *, fold: bool = False) -> LSTMStepper:
        """The steps that read one memory; their shared work is done here.

        `fold` is for searches: values are folded if that takes fewer multiply-adds per step, and scores come from what
        the mechanism has for searches. There is then no dropout.
        """
        first, *upper = [lstm.cell for lstm in self.stack]
        kernel, width = self._cast(first.kernel), memory["values"].shape[2]
        feed_kernel = kernel[kernel.shape[0] - width :] if self.input_feeding else None
        mix_kernel, mix_bias = map(self._cast, self.mixing_layer.weights) if self.mix else (None, None)
        kernels = feed_kernel, mix_kernel[self.units :] if self.mix else None
        return LSTMStepper(
            attention=self.attention.for_search() if fold else self.attention,
            memory=memory,
            reader=make_reader(memory["values"], *kernels, self.dropout, fold=fold),
            recurrent_kernel=self._cast(first.recurrent_kernel),
            upper=[
                (tf.concat([self._cast(cell.kernel), self._cast(cell.recurrent_kernel)], 0), self._cast(cell.bias))
                for cell in upper
            ],
            mix=(mix_kernel[: self.units], mix_bias) if self.mix else None,
            dropout=self.dropout,
        )

    def build(self, inputs_shape, memory_shape=None):
        """Makes the weights for inputs [B, T, E] and a memory whose "values" are [B, M, D]."""
        if memory_shape is not None:  # Keras 2 passes only the first shape
            values_shape = memory_shape["values"]
            if not self.attention.built:
                self.attention.build((None, None, self.units), values_shape)
            context_size = self.attention.context_size(values_shape[-1])
            width = inputs_shape[-1] + context_size * self.input_feeding
            for lstm in self.stack:
                lstm.build((None, None, width))
                width = self.units
            if self.mix:
                self.mixing_layer.build((None, self.units + context_size))
        self.built = True

    def compute_output_shape(self, inputs_shape, memory_shape, **_):
        context_size = self.attention.context_size(memory_shape["values"][-1])
        features = self.units if self.mix else self.units + context_size
        return (*inputs_shape[:-1], features), (*inputs_shape[:-1], memory_shape["values"][1])

    def call(
        self, inputs: tf.Tensor, cells: list, memory: dict[str, tf.Tensor], seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """All steps of inputs [B, T, E] under teacher forcing: features for the output layer, scores [B, T, M]."""
        if not self.stack[0].built:
            self.build(inputs.shape, {"values": memory["values"].shape})
        recurrent = bool(tf.nest.flatten(self.attention.initial_state(memory, 1)))
        unroll = self._unroll_steps if self.input_feeding or recurrent else self._unroll_layers
        stepper = self.stepper(memory)
        outputs, contexts, scores = unroll(inputs, cells, stepper, seed)
        return stepper.read_out(outputs, contexts), scores

    def _unroll_steps(self, inputs, cells, stepper, seed):
        """Step by step: a step needs the context or the attention's state of the previous one."""
        inputs_seed, step_seed = split(seed, 2)
        return run_steps(stepper, self.gates(inputs, inputs_seed), cells, step_seed)

    def _unroll_layers(self, inputs, cells, stepper, seed):
        """Layer by layer, for independent steps: all queries read the memory in one product."""
        outputs = inputs
        for lstm, cell, layer_seed in zip(self.stack, cells, split(seed, self.layers), strict=True):
            outputs = lstm(dropout(outputs, self.dropout, layer_seed), initial_state=list(cell))
        scores, _, contexts, _ = stepper.read(outputs, (), seed)
        return outputs, contexts, scores

    def _cast(self, weight) -> tf.Tensor:
        return cast(weight, self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "attention": tf.keras.layers.serialize(self.attention),
            "layers": self.layers,
            "units": self.units,
            "dropout": self.dropout,
            "input_feeding": self.input_feeding,
            "mix": self.mix,
            "initializer": initializer_config(self.initializer),
        }

    @classmethod
    def from_config(cls, config):
        attention = config.pop("attention")
        return cls(attention=tf.keras.layers.deserialize(attention), **config)
