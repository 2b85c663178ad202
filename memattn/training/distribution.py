"""The devices that training runs on: one, all of a machine, or those of several machines."""

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from memattn import reading
from memattn.errors import ConfigError, LostWorkerError, RunError, reason

Strategy = tf.distribute.Strategy
_ASK_EVERY = 10  # steps
_LOST_WORKER = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
_OF_A_PEER = re.compile("collective|connection|grpc|nccl|peer|remote|rpc|socket", re.IGNORECASE)


def _is_lost_worker(error: tf.errors.OpError) -> bool:
    """Whether this is an error that TensorFlow raises in the other workers some seconds after one has ended.

    TensorFlow calls failures of cuDNN and XLA "internal", too, not only those of the connection.
    """
    internal = isinstance(error, tf.errors.InternalError) and _OF_A_PEER.search(str(error))
    return isinstance(error, _LOST_WORKER) or bool(internal)


def several_machines() -> Strategy:
    """The strategy of this process and the others that TF_CONFIG names, or that Slurm started with it.

    Raises ConfigError if no workers are named, LostWorkerError if one does not join.
    """
    has_gpus = bool(tf.config.list_physical_devices("GPU"))
    transport = tf.distribute.experimental.CommunicationImplementation
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=transport.NCCL if has_gpus else transport.AUTO  # by default, TensorFlow uses gRPC
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
        raise ConfigError(f"--strategy multi_worker: cannot use the workers of TF_CONFIG or Slurm: {error}") from error
    except tf.errors.OpError as error:
        if not _is_lost_worker(error):
            raise
        raise LostWorkerError(f"--strategy multi_worker: a worker did not join: {reason(error)}") from error


def _auto() -> Strategy:
    """All workers of TF_CONFIG if it names several, else all GPUs if there are several. Raises ConfigError."""
    try:
        cluster = reading.json_value(os.environ.get("TF_CONFIG", "{}")).get("cluster", {})
        several = sum(len(cluster.get(job, [])) for job in ("chief", "worker")) > 1
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f"TF_CONFIG: not the JSON that TensorFlow expects: {error}") from error
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
    """Whether this process writes the run folder: of several workers, the one named chief, or the first."""
    if not has_several_workers(strategy):
        return True
    resolver = strategy.cluster_resolver
    first = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
    return (resolver.task_type, resolver.task_id) == (first, 0)


@contextlib.contextmanager
def losing_workers(strategy: Strategy, run_dir: str) -> Iterator[None]:
    """Turns errors raised inside into LostWorkerError if they mean that another worker has ended."""
    try:
        yield
    except tf.errors.OpError as error:
        if not (_is_lost_worker(error) and has_several_workers(strategy)):
            raise
        raise LostWorkerError(
            f"{run_dir}: a worker was lost; restart all workers to resume ({reason(error)})"
        ) from error


def together(strategy: Strategy, work: Callable[[], list[float]], size: int = 0) -> list[float]:
    """Runs `work` on every worker, and returns the chief's `size` numbers on all of them.

    All workers must call this at the same place. Where the work raises, raises the same; on workers where it did not,
    RunError. So no worker waits for one that has failed.
    """
    values, failure = [0.0] * size, None
    try:
        values = work()
    except Exception as error:
        failure = error
    if has_several_workers(strategy):
        failed, *values = _sum(strategy, lambda context: _contribution(context, failure, values, size)).tolist()
    else:
        failed = failure is not None
    if failed:
        raise failure or RunError("another worker failed; see its output")
    return values


def _contribution(
    context: tf.distribute.experimental.ValueContext, failure, values: list[float], size: int
) -> list[float]:
    """The addends of one replica: whether its worker failed, and the numbers of the chief's first replica."""
    speaks = context.replica_id_in_sync_group == 0 and failure is None
    return [float(failure is not None), *(values if speaks else [0.0] * size)]


def of_chief(strategy: Strategy, work: Callable[[], list[float]], size: int = 0) -> list[float]:
    """Runs `work` on the chief, and returns its `size` numbers on every worker; raises as `together`."""
    return together(strategy, work if is_chief(strategy) else lambda: [0.0] * size, size)


def asks(strategy: Strategy, step: int) -> bool:
    """Whether the workers ask each other after this step: only after every tenth if several, as it takes time."""
    return step % _ASK_EVERY == 0 or not has_several_workers(strategy)


def on_any_worker(strategy: Strategy, facts: list[bool]) -> list[bool]:
    """For each fact, whether it is true on any worker. All workers must call this at the same place."""
    if not has_several_workers(strategy):
        return facts
    return (_sum(strategy, lambda _: [float(fact) for fact in facts]) > 0).tolist()


def _sum(strategy: Strategy, value: Callable[[tf.distribute.experimental.ValueContext], Any]) -> np.ndarray:
    """The sum over all replicas of all workers."""
    shared = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(value(context), tf.float64)
    )
    return strategy.reduce("SUM", shared, axis=None).numpy()


def has_several_workers(strategy: Strategy) -> bool:
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
