"""Chooses the devices of a training: a single device, all of a machine, or those of several machines.

In training on several machines, one process (a worker) runs on each. All workers execute the same program, and meet in
the functions at the end of this file. Every worker must call these in the same order, or all wait for ever. The chief
is the worker that writes the run folder; a worker that trains alone is the chief.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import tensorflow as tf

from memattn import reading
from memattn.errors import ConfigError, LostWorkerError, RunError, reason

Strategy: TypeAlias = tf.distribute.Strategy
T = TypeVar("T")
_STEPS_BETWEEN_MEETINGS = 10  # training steps after which several workers agree on signals and clocks again
_LOST_WORKER = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
_PEER_FAILURE = re.compile("collective|connection|grpc|nccl|peer|remote|rpc|socket", re.IGNORECASE)


def _is_lost_worker(error: tf.errors.OpError) -> bool:
    """Returns whether an error means that another worker has ended.

    TensorFlow raises InternalError for a broken connection, but also if cuDNN or XLA fails: the message decides.
    """
    if isinstance(error, tf.errors.InternalError):
        return bool(_PEER_FAILURE.search(str(error)))
    return isinstance(error, _LOST_WORKER)


def several_machines() -> Strategy:
    """Returns the strategy of all workers that TF_CONFIG names, or that Slurm started with this process.

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
        resolver.cluster_spec().task_address(resolver.task_type, resolver.task_id)  # raises ValueError if there is none
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
    """Returns the strategy of TF_CONFIG's workers if it names several, else that of all GPUs. Raises ConfigError."""
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


def has_several_workers(strategy: Strategy) -> bool:
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def is_chief(strategy: Strategy) -> bool:
    """Returns whether this process is the chief: the worker that TF_CONFIG names so, else the first."""
    if not has_several_workers(strategy):
        return True
    resolver = strategy.cluster_resolver
    first = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
    return (resolver.task_type, resolver.task_id) == (first, 0)


@contextlib.contextmanager
def losing_workers(strategy: Strategy, run_dir: str) -> Iterator[None]:
    """Turns errors raised in this context into LostWorkerError if they mean that another worker has ended."""
    try:
        yield
    except tf.errors.OpError as error:
        if not (_is_lost_worker(error) and has_several_workers(strategy)):
            raise
        raise LostWorkerError(
            f"{run_dir}: a worker was lost; restart all workers to resume ({reason(error)})"
        ) from error


def meets(strategy: Strategy, step: int) -> bool:
    """Returns whether workers agree on signals and clocks after this step.

    A single worker does so after each step, several after every tenth step, because a meeting takes time.
    """
    return step % _STEPS_BETWEEN_MEETINGS == 0 or not has_several_workers(strategy)


def together(strategy: Strategy, work: Callable[[], T]) -> T:
    """Runs `work` on every worker, and returns its result on this one.

    Raises what `work` raises on this worker, and RunError if it fails on another: no worker waits for a failed one.
    """
    try:
        result = work()
    except Exception:
        on_any_worker(strategy, [True])
        raise
    if on_any_worker(strategy, [False]) == [True]:
        raise RunError("another worker failed; see its output")
    return result


def by_chief(strategy: Strategy, work: Callable[[], object]) -> None:
    """Runs `work` on the chief while the other workers wait. Raises as `together`."""
    together(strategy, work if is_chief(strategy) else lambda: None)


def numbers_of_chief(strategy: Strategy, work: Callable[[], Sequence[float]], size: int) -> list[float]:
    """Runs `work` on the chief, and returns its result, `size` numbers, on every worker. Raises as `together`."""
    nothing = [0.0] * size
    numbers = together(strategy, work if is_chief(strategy) else lambda: nothing)
    if not has_several_workers(strategy):
        return list(numbers)
    addends = _sum(strategy, lambda context: numbers if context.replica_id_in_sync_group == 0 else nothing)
    return addends.tolist()


def on_any_worker(strategy: Strategy, facts: list[bool]) -> list[bool]:
    """Returns, for each fact, whether the fact is true on any worker."""
    if not has_several_workers(strategy):
        return facts
    return (_sum(strategy, lambda _: [float(fact) for fact in facts]) > 0).tolist()


def _sum(strategy: Strategy, addend: Callable[[tf.distribute.experimental.ValueContext], Any]) -> np.ndarray:
    """Returns the sum of each replica's addend, over all replicas of all workers."""
    addends = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(addend(context), tf.float64)
    )
    return strategy.reduce("SUM", addends, axis=None).numpy()
