"""Writes the corpus of a task: random sources, and the targets that follow from them."""

import json
import os
import tempfile

import numpy as np
from tqdm import tqdm

from memattn import files, processes, reading
from memattn.data.config import CopyConfig
from memattn.data.corpus import SIDES, VOCABULARY
from memattn.data.tasks import TASKS, draw_lengths
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError, DataError, abbreviated
from memattn.plain_values import differences

MANIFEST = "copy.json"  # for every task; named after the first task
SPLITS = ("train", "valid")
_FILES = (VOCABULARY, *(f"{split}.{side}" for split in SPLITS for side in SIDES), MANIFEST)
_BLOCK = 10_000  # pairs that are drawn at a time


def prepare(config: CopyConfig, folder: str) -> None:
    """Writes vocab.txt and {train,valid}.{source,target} into `folder`, the same bytes on every machine.

    One process writes a folder; others wait for it. The folder appears when it is complete, so several processes may
    write it where the file system has no locks. A complete folder is not touched.

    Raises:
      ConfigError: The folder holds something else.
      OSError: The corpus cannot be written.
    """
    folder = os.path.normpath(folder)
    if _is_complete(folder, config.settings):
        return
    os.makedirs(os.path.dirname(folder) or os.curdir, exist_ok=True)
    with files.naming(folder), processes.making(folder, "is writing it; waiting", wait=True):
        if not _is_complete(folder, config.settings):
            _write_corpus(config, folder)


def _is_complete(folder: str, settings: dict) -> bool:
    """Returns False for a folder that is missing or empty. Raises ConfigError unless it holds this corpus."""
    if not (os.path.exists(folder) and os.listdir(folder)):
        return False
    try:
        stored = reading.json_file(os.path.join(folder, MANIFEST))
    except FileNotFoundError as error:
        raise ConfigError(f"{folder}: holds files, but no complete corpus of a task; use another folder") from error
    except DataError as error:
        raise ConfigError(f"{error}; remove the folder to have it made again") from error
    if stored != settings:
        differing = differences(stored, settings) if isinstance(stored, dict) else [f"{abbreviated(stored)} there"]
        raise ConfigError(
            f"{folder}: holds a task with other settings: {', '.join(map(str, differing))}; use another folder"
        )
    if missing := [name for name in _FILES if not os.path.exists(os.path.join(folder, name))]:
        raise ConfigError(f"{os.path.join(folder, missing[0])}: missing; remove the folder to have it made again")
    return True


def _write_corpus(config: CopyConfig, folder: str) -> None:
    parent, name = os.path.split(folder)
    with tempfile.TemporaryDirectory(prefix=f"{name[:40]}.", suffix=files.UNFINISHED, dir=parent or None) as work:
        unfinished = os.path.join(work, "corpus")
        os.mkdir(unfinished)
        files.write(os.path.join(unfinished, VOCABULARY), str(Vocabulary(TASKS[config.name].tokens(config))))
        sizes = config.train_examples, config.valid_examples
        for number, (split, examples) in enumerate(zip(SPLITS, sizes, strict=True)):
            seed = [config.seed, config.max_length, config.num_symbols, number]
            random = np.random.RandomState(seed)  # noqa: NPY002 (the same in every version of NumPy)
            _write_split(config, unfinished, split, examples, random)
        files.write(os.path.join(unfinished, MANIFEST), json.dumps(config.settings, indent=2) + "\n")
        try:
            files.move(unfinished, folder)
        except OSError:
            if not _is_complete(folder, config.settings):  # another process was faster, where there are no locks
                raise


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
    for path in (source_path, target_path):
        files.sync(path)
