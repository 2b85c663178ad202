"""Advice on training by the size of a text: BPE units, a shipped config, its validations, and how long it takes."""

import os
import shlex
import shutil
from collections.abc import Sequence
from typing import Any, cast

import yaml

from memattn import files, shipped
from memattn.plain_values import as_yaml

# Default number of BPE units, by the least number of training pairs that it is for. The results on Multi30k (29,000
# pairs) are with 4,000, those of the paper on WMT'17 (0.2 to 52 million) with 16,000. Gowda & May (2020) have the best
# results with 4,000 to 16,000 for 0.5 million pairs, and with 8,000 for one million.
_DEFAULT_UNITS = {0: 4_000, 100_000: 8_000, 1_000_000: 16_000}
_LARGEST_SMALL_TEXT = 200_000  # training pairs
_SMALL = "own_text/small"
# Source and target tokens that training with own_text/small reads in a second of one core of an AMD EPYC, validations
# included: 4,086 training steps of 64 Multi30k pairs with 33.9 tokens took 2,181 to 2,403 s (results/multi30k/small;
# measured with windowed memory).
_TOKENS_PER_SECOND = 3_900
_MEASURED_UNITS = 4_000  # BPE units of that text; each thousand more adds 7.6% of its multiply-adds


def default_units(pairs: int) -> int:
    """Returns a number of BPE units that suits a number of training pairs."""
    return max(units for least, units in _DEFAULT_UNITS.items() if pairs >= least)


def training_command(config: str, folder: str, changes: Sequence[str] = ()) -> str:
    """Returns a line with the command that trains a shipped config on a prepared folder, with overrides."""
    run_dir = os.path.join("runs", os.path.basename(os.path.normpath(folder)))
    overrides = " ".join(f"--set {shlex.quote(change)}" for change in (f"data.folder={as_yaml(folder)}", *changes))
    return f"to train on it: memattn-train --config {config} {overrides} --run_dir {shlex.quote(run_dir)}"


def has_gpu() -> bool:
    """Returns whether this machine has an NVIDIA driver, without the seconds that importing TensorFlow takes."""
    return shutil.which("nvidia-smi") is not None


def own_text_config(pairs: int, *, gpu: bool) -> str:
    """Returns the name of the shipped config that suits so many training pairs; own_text/base takes days on CPUs."""
    return "own_text/base" if gpu and pairs > _LARGEST_SMALL_TEXT else _SMALL


def training_time(config: str, pairs: int, tokens: int, units: int | None) -> str | None:
    """Returns a line with an estimate of the longest that training on a text takes; None where none was measured.

    `tokens` are the source and target tokens of all training pairs, `units` the number of BPE units, if it is known.
    """
    if config != _SMALL or not pairs:
        return None
    training = _small_training()
    slower = 1 + 0.076 * ((units or _MEASURED_UNITS) - _MEASURED_UNITS) / 1000
    read = training["max_steps"] * training["batch_size"] * tokens / pairs
    hours = slower * read / _TOKENS_PER_SECOND / 3600
    line = f"training takes at most about {max(hours, 0.1):.1f} hours of one CPU core, less if BLEU stops rising"
    return line + ("; for a GPU, take own_text/base" if pairs > _LARGEST_SMALL_TEXT else "")


def validation_changes(config: str, pairs: int) -> list[str]:
    """Returns overrides so that own_text/small validates once an epoch, where its validations are far more frequent.

    A training has at least five, even if it is shorter than five epochs. They count: after a few without a better
    score, the learning rate falls and training ends. Other configs, which are for large text, stay as they are.
    """
    if config != _SMALL:
        return []
    training = _small_training()
    steps = min(pairs // training["batch_size"], training["max_steps"] // 5)
    if steps < 2 * training["validate_every"]:
        return []
    return [f"training.validate_every={steps}", f"training.checkpoint_every={steps}"]


def _small_training() -> dict[str, Any]:
    """Returns `training` of own_text/small as it is written. Does not import TensorFlow."""
    return yaml.safe_load(files.read_text(cast(str, shipped.path_of(_SMALL))))["training"]
