"""One update of the weights from a global batch, on one replica or on several."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from memattn import xla
from memattn.data.batches import Batch
from memattn.data.sentences import PADDING
from memattn.data.vocabulary import PAD
from memattn.models.dropout import split_seed
from memattn.models.interface import Model
from memattn.models.seq2seq import Seq2Seq
from memattn.training.config import LOSSES, TrainingConfig, optimizer

# The scale of the loss in float16: its first value, upper bound, and the steps without an overflow until it is doubled.
_FIRST_SCALE, _LARGEST_SCALE, _RAISE_AFTER = 2.0**15, 2.0**24, 2_000


class UpdateResult(NamedTuple):
    """The results of an update."""

    loss: float  # cross-entropy, summed over the target tokens
    correct: float  # number of target tokens that had the highest logit
    tokens: float  # number of target tokens, without padding
    gradient_norm: float  # norm of all gradients together, before clipping

    @classmethod
    def read(cls, results: tf.Tensor) -> "UpdateResult":
        """Waits for an update, and reads its results [4]."""
        return cls(*results.numpy().tolist())

    @property
    def is_finite(self) -> bool:
        """Whether all results are finite; if not, the update was skipped."""
        return bool(np.isfinite(self).all())


class TrainingStep:
    """One update of the weights, from one global batch or several in turn.

    The loss is summed over all replicas and batches, and divided by the number of their target tokens. The gradients
    are summed likewise, then clipped together. An update whose loss or gradient is not finite is skipped. With a
    teacher, the loss also has the mean squared difference of their contexts, times a weight that falls to 0.

    In float16, the loss is scaled: an overflow halves the scale, but not below 1; 2,000 steps without an overflow
    double the scale. XLA compiles the decoder, on one replica the update, and on a CPU the loops of the encoder's
    LSTMs; on a GPU, the encoder runs cuDNN.

    Attributes:
      state: variables for checkpoints: float16's scale, and the steps since it last changed; [] in other precisions.
      jit_compile: whether XLA compiles the parts named above.
    """

    def __init__(
        self, model: Model, config: TrainingConfig, strategy: tf.distribute.Strategy, teacher: Seq2Seq | None = None
    ):
        self.model, self._config, self._strategy, self._teacher = model, config, strategy, teacher
        self._replicas = strategy.num_replicas_in_sync
        self._loss = LOSSES[config.loss]
        self.optimizer = optimizer(config)
        self.optimizer.build(model.trainable_variables)
        self._is_scaled = config.precision == "mixed_float16"
        # On a GPU machine, TensorFlow keeps int32 variables on the CPU, where XLA's functions cannot reach them.
        self.state = [tf.Variable(_FIRST_SCALE), tf.Variable(0, dtype=tf.int64)] if self._is_scaled else []
        self.jit_compile = jit = xla.jit_compile(config.jit_compile, model.compute_dtype)
        self._traced_decoder_gradients = tf.function(self._decoder_gradients, autograph=False, jit_compile=jit)
        self._traced_teacher_contexts = tf.function(self._teacher_contexts, autograph=False, jit_compile=jit)
        self._traced_gradients = tf.function(self._gradients, autograph=False)
        self._traced_apply = tf.function(self._apply, autograph=False, jit_compile=jit and self._replicas == 1)
        self._traced_add = tf.function(self._add, autograph=False)
        self._traced_update = tf.function(self._update, autograph=False)

    def __call__(self, batches: Sequence[Batch], step: int, learning_rate: float) -> tf.Tensor:
        """Starts an update from batches.

        Returns its results, without waiting for them: see `UpdateResult.read`.
        """
        self.optimizer.learning_rate.assign(np.float32(learning_rate))  # TensorFlow would cache every Python number
        tokens = tf.constant(np.float32(sum(np.count_nonzero(target != PAD) for _, target in batches)))
        teacher_weight = self._teacher_weight(step)
        first = step * len(batches)
        seeds = [tf.constant([self._config.seed, (first + i) % 2**31], tf.int32) for i in range(len(batches))]
        divided = [(self._divided(source), self._divided(target)) for source, target in batches]
        if len(batches) == 1:
            return self._traced_update(*divided[0], seeds[0], tokens, teacher_weight)
        total = None
        for batch, seed in zip(divided, seeds, strict=True):  # memory holds only the sum and one batch's gradients
            addend = self._traced_gradients(*batch, seed, tokens, teacher_weight)
            total = addend if total is None else self._traced_add(total, addend)
            del addend
        return self._traced_apply(total, tokens)

    def _teacher_weight(self, step: int) -> tf.Tensor | None:
        """Returns the weight of the teacher's contexts; None after `teacher_steps`: updates then skip the teacher."""
        if self._teacher is None:
            return None
        weight = self._config.teacher_weight * (1 - step / self._config.teacher_steps)
        return tf.constant(np.float32(weight)) if weight > 0 else None

    def _divided(self, rows: np.ndarray):
        """Divides the rows of sources or targets equally among the replicas, after adding rows of padding if needed."""
        if self._replicas == 1:
            return tf.constant(rows)
        missing = [(0, -len(rows) % self._replicas), *[(0, 0)] * (rows.ndim - 1)]
        parts = np.split(np.pad(rows, missing, constant_values=PADDING[rows.dtype.kind]), self._replicas)
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(parts[context.replica_id_in_sync_group])
        )

    def _update(self, source, target, seed, tokens, teacher_weight):
        return self._traced_apply(self._gradients(source, target, seed, tokens, teacher_weight), tokens)

    def _gradients(self, source, target, seed, tokens, teacher_weight):
        """Returns gradients and [summed loss, correct tokens] of each replica."""

        def on_replica(source, target):
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            replica_seed = tf.random.experimental.stateless_fold_in(seed, tf.convert_to_tensor(replica))
            return self._gradients_on_replica(source, target, replica_seed, tokens, teacher_weight)

        return self._strategy.run(on_replica, (source, target))

    def _gradients_on_replica(self, source, target, seed, tokens, teacher_weight):
        """Returns gradients and [summed loss, correct tokens]. Of all this, XLA compiles the decoder's part."""
        encoder_seed, decoder_seed = split_seed(seed, 2)
        teaching = None
        if teacher_weight is not None:
            teaching = self._traced_teacher_contexts(self._teacher.encode(source), target), teacher_weight
        with tf.GradientTape() as tape:
            encoded = self.model.encode(source, encoder_seed, self.jit_compile)
        encoded_gradients, decoder_parts, sums = self._traced_decoder_gradients(
            encoded, target, decoder_seed, tokens, teaching
        )
        # The chain rule, from what the decoder used of the encoded sources to the encoder's weights.
        pairs = zip(differentiable(encoded), encoded_gradients, strict=True)
        used = [(tensor, gradient) for tensor, gradient in pairs if gradient is not None]
        tensors, tensor_gradients = map(list, zip(*used, strict=True))
        encoder_parts = tape.gradient(tensors, self.model.trainable_variables, tensor_gradients)
        gradients, unused = [], []
        for weight, *parts in zip(self.model.trainable_variables, encoder_parts, decoder_parts, strict=True):
            addends = [tf.convert_to_tensor(part) for part in parts if part is not None]
            gradients.append(tf.add_n(addends or [tf.zeros_like(weight)]))
            if not addends:
                unused.append(getattr(weight, "path", weight.name))  # in Keras 2, the name is the path
        if unused:
            warnings.warn(f"weights that the loss does not depend on: {', '.join(unused)}", stacklevel=2)
        return gradients, sums

    def _decoder_gradients(self, encoded, target, seed, tokens, teaching):
        """Returns gradients for the tensors in `encoded` and for the weights, and [summed loss, correct tokens].

        Tensors and weights that the decoder does not use have None.
        """
        mask = tf.not_equal(target, PAD)
        with tf.GradientTape() as tape:
            tape.watch(differentiable(encoded))
            if teaching is None:
                logits = self.model.teacher_forced_logits(encoded, target, seed)
            else:
                logits, contexts = self.model.teacher_forced_logits_and_contexts(encoded, target, seed)
            logits = tf.cast(logits, tf.float32)
            objective, cross_entropy = self._loss(logits, target, mask, label_smoothing=self._config.label_smoothing)
            if teaching is not None:
                teacher_contexts, weight = teaching
                squares = tf.math.squared_difference(tf.cast(contexts, tf.float32), teacher_contexts)  # [B, T, D]
                objective += weight * tf.reduce_sum(tf.where(mask, tf.reduce_mean(squares, -1), 0.0))
            objective /= tokens
            if self._is_scaled:
                objective *= self.state[0]
        correct = mask & tf.equal(tf.argmax(logits, -1, tf.int32), target)
        sums = tf.stack([cross_entropy, tf.reduce_sum(tf.cast(correct, tf.float32))])
        sources = [differentiable(encoded), self.model.trainable_variables]
        return *tape.gradient(objective, sources), sums

    def _teacher_contexts(self, encoded, target):
        return tf.cast(self._teacher.teacher_forced_logits_and_contexts(encoded, target)[1], tf.float32)

    def _add(self, total, addend):
        """Adds gradients and sums of two batches, on each replica."""
        return self._strategy.run(lambda *both: tf.nest.map_structure(tf.add, *both), (total, addend))

    def _apply(self, total, tokens):
        """Adds `total`, gradients and sums, over all replicas, and updates each replica. Returns the results [4]."""
        clipped, sums, norm = self._strategy.run(self._reduce_and_clip, (total,))
        sums, norm = (self._strategy.experimental_local_results(value)[0] for value in (sums, norm))

        def apply_on_all():
            self._strategy.run(self._apply_on_replica, (clipped,))
            return tf.constant(0)

        finite = tf.math.is_finite(norm) & tf.reduce_all(tf.math.is_finite(sums))
        tf.cond(finite, apply_on_all, lambda: tf.constant(0))
        if self._is_scaled:
            # An overflow that a lower scale corrects is no bad step: its result is finite.
            norm = tf.where(finite | (self.state[0] <= 1), norm, 0.0)
            self._update_scale(finite)
        loss, correct = tf.unstack(sums)
        return tf.stack(UpdateResult(loss=loss, correct=correct, tokens=tokens, gradient_norm=norm))

    def _reduce_and_clip(self, total):
        """Returns clipped gradients, sums and the gradients' norm, over all replicas; runs on each."""
        # all_reduce needs the device of its tensors, which arguments of a tf.function lack.
        gradients, sums = tf.nest.map_structure(tf.identity, total)
        if self._replicas > 1:  # on one replica, all_reduce would only keep this graph in memory for good
            *gradients, sums = tf.distribute.get_replica_context().all_reduce("SUM", [*gradients, sums])
        if self._is_scaled:
            gradients = [gradient / self.state[0] for gradient in gradients]
        clipped, norm = tf.clip_by_global_norm(gradients, self._config.clip_norm)
        return clipped, sums, norm

    def _apply_on_replica(self, gradients):
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))

    def _update_scale(self, finite):
        scale, steps = self.state
        raised = finite & (steps + 1 >= _RAISE_AFTER)
        raised_scale, lowered_scale = tf.minimum(2 * scale, _LARGEST_SCALE), tf.maximum(scale / 2, 1.0)
        scale.assign(tf.where(finite, tf.where(raised, raised_scale, scale), lowered_scale))
        steps.assign(tf.where(finite & ~raised, steps + 1, 0))


def differentiable(encoded: Any) -> list[tf.Tensor]:
    """Returns the tensors of what a model encoded that can have gradients."""
    return [tensor for tensor in tf.nest.flatten(encoded) if tensor.dtype.is_floating]
