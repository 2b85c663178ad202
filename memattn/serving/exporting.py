"""Makes the folder of an exported model, with the files that say what tokens are and how to search."""

import contextlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator

from memattn import config as configs
from memattn import files
from memattn.data.corpus import VOCABULARY
from memattn.errors import ConfigError
from memattn.runs import checkpoints
from memattn.runs.result import conditions
from memattn.runs.trained import Trained
from memattn.serving.onnx_searcher import METADATA


@contextlib.contextmanager
def new_folder(trained: Trained, folder: str, extra: str = "", problems: Iterable[str] = ()) -> Iterator[str]:
    """Makes the new folder of an exported model, which appears when it is complete; yields its unfinished folder.

    The caller writes the model; the files beside it stand in the subfolder `extra`. `problems` say why this format
    cannot hold the model. Raises ConfigError if there are any, or if no format can hold it; OSError.
    """
    trained.check_reads_text("memattn-export")
    folder = os.path.normpath(folder)
    checkpoints.check_path(folder)
    files.check_new(folder)
    if problem := next(itertools.chain(_problems(trained), problems), None):
        raise ConfigError(problem)
    files.make_folder(os.path.dirname(folder))
    with files.making_folder(folder) as unfinished:
        _write_files(trained, os.path.join(unfinished, extra))
        yield unfinished


def _problems(trained: Trained) -> Iterator[str]:
    """Yields why a model cannot be exported in any format."""
    decoding = trained.config.decoding
    for key, option in {"lexicon": "vocabulary selection", "sample": "sampling"}.items():
        if getattr(decoding, key):
            yield f"decoding.{key}: {option} is not exported; --set decoding.{key}=null"
    if trained.config.model.has_memory_length and not decoding.memory_ratio:
        yield "decoding.memory_ratio: an exported model needs one; --set decoding.memory_ratio=1.2, say"


def _write_files(trained: Trained, folder: str) -> None:
    """Writes the files beside the model that say what its tokens are, and how it was made."""
    os.makedirs(folder, exist_ok=True)
    for name, content in {VOCABULARY: str(trained.vocabulary), **trained.tokenizer.files()}.items():
        files.write(os.path.join(folder, name), content)
    metadata = {
        "max_source_length": trained.max_source_length,
        "checkpoints": trained.checkpoints,
        **conditions(),
        "config": configs.to_dict(trained.config),
    }
    files.write(os.path.join(folder, METADATA), json.dumps(metadata, indent=2) + "\n")
