"""Writes the folder of an exported model: checks, and the files that say what tokens are and how to search."""

import json
import os
import shutil
from collections.abc import Callable

from memattn import config as configs
from memattn import files
from memattn.data.corpus import VOCABULARY
from memattn.errors import ConfigError
from memattn.onnx_runtime import FACTS
from memattn.runs import checkpoints, provenance
from memattn.runs.trained import Trained

_NOT_EXPORTED = {"lexicon": "vocabulary selection", "sample": "sampling"}  # keys of `decoding`: an export has neither


def export(
    trained: Trained,
    folder: str,
    max_source_length: int | None,
    write: Callable[[str, int], None],
    extra: str = "",
) -> int:
    """Writes the folder of an exported model, which appears under its name when it is complete.

    Args:
      trained: the trained model.
      folder: the folder, which must not exist.
      max_source_length: most tokens of a source; by default `decoding.max_source_length` or, without it, twice as many
        as the longest training source has.
      write: a function of the folder and the most tokens of a source, which makes the folder and writes the model.
      extra: folder within the folder, for the files beside the model.

    Returns the most tokens of a source. Raises ConfigError, OSError.
    """
    trained.check_reads_text("memattn-export")
    for key, option in _NOT_EXPORTED.items():
        if getattr(trained.config.decoding, key):
            raise ConfigError(f"decoding.{key}: {option} is not exported; --set decoding.{key}=null")
    if trained.config.model.has_memory_length and not trained.config.decoding.memory_ratio:
        raise ConfigError("decoding.memory_ratio: an exported model needs one; --set decoding.memory_ratio=1.2, say")
    folder = os.path.normpath(folder)
    checkpoints.check_path(folder)
    if os.path.exists(folder):
        raise ConfigError(f"{folder}: exists; use another --output")
    files.make_folder(os.path.dirname(folder))
    longest = max_source_length or trained.max_source_length
    unfinished = files.unfinished_path(folder)
    try:
        write(unfinished, longest)
        _write_extra(trained, longest, os.path.join(unfinished, extra))
        files.move(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return longest


def _write_extra(trained: Trained, longest: int, folder: str) -> None:
    """Writes the files beside the model that say what its tokens are, and how it was made."""
    os.makedirs(folder, exist_ok=True)
    for name, content in {VOCABULARY: str(trained.vocabulary), **trained.tokenizer.files()}.items():
        files.write(os.path.join(folder, name), content)
    facts = {
        "max_source_length": longest,
        "checkpoints": trained.checkpoints,
        **provenance.conditions(),
        "config": configs.to_dict(trained.config),
    }
    files.write(os.path.join(folder, FACTS), json.dumps(facts, indent=2) + "\n")
