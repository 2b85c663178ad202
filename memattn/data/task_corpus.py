"""Writes the corpus of a task: random sources, and the targets that follow from them."""

import glob
import json
import os
import shutil
import tempfile

import numpy as np
from tqdm import tqdm

from memattn import console, files, processes, reading, resources
from memattn.config import CopyConfig, differences
from memattn.data.tasks import TASKS, draw_lengths
from memattn.data.vocabulary import Vocabulary
from memattn.errors import DataError, shown

MANIFEST = "copy.json"  # of any task
SPLITS = ("train", "valid")
_FILES = ("vocab.txt", *(f"{split}.{side}" for split in SPLITS for side in ("source", "target")), MANIFEST)
_UNFINISHED = "unfinished-"
_BLOCK = 10_000
_SYMBOL = 100  # bytes of a symbol in a vocabulary
_TOKEN = 16  # bytes of a token that is drawn
_LARGE = 1e9  # bytes of a corpus that takes minutes to write


def prepare(config: CopyConfig, folder: str) -> None:
    """Writes vocab.txt and {train,valid}.{source,target} under `folder`, the same bytes on every machine.

    One process writes a folder; others wait for it. Files are written elsewhere, then moved into place whole, so that
    without locks in the file system several processes may write the folder. The manifest comes last; a folder with it
    and all files is not touched. Raises ValueError for a folder that holds another task's data, ConfigError for a
    corpus for which memory or disk is too small, OSError if it cannot be written.
    """
    settings = config.settings
    if _whole(folder, settings):
        return
    _check_size(config, folder)
    os.makedirs(folder, exist_ok=True)
    making = processes.making(os.path.join(folder, MANIFEST), "is writing it; waiting", wait=True)
    with files.naming(folder), making as locked:
        if not _whole(folder, settings):
            _make(config, folder, settings)
            if locked:
                _clear(folder)


def least_size(config: CopyConfig) -> tuple[int, int]:
    """A lower bound of a corpus: tokens of all sources, and bytes of all files."""
    examples = config.train_examples + config.valid_examples
    tokens = examples * config.max_length // 2  # of which a task has at least as many in its sources
    return tokens, 2 * tokens + 4 * config.num_symbols


def _check_size(config: CopyConfig, folder: str) -> None:
    """Raises ConfigError for a corpus that cannot be written; says that a large one will be."""
    tokens, size = least_size(config)
    key = "data.copy" if type(config) is CopyConfig else "data.task"
    pairs = f"{config.train_examples + config.valid_examples:,} pairs of up to {config.max_length:,}"
    resources.check(
        _SYMBOL * config.num_symbols, f"{key}.num_symbols", f"a vocabulary of {config.num_symbols:,} symbols"
    )
    at_once = min(_BLOCK, max(config.train_examples, config.valid_examples)) * config.max_length // 2
    resources.check(_TOKEN * at_once, f"{key}.max_length", f"drawing {pairs}")
    resources.check_disk(size, folder, key, f"a corpus of {pairs}")
    if size > _LARGE:
        console.say(f"{folder}: writing {pairs}, at least {resources.readable(size)}")


def _whole(folder: str, settings: dict) -> bool:
    """Whether a folder holds the corpus of these settings. Raises ValueError if it holds another."""
    manifest = os.path.join(folder, MANIFEST)
    present = os.listdir(folder) if os.path.isdir(folder) else []  # before the manifest: another may be writing it
    if os.path.exists(manifest):
        try:
            found = reading.json_file(manifest)
        except DataError as error:
            raise ValueError(f"{error}; remove the folder to have it made again") from error
        if found != settings:
            differing = differences(found, settings) if isinstance(found, dict) else [f"{shown(found)} there"]
            raise ValueError(
                f"{folder}: holds a task with other settings: {', '.join(map(str, differing))}; use another folder"
            )
        return all(os.path.exists(os.path.join(folder, name)) for name in _FILES)
    interrupted = any(name.startswith(_UNFINISHED) for name in present)
    if not interrupted and any(name.endswith((".source", ".target")) for name in present):
        raise ValueError(f"{folder}: holds a corpus that is not of a task; use another folder")
    return False


def _make(config: CopyConfig, folder: str, settings: dict) -> None:
    with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=folder) as aside:
        _write(os.path.join(aside, "vocab.txt"), str(Vocabulary(TASKS[config.name].tokens(config))))
        sizes = config.train_examples, config.valid_examples
        for number, (split, examples) in enumerate(zip(SPLITS, sizes, strict=True)):
            # RandomState's streams are frozen: every NumPy version draws the same.
            seed = [config.seed, config.max_length, config.num_symbols, number]
            _write_split(config, aside, split, examples, np.random.RandomState(seed))  # noqa: NPY002
        _write(os.path.join(aside, MANIFEST), json.dumps(settings, indent=2) + "\n")
        for name in _FILES:
            os.replace(os.path.join(aside, name), os.path.join(folder, name))


def _clear(folder: str) -> None:
    """Removes what killed preparations left; a folder of such a name that is not theirs stays."""
    for aside in glob.glob(os.path.join(glob.escape(folder), f"{_UNFINISHED}*")):
        if os.path.isdir(aside) and set(os.listdir(aside)) <= set(_FILES):
            shutil.rmtree(aside, ignore_errors=True)


def _write_split(config: CopyConfig, folder: str, split: str, examples: int, random: np.random.RandomState) -> None:
    paths = [os.path.join(folder, f"{split}.{side}") for side in ("source", "target")]
    with (
        open(paths[0], "w", encoding="utf-8", newline="\n") as source,
        open(paths[1], "w", encoding="utf-8", newline="\n") as target,
        tqdm(total=examples, desc=f"{config.name} task, {split}", unit=" pairs", disable=None) as progress,
    ):
        for start in range(0, examples, _BLOCK):
            lengths = draw_lengths(config, random, min(_BLOCK, examples - start))
            pairs = TASKS[config.name].pairs(config, random, lengths)
            for file, lines in zip((source, target), zip(*pairs, strict=True), strict=True):
                file.write("".join(" ".join(line) + "\n" for line in lines))
            progress.update(len(pairs))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
