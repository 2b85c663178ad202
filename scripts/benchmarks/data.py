"""Measures the input pipeline on a synthetic corpus: start-up, memory, speed, and resuming late in an epoch.

python scripts/benchmark.py data --pairs 20000000 --output runs/results/speed/data.json
"""

import contextlib
import json
import os
import shutil
import time

import numpy as np
from absl import flags
from tqdm import tqdm

from memattn import cli, files
from memattn.data import corpus
from memattn.data.sentences import Sentences
from memattn.data.vocabulary import EOS, SPECIAL_TOKENS, Vocabulary

_RESUMED_STEP = 100_000  # step at which resuming is timed
_BLOCK = 500_000  # pairs written at a time
_VOCABULARY_SIZE = 16_004


def main() -> int:
    from memattn.data.batches import TrainingBatches
    from memattn.runs.result import conditions

    options = flags.FLAGS
    if options.output:
        files.make_folder(os.path.dirname(options.output))
    vocabulary = Vocabulary([str(i) for i in range(_VOCABULARY_SIZE - len(SPECIAL_TOKENS))])
    if not os.path.exists(corpus.binary_paths(options.folder, "train", "source")["ids"]):
        unfinished = f"{options.folder.rstrip('/')}{files.UNFINISHED}"
        shutil.rmtree(unfinished, ignore_errors=True)
        _write(unfinished, options.pairs)
        files.move(unfinished, options.folder)
    before = _memory()
    start = time.perf_counter()
    pairs = corpus.read_corpus(options.folder, "train", vocabulary)
    batches = TrainingBatches(pairs, batch_size=options.batch_size, num_buckets=8, seed=1)
    stream = batches.stream(0, 0, 0)
    next(stream)
    started = time.perf_counter() - start
    start, examples = time.perf_counter(), 0
    for _ in range(options.batches):
        (source, _), _ = next(stream)
        examples += int(np.count_nonzero(source[:, 0]))
    elapsed = time.perf_counter() - start
    epoch, place = divmod(_RESUMED_STEP * options.batch_size, len(pairs))
    window, place = divmod(place, batches.window_size)
    start = time.perf_counter()
    fresh = TrainingBatches(pairs, batch_size=options.batch_size, num_buckets=8, seed=1)
    next(fresh.stream(epoch, window, place // options.batch_size))
    resumed = time.perf_counter() - start
    after = _memory()
    result = {
        "pairs": len(pairs),
        "tokens": int(pairs.source.offsets[-1] + pairs.target.offsets[-1]),
        "start_up_seconds": started,
        f"resume_at_step_{_RESUMED_STEP}_seconds": resumed,
        "examples_per_second": examples / elapsed,
        "batches": options.batches,
        "batch_size": options.batch_size,
        "private_memory_MiB": {"before": before["RssAnon"], "after": after["RssAnon"]},
        "mapped_pages_in_memory_MiB": {"before": before["RssFile"], "after": after["RssFile"]},
        **conditions(),
    }
    print(json.dumps(result, indent=2))
    if options.output:
        files.write(options.output, json.dumps(result, indent=2) + "\n")
    return 0


def _write(folder: str, pairs: int) -> None:
    """Writes a corpus of sentences of 5 to 45 random tokens; a target is about as long as its source."""
    os.makedirs(folder)
    random = np.random.default_rng(1)
    with contextlib.ExitStack() as stack:
        writers = [
            stack.enter_context(corpus.SentencesWriter(folder, "train", side, _VOCABULARY_SIZE))
            for side in corpus.SIDES
        ]
        for start in tqdm(range(0, pairs, _BLOCK), desc="writing", unit=" blocks", disable=None):
            number = min(_BLOCK, pairs - start)
            source = random.integers(5, 46, number)
            target = source + random.integers(-4, 5, number)
            for writer, lengths in zip(writers, (source, target), strict=True):
                ends = np.cumsum(lengths)
                tokens = random.integers(len(SPECIAL_TOKENS), _VOCABULARY_SIZE, ends[-1], dtype=np.uint16)
                tokens[ends - 1] = EOS
                writer.append(Sentences(tokens, np.append(0, ends)))


def _memory() -> dict[str, float]:
    """Returns the memory of this process in MiB, by Linux's names of private memory and of mapped files."""
    with open("/proc/self/status", encoding="utf-8") as file:
        lines = dict(line.split(":", 1) for line in file)
    return {name: int(lines[name].split()[0]) / 1024 for name in ("RssAnon", "RssFile")}


def run() -> None:
    """Defines the flags, then runs `main`."""
    flags.DEFINE_integer("pairs", 20_000_000, "Pairs of the corpus, if it does not exist.", lower_bound=1)
    flags.DEFINE_integer("batch_size", 128, "Pairs per batch.", lower_bound=1)
    flags.DEFINE_integer("batches", 5_000, "Batches to time.", lower_bound=1)
    flags.DEFINE_string("folder", "data/synthetic", "Folder of the corpus.")
    flags.DEFINE_string("output", None, "JSON file for the result.")
    cli.run(main, tensorflow=True)
