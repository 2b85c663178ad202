"""The devices of a training: one, all of a machine, or those of several machines, whose processes are its workers."""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from memattn import console
from memattn.errors import ConfigError, LostWorkerError, RunError, reason

Strategy: TypeAlias = tf.distribute.Strategy
_LOST_WORKER = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
_PEER_FAILURE = re.compile("collective|connection|grpc|nccl|peer|remote|rpc|socket", re.IGNORECASE)


def is_lost_worker(error: tf.errors.OpError) -> bool:
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
        resolver.cluster_spec().task_address(resolver.task_type, resolver.task_id)  # raises ValueError if there is none
        if resolver.task_id == 0:
            print("waiting for the other workers", flush=True)
        return tf.distribute.MultiWorkerMirroredStrategy(resolver, options)
    except (ValueError, KeyError, RuntimeError, TypeError, AttributeError) as error:
        raise ConfigError(f"--strategy multi_worker: cannot use the workers of TF_CONFIG or Slurm: {error}") from error
    except tf.errors.OpError as error:
        if not is_lost_worker(error):
            raise
        raise LostWorkerError(f"--strategy multi_worker: a worker did not join: {reason(error)}") from error


def _auto() -> Strategy:
    """Returns the strategy of TF_CONFIG's workers if it names several, else that of all GPUs. Raises ConfigError."""
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {})
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


class Workers:
    """The workers of a training: processes, one on each machine, which all execute the same program.

    The chief is the worker that prints and that writes the run folder; a process that trains alone is the chief. The
    methods below `say` are collective: all workers must call them in the same order, else they deadlock.
    """

    def __init__(self, strategy: Strategy):
        self.strategy = strategy
        self.several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self.is_chief = True
        if self.several:  # the chief is the one that TF_CONFIG names so, else the first
            resolver = strategy.cluster_resolver
            first = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
            self.is_chief = (resolver.task_type, resolver.task_id) == (first, 0)

    def say(self, line: str) -> None:
        """Prints a line, once for all workers."""
        if self.is_chief:
            console.say(line)

    @contextlib.contextmanager
    def barrier(self) -> Iterator[None]:
        """Waits at the end of this context for all workers.

        If the context raises an error on a worker, raises RunError on the others: none waits for a worker that failed.
        """
        try:
            yield
        except Exception:
            self.any(True)
            raise
        if self.any(False):
            raise RunError("another worker failed; see its output")

    def on_chief(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function on the chief while the others wait; returns its result, a value of JSON, on every worker.

        Raises what the function raises on the chief, RunError on the others.
        """
        if not self.several:
            return function(*arguments)
        content = b""
        with self.barrier():
            if self.is_chief:
                content = json.dumps(function(*arguments)).encode("utf-8")
        # The workers exchange sums alone: the chief, whose replica is 0, adds its bytes, and the others add zeros.
        (size,) = self._sum(lambda replica: [0.0 if replica else len(content)])
        codes = self._sum(lambda replica: [0.0] * int(size) if replica else list(content))
        return json.loads(codes.astype(np.uint8).tobytes())

    @contextlib.contextmanager
    def entered_on_chief(self, context: contextlib.AbstractContextManager[None]) -> Iterator[None]:
        """Enters a context on the chief while the others wait. Raises as `on_chief`."""
        with contextlib.ExitStack() as stack:
            self.on_chief(stack.enter_context, context)
            yield

    def check_equal(self, value: Any, problem: str) -> None:
        """Raises RunError with this problem unless a value of JSON is the same on all workers."""
        digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode("utf-8")).hexdigest()
        if self.any(digest != self.on_chief(lambda: digest)):
            raise RunError(problem)

    def any(self, flag: bool) -> bool:
        """Returns whether a flag is true on any worker."""
        return bool(self._sum(lambda _: [float(flag)])[0]) if self.several else flag

    def _sum(self, addend: Callable[[int], Sequence[float]]) -> np.ndarray:
        """Returns the sum of `addend(replica)` over the replicas of all workers, which are numbered from 0."""
        addends = self.strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(addend(context.replica_id_in_sync_group), tf.float64)
        )
        return self.strategy.reduce("SUM", addends, axis=None).numpy()
