"""One update of the weights from a global batch, on one replica or on several."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from memattn import xla
from memattn.config import TrainingConfig
from memattn.data.vocabulary import PAD
from memattn.models.dropout import split_seed
from memattn.models.interface import Model
from memattn.models.seq2seq import Encoded, Seq2Seq
from memattn.training.loss import LOSSES, context_distance
from memattn.training.optimizers import optimizer

_FIRST_SCALE, _LARGEST_SCALE, _RAISE_AFTER = 2.0**15, 2.0**24, 2_000  # of float16's loss; steps


class StepResult(NamedTuple):
    """The results of an update.

    Attributes:
      loss: cross-entropy, summed over the target tokens.
      correct: target tokens that had the highest logit.
      tokens: target tokens, without padding.
      gradient_norm: norm of all gradients together, before clipping.
    """

    loss: float
    correct: float
    tokens: float
    gradient_norm: float

    @classmethod
    def read(cls, results: tf.Tensor) -> "StepResult":
        """Waits for an update, and names its results [4]."""
        return cls(*results.numpy().tolist())

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self).all())


class TrainingStep:
    """One update of the weights, on one replica or on several, from one global batch or several in turn.

    The loss (`loss.py`) is summed over all replicas and batches, and divided by their target tokens; the gradients are
    summed likewise, then clipped together. Updates with NaN or infinite loss or gradients are skipped.
    float16 uses dynamic loss scaling: halved on overflow but never below 1, doubled after 2,000 steps without one.
    XLA compiles the decoder and, on one replica, the update, but not the encoder, where TensorFlow's own kernels (on
    GPUs, cuDNN's) are faster.

    With a teacher, the distance between the contexts of student and teacher is added to the loss, times a weight that
    falls to 0.

    Attributes:
      model: the model that is trained.
      optimizer: of Keras, as the config names it.
      state: for checkpoints: float16's loss scale, and the steps since it last changed.
      jit_compile: whether XLA compiles.
    """

    def __init__(
        self, model: Model, config: TrainingConfig, strategy: tf.distribute.Strategy, teacher: Seq2Seq | None = None
    ):
        self.model, self._config, self._strategy, self._teacher = model, config, strategy, teacher
        self._replicas = strategy.num_replicas_in_sync
        self._loss = LOSSES[config.loss]
        self.optimizer = optimizer(config)
        self.optimizer.build(model.trainable_variables)
        self._scaled = config.precision == "mixed_float16"
        self.state = [tf.Variable(_FIRST_SCALE), tf.Variable(0)] if self._scaled else []
        self.jit_compile = jit = xla.jit_compile(config.jit_compile, model.compute_dtype)
        self._of_decoder = tf.function(self._decoder_gradients, autograph=False, jit_compile=jit)
        self._of_teacher = tf.function(self._teacher_reads, autograph=False, jit_compile=jit)
        self._gradients = tf.function(self._of_each_replica, autograph=False)
        self._apply = tf.function(self._reduce_and_apply, autograph=False, jit_compile=jit and self._replicas == 1)
        self._sum = tf.function(self._added, autograph=False)
        self._update = tf.function(self._gradients_and_apply, autograph=False)

    def __call__(self, batches: list[tuple[np.ndarray, np.ndarray]], step: int, learning_rate: float) -> tf.Tensor:
        """Updates from batches of ids [B, S] and [B, T]; returns the results, not waited for: see `StepResult.read`."""
        self.optimizer.learning_rate.assign(np.float32(learning_rate))  # TensorFlow would cache every Python number
        tokens = tf.constant(np.float32(sum(np.count_nonzero(target != PAD) for _, target in batches)))
        shared = [(self._shared_out(source), self._shared_out(target)) for source, target in batches]
        pull = None
        if self._teacher and (weight := self._config.teacher_weight * (1 - step / self._config.teacher_steps)) > 0:
            pull = tf.constant(np.float32(weight))  # else a graph without the teacher
        first = step * len(batches)
        seeds = [tf.constant([self._config.seed, (first + i) % 2**31], tf.int32) for i in range(len(batches))]
        if len(batches) == 1:
            return self._update(*shared[0], seeds[0], tokens, pull)
        total = None
        for batch, seed in zip(shared, seeds, strict=True):  # only the sum so far is kept
            addend = self._gradients(*batch, seed, tokens, pull)
            total = addend if total is None else self._sum(total, addend)
            del addend
        return self._apply(total, tokens)

    def _shared_out(self, batch: np.ndarray):
        if self._replicas == 1:
            return tf.constant(batch)
        rows = -len(batch) % self._replicas  # of padding, for equal shares
        shares = np.split(np.pad(batch, [(0, rows), (0, 0)], constant_values=PAD), self._replicas)
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(shares[context.replica_id_in_sync_group])
        )

    def _gradients_and_apply(self, source, target, seed, tokens, pull):
        return self._apply(self._of_each_replica(source, target, seed, tokens, pull), tokens)

    def _of_each_replica(self, source, target, seed, tokens, pull):
        """Gradients and [summed loss, correct tokens] of each replica."""

        def replica_step(source, target):
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            own_seed = tf.random.experimental.stateless_fold_in(seed, tf.convert_to_tensor(replica))
            return self._one_replica(source, target, own_seed, tokens, pull)

        return self._strategy.run(replica_step, (source, target))

    def _one_replica(self, source, target, seed, tokens, pull):
        encoder_seed, decoder_seed = split_seed(seed, 2)
        taught = None if pull is None else (self._of_teacher(self._teacher.encode(source), target), pull)
        with tf.GradientTape() as tape:
            encoded = self.model.encode(source, encoder_seed)
        of_encoded, of_decoder, sums = self._of_decoder(encoded, target, decoder_seed, tokens, taught)
        read = [pair for pair in zip(_differentiable(encoded), of_encoded, strict=True) if pair[1] is not None]
        tensors, gradients = map(list, zip(*read, strict=True))
        of_encoder = tape.gradient(tensors, self.model.trainable_variables, gradients)
        parts = zip(of_encoder, of_decoder, strict=True)
        return [tf.add_n([tf.convert_to_tensor(part) for part in own if part is not None]) for own in parts], sums

    def _decoder_gradients(self, encoded, target, seed, tokens, taught):
        """Gradients for the encoder's output and the weights (None for unused ones), and [summed loss, correct].

        `taught` is what the teacher reads [B, T, D], and the weight of the distance from it; or None.
        """
        real = tf.not_equal(target, PAD)
        with tf.GradientTape() as tape:
            tape.watch(_differentiable(encoded))
            if taught is None:
                logits = self.model.decode(encoded, target, seed)
            else:
                logits, read = self.model.decode_and_read(encoded, target, seed)
            logits = tf.cast(logits, tf.float32)
            objective, cross_entropy = self._loss(logits, target, real, label_smoothing=self._config.label_smoothing)
            if taught is not None:
                contexts, pull = taught
                objective += pull * context_distance(read, contexts, real)
            objective /= tokens
            if self._scaled:
                objective *= self.state[0]
        correct = real & tf.equal(tf.argmax(logits, -1, tf.int32), target)
        sums = tf.stack([cross_entropy, tf.reduce_sum(tf.cast(correct, tf.float32))])
        sources = [_differentiable(encoded), self.model.trainable_variables]
        return *tape.gradient(objective, sources), sums

    def _teacher_reads(self, encoded, target):
        return tf.cast(self._teacher.decode_and_read(encoded, target)[1], tf.float32)

    def _added(self, total, addend):
        """Gradients and sums of two batches, added on each replica."""
        return self._strategy.run(lambda *both: tf.nest.map_structure(tf.add, *both), (total, addend))

    def _reduce_and_apply(self, total, tokens):
        """Updates each replica with gradients and sums, added over all replicas."""
        clipped, sums, norm = self._strategy.run(self._reduce_and_clip, (total,))
        sums, norm = (self._strategy.experimental_local_results(value)[0] for value in (sums, norm))

        def apply():
            self._strategy.run(self._apply_on_replica, (clipped,))
            return tf.constant(0)

        finite = tf.math.is_finite(norm) & tf.reduce_all(tf.math.is_finite(sums))
        tf.cond(finite, apply, lambda: tf.constant(0))
        if self._scaled:
            norm = tf.where(finite | (self.state[0] <= 1), norm, 0.0)  # a lower scale corrects an overflow
            self._next_scale(finite)
        loss, correct = tf.unstack(sums)
        return tf.stack(StepResult(loss=loss, correct=correct, tokens=tokens, gradient_norm=norm))

    def _apply_on_replica(self, gradients):
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))

    def _reduce_and_clip(self, total):
        """On a replica: clipped gradients, sums and the gradients' norm, over all replicas."""
        # all_reduce needs the device of its tensors, which arguments of a tf.function lack.
        gradients, sums = tf.nest.map_structure(tf.identity, total)
        if self._replicas > 1:  # on one, all_reduce would do nothing but keep this graph for good
            *gradients, sums = tf.distribute.get_replica_context().all_reduce("SUM", [*gradients, sums])
        if self._scaled:
            gradients = [gradient / self.state[0] for gradient in gradients]
        clipped, norm = tf.clip_by_global_norm(gradients, self._config.clip_norm)
        return clipped, sums, norm

    def _next_scale(self, finite):
        scale, steps = self.state
        raised = finite & (steps + 1 >= _RAISE_AFTER)
        lowered = tf.maximum(scale / 2, 1.0)
        scale.assign(tf.where(finite, tf.where(raised, tf.minimum(2 * scale, _LARGEST_SCALE), scale), lowered))
        steps.assign(tf.where(finite & ~raised, steps + 1, 0))


def _differentiable(encoded: Encoded) -> list[tf.Tensor]:
    return [tensor for tensor in tf.nest.flatten(encoded) if tensor.dtype.is_floating]
