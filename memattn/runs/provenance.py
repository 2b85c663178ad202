"""Records the conditions under which a result was obtained."""

import functools
import importlib.metadata
import os
import pathlib
import platform
import subprocess
from typing import Any

from memattn import __version__, processes


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
    """Returns the commit of the checkout that this package is run from; None for an installed package.

    An installed package has none even if it lies inside of another checkout.
    """
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
