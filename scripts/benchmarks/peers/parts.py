"""The parts of memattn's training step, each as a function of its own that is compiled as in the step."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from memattn.config import TrainingConfig
from memattn.models.seq2seq import Seq2Seq
from memattn.training.config import cross_entropy
from memattn.training.step import TrainingStep, differentiable


def functions(
    model: Seq2Seq, step: TrainingStep, source: np.ndarray, target: np.ndarray
) -> dict[str, Callable[[], float]]:
    """Returns functions that do one part each, wait for its end, and return a finite number.

    The encoder's part includes the memory that attention makes of a source, the decoder's the output layer and the
    loss, and the optimizer's the clipping of gradients.
    """
    weights, seed = model.trainable_variables, tf.constant([1, 2], tf.int32)
    source_ids, target_ids = tf.constant(source), tf.constant(target)
    tokens = tf.constant(float(target.size))

    @tf.function(autograph=False)
    def encode():
        return model.encode(source_ids, seed, step.jit_compile)

    @tf.function(autograph=False)
    def encoder_gradients(gradients):
        with tf.GradientTape() as tape:
            encoded = model.encode(source_ids, seed, step.jit_compile)
        return _total(tape.gradient(differentiable(encoded), weights, gradients))

    def loss_of(logits):
        mask = tf.ones_like(target_ids, tf.bool)
        return cross_entropy(tf.cast(logits, tf.float32), target_ids, mask, label_smoothing=0.0).objective / tokens

    @tf.function(autograph=False, jit_compile=step.jit_compile)
    def decoder_loss(encoded):
        return loss_of(model.teacher_forced_logits(encoded, target_ids, seed))

    @tf.function(autograph=False, jit_compile=step.jit_compile)
    def decoder_gradients(encoded):
        with tf.GradientTape() as tape:
            tape.watch(differentiable(encoded))
            loss = loss_of(model.teacher_forced_logits(encoded, target_ids, seed))
        return _total(tf.nest.flatten(tape.gradient(loss, [differentiable(encoded), weights])))

    @tf.function(autograph=False, jit_compile=step.jit_compile)
    def apply(gradients):
        clipped, norm = tf.clip_by_global_norm(gradients, TrainingConfig().clip_norm)
        step.optimizer.apply_gradients(zip(clipped, weights, strict=True))
        return norm

    encoded = encode()
    ones = [tf.ones_like(tensor) / tf.cast(tokens, tensor.dtype) for tensor in differentiable(encoded)]
    small = [tf.fill(weight.shape, 1e-6) for weight in weights]
    return {
        "encoder": lambda: float(_total(differentiable(encode()))),
        "encoder and gradients": lambda: float(encoder_gradients(ones)),
        "decoder": lambda: float(decoder_loss(encoded)),
        "decoder and gradients": lambda: float(decoder_gradients(encoded)),
        "optimizer": lambda: float(apply(small)),
    }


def _total(tensors: list[tf.Tensor | None]) -> tf.Tensor:
    """Returns a number that depends on all tensors, so that TensorFlow computes each."""
    sums = [tf.reduce_sum(tf.convert_to_tensor(tensor)) for tensor in tensors if tensor is not None]
    return tf.add_n([tf.cast(value, tf.float32) for value in sums])
