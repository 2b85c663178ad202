"""Times beam search of memattn and of other libraries on the same work. All hypotheses are forced to one length.

python scripts/benchmark.py decode
"""

from typing import Any

from absl import flags

from benchmarks import race, systems, tables
from memattn.errors import ConfigError

DECODED = [
    "memattn: no attention",
    "memattn: memory, K = 32",
    "memattn: windowed memory, K = 32",
    "memattn: Bahdanau",
    "tensorflow-addons: Bahdanau",
    "OpenNMT-tf: Bahdanau",
    "OpenNMT-py: Bahdanau",
    "Joey NMT: Bahdanau",
    "Marian: Bahdanau",
]


def main() -> None:
    options = flags.FLAGS
    if options.beam_size >= options.vocabulary:
        raise ConfigError("--beam_size: must be less than --vocabulary")
    works = {length: {name: _work(name, length, options) for name in options.systems} for length in options.lengths}
    race.check(works.values(), options)
    rows = []
    for length, works_of_length in works.items():
        for row in tables.rows_of(length, race.race(works_of_length, options)):
            rows.append({**row, "tokens/s": round(options.examples * length / row["seconds"])})
    title = "Decode time of all sources"
    if options.source_length:
        title += f", {options.examples} of {options.source_length:,} tokens, L tokens in each hypothesis"
    tables.write(rows, options, title=title)


def _work(name: str, length: int, options: flags.FlagValues) -> dict[str, Any]:
    """Returns the work of a system: to decode sources into hypotheses of a length, in batches that suit the system."""
    worker, longest = systems.SYSTEMS[name].worker, max(length, options.source_length or 0)
    processes = min(worker.processes, options.examples, options.threads)
    batch = options.batch_size or next(size for bound, size in worker.batch.items() if longest <= bound)
    return {
        "length": length,
        "source_lengths": options.source_length or "uniform",
        "examples": options.examples,
        "batch": min(batch, -(-options.examples // processes)),
        "beam": options.beam_size,
        "processes": processes,
    }


def define_flags() -> None:
    """Defines the flags of `main`."""
    race.define_flags(systems=DECODED, known=list(systems.SYSTEMS), lengths="20,50,100,200")
    tables.define_output("decode")
    flags.DEFINE_integer(
        "examples", 128, "Sources; their lengths are uniform on 0..L unless --source_length is given.", lower_bound=1
    )
    flags.DEFINE_integer("source_length", None, "Length of all sources, instead of uniform on 0..L.", lower_bound=1)
    flags.DEFINE_integer("beam_size", 10, "Hypotheses per source.", lower_bound=1)
    flags.DEFINE_integer("batch_size", None, "Sources decoded together (default: each system's best).", lower_bound=1)
