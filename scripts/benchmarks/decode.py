"""Times beam search of memattn and of other libraries on the same work. All hypotheses are forced to one length.

python scripts/benchmark.py decode
"""

import math

from absl import flags

from benchmarks import race, systems, tables
from memattn import cli
from memattn.errors import ConfigError

# The fastest settings of each worker.
# Number of processes that share cores and batches; memattn decodes two batches at once in a single process.
PROCESSES = {"ours": 1, "tfa": 2, "onmt_tf": 2, "onmt_py": 2, "joey_nmt": 2, "marian": 2, "ct2": 2}
# Greatest length of a source or hypothesis -> number of sources decoded together. The caches of a Transformer grow with
# hypotheses times length.
BATCH = {
    "ours": {math.inf: 32},
    "tfa": {20: 32, 50: 16, math.inf: 8},
    "onmt_tf": {20: 32, math.inf: 8},
    "onmt_py": {20: 32, math.inf: 8},
    "joey_nmt": {20: 32, math.inf: 8},
    "marian": {20: 32, math.inf: 16},
    "ct2": {20: 8, 35: 16, 50: 8, math.inf: 2},
}
BATCH_INT8 = {50: 4, 100: 2, math.inf: 1}


def main() -> int:
    options = flags.FLAGS
    if options.beam_size >= options.vocabulary:
        raise ConfigError("--beam_size: must be less than --vocabulary")
    works = []
    for length in options.lengths:
        longest = max(length, options.source_length or 0)
        runners = {}
        for name in options.systems:
            worker, precision = systems.SYSTEMS[name].worker, systems.SYSTEMS[name].precision
            processes = min(PROCESSES[worker], options.examples)
            sizes = BATCH_INT8 if precision == "int8" else BATCH[worker]
            batch = options.batch_size or next(size for bound, size in sizes.items() if longest <= bound)
            batch = min(batch, -(-options.examples // processes))
            work = race.work_of_size(
                options,
                length=length,
                source_lengths=options.source_length or "uniform",
                examples=options.examples,
                batch=batch,
                beam=options.beam_size,
            )
            runners[name] = name, {**work, "processes": processes}
        works.append((length, runners))
    for _, runners in works:
        race.check(runners)
    rows = []
    for length, runners in works:
        measured = race.race(runners, options)
        for name, result in measured.items():
            tokens = round(options.examples * length / result.median)
            rows.append({**tables.row(name, length, result, measured), "tokens/s": tokens})
    title = "Decode time of all sources"
    if options.source_length:
        title += f", {options.examples} of {options.source_length:,} tokens, L tokens in each hypothesis"
    tables.write(rows, options, title=title)
    return 0


def run() -> None:
    """Defines the flags, then runs `main`."""
    known = [name for name in systems.SYSTEMS if name not in systems.SMALL_DEVICES]
    race.define_flags(systems=systems.DECODED, known=known)
    tables.define_output("decode")
    race.define_sizes("20,50,100,200")
    flags.DEFINE_integer(
        "examples", 128, "Sources; their lengths are uniform on 0..L unless --source_length is given.", lower_bound=1
    )
    flags.DEFINE_integer("source_length", None, "Length of all sources, instead of uniform on 0..L.", lower_bound=1)
    flags.DEFINE_integer("beam_size", 10, "Hypotheses per source.", lower_bound=1)
    flags.DEFINE_integer("batch_size", None, "Sources decoded together (default: each system's best).", lower_bound=1)
    cli.run(main, tensorflow=True)
