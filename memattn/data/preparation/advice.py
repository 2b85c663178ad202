"""Says how to train on a prepared corpus."""

import os
import shlex
from collections.abc import Sequence

import yaml

from memattn import reading
from memattn.config import shipped
from memattn.config.schema import as_yaml

_LARGEST_SMALL_TEXT = 200_000  # training pairs


def training(config: str, folder: str, changes: Sequence[str] = ()) -> str:
    """Returns a line with the command that trains a shipped config on a prepared folder, with overrides."""
    run_dir = os.path.join("runs", os.path.basename(os.path.normpath(folder)))
    overrides = " ".join(f"--set {shlex.quote(change)}" for change in (f"data.folder={as_yaml(folder)}", *changes))
    return f"to train on it: memattn-train --config {config} {overrides} --run_dir {shlex.quote(run_dir)}"


def own_text_config(pairs: int) -> str:
    """Returns the name of the shipped config that suits a text of so many training pairs."""
    return "own_text/base" if pairs > _LARGEST_SMALL_TEXT else "own_text/small"


def validation_changes(config: str, pairs: int) -> list[str]:
    """Returns overrides so that a shipped config validates once an epoch, where its validations are far more frequent.

    They count: after a few without a better score, the learning rate falls and training ends. Configs with batches in
    tokens, which are for large text, stay as they are.
    """
    path = shipped.path_of(config)
    if path is None:
        return []
    training = yaml.safe_load(reading.text(path))["training"]  # configs.load would import TensorFlow
    steps = pairs // training["batch_size"]
    if training.get("batch_type") == "tokens" or steps < 2 * training["validate_every"]:
        return []
    return [f"training.validate_every={steps}", f"training.checkpoint_every={steps}"]
