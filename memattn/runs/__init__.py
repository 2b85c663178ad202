"""Run folders: config, vocabulary and checkpoints, and the trained models that they hold.

This module imports no TensorFlow: commands check their run folders before they do.
"""

import os
from collections.abc import Iterable

from memattn.errors import ConfigError

CONFIG = "config.yaml"  # written last: it makes a folder a run folder


def check_exist(folders: Iterable[str]) -> None:
    """Raises ConfigError if a folder holds no run."""
    for folder in folders:
        if not os.path.exists(os.path.join(folder, CONFIG)):
            problem = f"not a run folder: it holds no {CONFIG}" if os.path.isdir(folder) else "no such folder"
            raise ConfigError(f"{folder}: {problem}; memattn-train makes run folders")
