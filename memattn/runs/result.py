"""The result of an evaluation, also as the content of result.json, and the conditions under which it was obtained."""

import dataclasses
import functools
import importlib.metadata
import os
import pathlib
import platform
import subprocess
from collections.abc import Mapping
from typing import Any

from memattn import __version__, processes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """Scores, times and conditions of an evaluation."""

    scores: Mapping[str, float]  # by the names of metrics; results of former versions lack some
    signatures: Mapping[str, str]  # settings of the metrics that have any
    decode_seconds: float  # for the whole test set; median over the repeats
    decode_seconds_min: float
    decode_seconds_max: float
    repeats: int
    sentences_per_second: float
    tokens_per_second: float
    excluded_from_time: str  # work that the time does not include
    sentences: int
    split: str  # name of the test set
    beam_size: int
    batch_size: int
    jit_compile: bool
    dtype: str  # type that the model computed in
    trained_on: str = ""  # folder of the training data
    overrides: list[str] = dataclasses.field(default_factory=list)  # changes of `decoding`, as arguments of --set
    seed: int
    parameters: int  # weights, in all models of an ensemble together
    step: int  # training step of the checkpoint; of several, the latest
    checkpoints: list[str]  # paths; several for averaged weights or an ensemble
    command: str  # as `conditions` gives it, like all fields from here to inter_op_threads
    memattn: str
    commit: str | None
    python: str
    tensorflow: str
    keras: str
    device: str
    cores: int
    intra_op_threads: int
    inter_op_threads: int
    config: dict[str, Any]  # the run's, with the overrides, as plain values

    @property
    def time_range(self) -> str:
        """The shortest and the longest decode time in seconds, as text."""
        return f"{self.decode_seconds_min:.3g}-{self.decode_seconds_max:.3g}"

    def to_json(self) -> dict[str, Any]:
        """Returns the content of result.json: a score under its metric's NAME, its signature under NAME_signature."""
        fields = dict(vars(self))
        scores, signatures = fields.pop("scores"), fields.pop("signatures")
        return {**scores, **{f"{name}_signature": text for name, text in signatures.items()}, **fields}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Result":
        """Makes a result from the content of a result.json; scores and fields that older versions lack may be missing.

        Raises TypeError if another field is missing.
        """
        fields = {field.name: content[field.name] for field in dataclasses.fields(cls) if field.name in content}
        others = {name: value for name, value in content.items() if name not in fields}
        signatures = {name.removesuffix("_signature"): text for name, text in others.items() if isinstance(text, str)}
        scores = {name: value for name, value in others.items() if not isinstance(value, str)}
        return cls(scores=scores, signatures=signatures, **fields)


def conditions() -> dict[str, Any]:
    """Returns the command, versions, commit, hardware and threads of this process, by the names in result.json."""
    import tensorflow as tf  # only here: benchmarks import this module before it

    devices = tf.config.get_visible_devices("GPU")
    names = [tf.config.experimental.get_device_details(device).get("device_name", device.name) for device in devices]
    return {
        "command": processes.command(),
        "memattn": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": importlib.metadata.version("keras"),
        "device": ", ".join(names) or f"CPU, {_processor()}",
        "cores": processes.cores(),
        "intra_op_threads": tf.config.threading.get_intra_op_parallelism_threads(),
        "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
    }


@functools.cache
def _commit() -> str | None:
    """Returns the commit of the checkout that this package is run from; None for a package that is installed."""
    checkout = str(pathlib.Path(__file__).resolve().parents[2])
    if not os.path.exists(os.path.join(checkout, ".git")):
        return None
    git = ["git", "-C", checkout]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changes_but_results = [*git, "status", "--porcelain", "--", ":/", ":(top,exclude)results"]
        changes = subprocess.run(changes_but_results, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{head} with uncommitted changes" if changes.strip() else head


def _processor() -> str:
    """Returns the name of the processor; its architecture if the system does not give the name."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
