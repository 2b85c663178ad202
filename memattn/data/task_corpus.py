"""Writes the corpus of a task: random sources, and the targets that follow from them."""

import glob
import json
import os
import shutil
import tempfile

import numpy as np
from tqdm import tqdm

from memattn import files, processes, reading
from memattn.config import CopyConfig, differences
from memattn.data.corpus import SIDES, VOCABULARY
from memattn.data.tasks import TASKS, draw_lengths
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError, DataError, abbreviated

MANIFEST = "copy.json"  # for every task; named after the first task
SPLITS = ("train", "valid")
_FILES = (VOCABULARY, *(f"{split}.{side}" for split in SPLITS for side in SIDES), MANIFEST)
_UNFINISHED_PREFIX = "unfinished-"
_BLOCK = 10_000  # pairs that are drawn at a time


def prepare(config: CopyConfig, folder: str) -> None:
    """Writes vocab.txt and {train,valid}.{source,target} into `folder`, the same bytes on every machine.

    One process writes a folder; others wait for it. Files are written elsewhere and moved into place when complete, so
    that several processes may write the folder where the file system has no locks. The manifest comes last. A folder
    with the manifest and all files is not touched.

    Raises:
      ConfigError: The folder holds the data of another task.
      OSError: The corpus cannot be written.
    """
    settings = config.settings
    if _is_complete(folder, settings):
        return
    os.makedirs(folder, exist_ok=True)
    making = processes.making(os.path.join(folder, MANIFEST), "is writing it; waiting", wait=True)
    with files.naming(folder), making as is_locked:
        if not _is_complete(folder, settings):
            _write_corpus(config, folder, settings)
            if is_locked:
                _remove_unfinished(folder)


def _is_complete(folder: str, settings: dict) -> bool:
    """Returns whether a folder holds the corpus of these settings. Raises ConfigError if it holds another."""
    manifest = os.path.join(folder, MANIFEST)
    names = os.listdir(folder) if os.path.isdir(folder) else []  # first: another process may be writing the manifest
    if os.path.exists(manifest):
        try:
            stored = reading.json_file(manifest)
        except DataError as error:
            raise ConfigError(f"{error}; remove the folder to have it made again") from error
        if stored != settings:
            differing = differences(stored, settings) if isinstance(stored, dict) else [f"{abbreviated(stored)} there"]
            raise ConfigError(
                f"{folder}: holds a task with other settings: {', '.join(map(str, differing))}; use another folder"
            )
        return all(os.path.exists(os.path.join(folder, name)) for name in _FILES)
    was_interrupted = any(name.startswith(_UNFINISHED_PREFIX) for name in names)
    foreign = [name for name in names if name in _FILES or name.endswith((".source", ".target"))]
    if foreign and not was_interrupted:
        raise ConfigError(f"{folder}: holds {min(foreign)}, which is not of a task; use another folder")
    return False


def _write_corpus(config: CopyConfig, folder: str, settings: dict) -> None:
    with tempfile.TemporaryDirectory(prefix=_UNFINISHED_PREFIX, dir=folder) as unfinished:
        _write(os.path.join(unfinished, VOCABULARY), str(Vocabulary(TASKS[config.name].tokens(config))))
        sizes = config.train_examples, config.valid_examples
        for number, (split, examples) in enumerate(zip(SPLITS, sizes, strict=True)):
            seed = [config.seed, config.max_length, config.num_symbols, number]
            random = np.random.RandomState(seed)  # noqa: NPY002 (the same in every version of NumPy)
            _write_split(config, unfinished, split, examples, random)
        _write(os.path.join(unfinished, MANIFEST), json.dumps(settings, indent=2) + "\n")
        for name in _FILES:
            files.sync(os.path.join(unfinished, name))
            files.move(os.path.join(unfinished, name), os.path.join(folder, name))


def _remove_unfinished(folder: str) -> None:
    """Removes the folders that killed preparations left, unless they hold other files."""
    for path in glob.glob(os.path.join(glob.escape(folder), f"{_UNFINISHED_PREFIX}*")):
        if os.path.isdir(path) and set(os.listdir(path)) <= set(_FILES):
            shutil.rmtree(path, ignore_errors=True)


def _write_split(config: CopyConfig, folder: str, split: str, examples: int, random: np.random.RandomState) -> None:
    source_path, target_path = (os.path.join(folder, f"{split}.{side}") for side in SIDES)
    with (
        open(source_path, "w", encoding="utf-8", newline="\n") as source,
        open(target_path, "w", encoding="utf-8", newline="\n") as target,
        tqdm(total=examples, desc=f"{config.name} task, {split}", unit=" pairs", disable=None) as progress,
    ):
        for start in range(0, examples, _BLOCK):
            lengths = draw_lengths(config, random, min(_BLOCK, examples - start))
            pairs = TASKS[config.name].pairs(config, random, lengths)
            for file, lines in zip((source, target), zip(*pairs, strict=True), strict=True):
                file.write("".join(" ".join(line) + "\n" for line in lines))
            progress.update(len(pairs))


def _write(path: str, text: str) -> None:
    """Writes a file of an unfinished folder in place: `_remove_unfinished` knows the final names alone."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
