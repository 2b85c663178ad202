"""One update of the weights from a global batch, on one replica or on several."""

import numpy as np
import tensorflow as tf

from memattn import run
from memattn.config import ConfigError, TrainingConfig
from memattn.model import Seq2Seq
from memattn.vocab import PAD


class TrainingStep:
    """One update of the weights, on one replica or on several, from a global batch.

    The loss is the cross-entropy summed over all replicas, divided by the global batch's real target tokens; the
    gradients are summed over the replicas, then clipped together.
    """

    def __init__(self, model: Seq2Seq, config: TrainingConfig, strategy: tf.distribute.Strategy):
        self._model, self._config, self._strategy = model, config, strategy
        self._replicas = strategy.num_replicas_in_sync
        if config.batch_size % self._replicas:
            raise ConfigError(f"training.batch_size: must be a multiple of the {self._replicas} replicas")
        self.optimizer = tf.keras.optimizers.Adam(config.learning_rate)
        self.optimizer.build(model.trainable_variables)
        jit = run.jit_compile(config.jit_compile)
        self._gradients = tf.function(self._replica_gradients, autograph=False, jit_compile=jit)
        self._update = tf.function(self._global_update, autograph=False, jit_compile=jit and self._replicas == 1)

    def __call__(self, source: np.ndarray, target: np.ndarray, step: int) -> tf.Tensor:
        """Updates from ids [B, S] and [B, T]: [summed loss, correct tokens, tokens, gradient norm]."""
        tokens = np.float32(np.count_nonzero(target != PAD))
        seed = tf.constant([self._config.seed, step], tf.int32)
        return self._update(self._shared_out(source), self._shared_out(target), seed, tf.constant(tokens))

    def _shared_out(self, batch: np.ndarray):
        if self._replicas == 1:
            return tf.constant(batch)
        shares = np.split(batch, self._replicas)
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(shares[context.replica_id_in_sync_group])
        )

    def _global_update(self, source, target, seed, tokens):
        def replica_step(source, target):
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            return self._gradients(
                source, target, tf.random.experimental.stateless_fold_in(seed, tf.convert_to_tensor(replica)), tokens
            )

        sums, gradients = self._strategy.run(replica_step, (source, target))
        loss, correct = (self._strategy.reduce("SUM", value, axis=None) for value in sums)
        gradients = [self._strategy.reduce("SUM", gradient, axis=None) for gradient in gradients]
        gradients, norm = tf.clip_by_global_norm(gradients, self._config.clip_norm)
        self.optimizer.apply_gradients(zip(gradients, self._model.trainable_variables, strict=True))
        return tf.stack([loss, correct, tokens, norm])

    def _replica_gradients(self, source, target, seed, tokens):
        real = tf.not_equal(target, PAD)
        with tf.GradientTape() as tape:
            logits = self._model(source, target, seed)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits)
            loss = tf.reduce_sum(tf.where(real, losses, 0.0))
            mean = loss / tokens
        correct = real & tf.equal(tf.argmax(logits, -1, tf.int32), target)
        gradients = tape.gradient(mean, self._model.trainable_variables)
        return (loss, tf.reduce_sum(tf.cast(correct, tf.float32))), [tf.convert_to_tensor(g) for g in gradients]
