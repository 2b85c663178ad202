"""The devices that training runs on: one, several of a machine, or those of several machines."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from memattn.errors import ConfigError, LostWorkerError, reason

Strategy = tf.distribute.Strategy
_ASK_EVERY = 10  # steps
# What TensorFlow raises, some seconds after a worker has ended, in those that wait for it.
_LOST_WORKER = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)


def several_machines() -> Strategy:
    """Of this process and the others that TF_CONFIG names, or that Slurm started with it.

    Raises ConfigError where none are named, LostWorkerError where one does not come.
    """
    has_gpus = bool(tf.config.list_physical_devices("GPU"))
    transport = tf.distribute.experimental.CommunicationImplementation
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=transport.NCCL if has_gpus else transport.AUTO  # left to itself, TensorFlow takes gRPC
    )
    try:
        if "TF_CONFIG" in os.environ:
            resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        else:
            resolver = tf.distribute.cluster_resolver.SlurmClusterResolver()
        if not resolver.cluster_spec().jobs:
            raise ValueError("there is no cluster")
        if resolver.task_id == 0:
            print("waiting for the other workers", flush=True)
        return tf.distribute.MultiWorkerMirroredStrategy(resolver, options)
    except (ValueError, KeyError, RuntimeError, TypeError, AttributeError) as error:
        raise ConfigError(f"--strategy multi_worker: what TF_CONFIG or Slurm says of the workers: {error}") from error
    except _LOST_WORKER as error:
        raise LostWorkerError(f"--strategy multi_worker: a worker does not come: {reason(error)}") from error


def _auto() -> Strategy:
    """All workers of TF_CONFIG where it names several, else all GPUs where there are several. Raises ConfigError."""
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {})
        several = sum(len(cluster.get(job, [])) for job in ("chief", "worker")) > 1
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f"TF_CONFIG: not JSON as TensorFlow wants it: {error}") from error
    if several:
        return several_machines()
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "none": tf.distribute.get_strategy,
    "mirrored": tf.distribute.MirroredStrategy,
    "multi_worker": several_machines,
    "auto": _auto,
}


def is_chief(strategy: Strategy) -> bool:
    """Whether this process writes the run folder: of several workers the one called chief, or the first."""
    if not has_several_workers(strategy):
        return True
    resolver = strategy.cluster_resolver
    first = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
    return (resolver.task_type, resolver.task_id) == (first, 0)


@contextlib.contextmanager
def losing_workers(strategy: Strategy, run_dir: str) -> Iterator[None]:
    """Raises LostWorkerError for what TensorFlow raises from within where another worker has ended."""
    try:
        yield
    except _LOST_WORKER as error:
        if not has_several_workers(strategy):
            raise
        raise LostWorkerError(
            f"{run_dir}: another worker is lost; start all again: they go on where they were ({reason(error)})"
        ) from error


def of_chief(strategy: Strategy, values: list[float]) -> list[float]:
    """The chief's values, on each worker, once all have come here."""
    if not has_several_workers(strategy):
        return values
    zeros = [0.0] * len(values)
    return _sum(strategy, lambda context: zeros if context.replica_id_in_sync_group else values).tolist()


def any_worker(strategy: Strategy, fact: bool, step: int) -> bool:
    """Whether it is so on any worker, which several ask each other at every tenth step only: it takes time."""
    if not has_several_workers(strategy):
        return fact
    return step % _ASK_EVERY == 0 and bool(_sum(strategy, lambda _: float(fact)) > 0)


def _sum(strategy: Strategy, value: Callable[[tf.distribute.experimental.ValueContext], Any]) -> np.ndarray:
    """Over all replicas of all workers."""
    shared = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(value(context), tf.float64)
    )
    return strategy.reduce("SUM", shared, axis=None).numpy()


def has_several_workers(strategy: Strategy) -> bool:
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
