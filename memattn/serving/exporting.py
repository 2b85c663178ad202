"""Makes the folder of an exported model, with the files that say what tokens are and how to search."""

import contextlib
import json
import os
from collections.abc import Iterator

from memattn import config as configs
from memattn import files
from memattn.data.corpus import VOCABULARY
from memattn.errors import ConfigError
from memattn.onnx_runtime import METADATA
from memattn.runs import checkpoints, provenance
from memattn.runs.trained import Trained

_NOT_EXPORTED = {"lexicon": "vocabulary selection", "sample": "sampling"}  # keys of `decoding`: an export has neither


@contextlib.contextmanager
def new_folder(trained: Trained, folder: str, max_source_length: int, extra: str = "") -> Iterator[str]:
    """Makes the folder of an exported model, which appears under its name when it is complete.

    Args:
      trained: the trained model.
      folder: the folder, which must not exist.
      max_source_length: most tokens of a source.
      extra: folder within the folder, for the files beside the model.

    Yields an unfinished folder, for the model. Raises ConfigError, OSError.
    """
    trained.check_reads_text("memattn-export")
    for key, option in _NOT_EXPORTED.items():
        if getattr(trained.config.decoding, key):
            raise ConfigError(f"decoding.{key}: {option} is not exported; --set decoding.{key}=null")
    if trained.config.model.has_memory_length and not trained.config.decoding.memory_ratio:
        raise ConfigError("decoding.memory_ratio: an exported model needs one; --set decoding.memory_ratio=1.2, say")
    folder = os.path.normpath(folder)
    checkpoints.check_path(folder)
    files.check_new(folder)
    files.make_folder(os.path.dirname(folder))
    with files.making_folder(folder) as unfinished:
        _write_extra(trained, max_source_length, os.path.join(unfinished, extra))
        yield unfinished


def _write_extra(trained: Trained, max_source_length: int, folder: str) -> None:
    """Writes the files beside the model that say what its tokens are, and how it was made."""
    os.makedirs(folder, exist_ok=True)
    for name, content in {VOCABULARY: str(trained.vocabulary), **trained.tokenizer.files()}.items():
        files.write(os.path.join(folder, name), content)
    metadata = {
        "max_source_length": max_source_length,
        "checkpoints": trained.checkpoints,
        **provenance.conditions(),
        "config": configs.to_dict(trained.config),
    }
    files.write(os.path.join(folder, METADATA), json.dumps(metadata, indent=2) + "\n")
