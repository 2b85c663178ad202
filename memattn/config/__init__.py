"""Reads a run's configuration, YAML with overrides, into checked dataclasses.

The dataclasses stand beside the models that they configure, so TensorFlow is imported on first use of a name here.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memattn.config.exports import *  # noqa: F403


def __getattr__(name: str) -> Any:
    exports = importlib.import_module("memattn.config.exports")
    if name not in exports.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(exports, name)
