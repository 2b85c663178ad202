"""Makes the work of the benchmarked systems, and speaks the workers' protocol. Needs only NumPy.

A worker is a process such as `python tfa.py '{"task": "decode", "length": 50, ...}'`. The process does all of the work
once to warm up, and writes a JSON line that describes the system. Then it does the work once for each line that it
reads, and replies with a JSON line.
"""

import json
import os
import sys
import time
from types import SimpleNamespace

import numpy as np

PAD, BOS, EOS, UNK = 0, 1, 2, 3
FIRST_SYMBOL = 4
NO_END = -1e9  # bias that prevents the end of sentence
# Shape of the gamma distribution with the mean (21.4) and the variance of the words per sentence of newstest2016.
_NEWS_SHAPE = 3.67


def options() -> SimpleNamespace:
    """Reads the work to do: task, length, examples, batch, beam, units, vocabulary, attention, threads and so on.

    If several processes share the work, this one does every `parts`-th batch, from batch `part`. With `as_source`,
    hypotheses are as long as their sources.
    """
    defaults = {"task": "decode", "beam": 1, "as_source": False}
    return SimpleNamespace(**defaults | json.loads(sys.argv[1]))


def sources(work: SimpleNamespace) -> list[np.ndarray]:
    """Makes sources (token ids), longest first; at least one token each, because some systems refuse empty sources.

    Their lengths are `work.source_lengths`: "uniform" on 0..L, "news" for the distribution of newstest2016 (English)
    with mean L, or a number.
    """
    random = np.random.default_rng(0)
    if work.source_lengths == "uniform":
        lengths = random.integers(0, work.length + 1, work.examples)
    elif work.source_lengths == "news":
        lengths = np.round(random.gamma(_NEWS_SHAPE, work.length / _NEWS_SHAPE, work.examples)).astype(np.int64)
    else:
        lengths = np.full(work.examples, work.source_lengths)
    lengths = np.maximum(1, lengths)
    return [random.integers(FIRST_SYMBOL, work.vocabulary, length) for length in sorted(lengths, reverse=True)]


def tokens_of_batch(work: SimpleNamespace) -> int:
    """Returns the mean number of source tokens of a batch."""
    return sum(map(len, sources(work))) * work.batch // work.examples


def batches(work: SimpleNamespace) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns padded ids [B, S] and lengths [B] of the batches of this process, longest first."""
    rows, padded = sources(work), []
    for start in range(work.part * work.batch, len(rows), work.parts * work.batch):
        batch = rows[start : start + work.batch]
        lengths = np.array([len(row) for row in batch], np.int64)
        ids = np.full((len(batch), lengths.max()), PAD, np.int64)
        for row, source in zip(ids, batch, strict=True):
            row[: len(source)] = source
        padded.append((ids, lengths))
    return padded


def training_batch(work: SimpleNamespace) -> tuple[np.ndarray, np.ndarray]:
    """Makes source and target ids [B, L], all of full length."""
    random = np.random.default_rng(1)
    return tuple(random.integers(FIRST_SYMBOL, work.vocabulary, (2, work.batch, work.length)))


def serve(versions: dict, notes: str, run, **facts) -> None:
    """Warms up with one run(), replies with `facts` that the worker is ready, then does one run() per line of input."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the libraries' output goes to standard error
    run()
    replies.write(json.dumps({"versions": versions, "notes": notes, **facts}) + "\n")
    for _ in sys.stdin:
        used, start = time.process_time(), time.perf_counter()
        run()
        seconds, used = time.perf_counter() - start, time.process_time() - used
        replies.write(json.dumps({"seconds": seconds, "cpu_seconds": used, "peak_memory_MiB": _peak_memory()}) + "\n")


def serve_decoding(work: SimpleNamespace, versions: dict, notes: str, decode, end: int = EOS) -> None:
    """Decodes the batches of this process in each run: decode(ids [B, S], lengths [B]) gives hypotheses [B, L].

    `end` is the end of sentence in the hypotheses, which none may have.
    """
    all_batches = batches(work)

    def run():
        for ids, lengths in all_batches:
            hypotheses = np.asarray(decode(ids, lengths))
            if hypotheses.shape != (len(ids), work.length) or (hypotheses == end).any():
                raise SystemExit(f"hypotheses of shape {hypotheses.shape}, not all {work.length} tokens long")

    serve(versions, notes, run)


def serve_training(work: SimpleNamespace, versions: dict, notes: str, step) -> None:
    """Does one training step in each run; step() returns the loss."""

    def run():
        if not np.isfinite(step()):
            raise SystemExit("the loss is not finite")

    run()  # `serve` warms up once more: a second step may still compile
    serve(versions, notes, run)


def _peak_memory() -> float:
    """Returns the peak memory of this process in MiB.

    getrusage() would include the memory that the parent held when it started this process.
    """
    with open("/proc/self/status", encoding="utf-8") as file:
        (line,) = (line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024
