"""Times one decoder step of the search, without the encoder, against the length of the source.

python scripts/benchmark.py tokens

The time of a step is the difference in time between decoding many and few steps, divided by the difference in steps.
All models are timed in one process.
"""

import itertools
import os
import statistics
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

from absl import flags
from tqdm import tqdm

from benchmarks import race, systems, tables
from memattn import files
from memattn.evaluation import formatting

FEW, MANY = 20, 420  # decoder steps
MEASURE = "microseconds per token"


def main() -> None:
    from benchmarks.decoders import use_threads

    options = flags.FLAGS
    files.make_folder(os.path.dirname(options.output))
    race.use_device(options.device)
    use_threads(options.threads)
    rows = [row for length in options.lengths for row in times(options.systems, length, options)]
    work_of_a_step = f"{options.batch_size} sources together, {options.beam_size} hypotheses of each, random weights"
    tables.write(
        rows,
        options,
        title=f"Time to decode one token of one hypothesis, against the length L of the source ({work_of_a_step})",
        measure=MEASURE,
        scale="linear",
    )


def times(names: list[str], length: int, options: Any) -> list[dict[str, Any]]:
    """Returns a row for each system: its time for one token, for sources of a length.

    `options` have units, vocabulary, batch_size, beam_size, threads, jit_compile and repeats, as the flags of `main`.
    """
    from benchmarks.decoders import config_of, decoder, in_turns, sentences_of, untrained_model, vocabulary_of
    from memattn.search.searcher import Searcher

    searchers = {}
    for name, steps in itertools.product(names, (FEW, MANY)):
        sizes = {"source_lengths": length, "examples": options.batch_size, "batch": options.batch_size}
        decoded = {"length": steps, **sizes, "beam": options.beam_size, "as_source": False}
        work = SimpleNamespace(**race.complete(name, decoded, options))
        config = config_of(work)
        searchers[name, steps] = Searcher(untrained_model(config, work.vocabulary, length), config.decoding)
    sources, vocabulary = sentences_of(work), vocabulary_of(work)  # the same in all works
    with ThreadPoolExecutor(options.threads) as pool:
        compiled = pool.map(lambda searcher: decoder(searcher, sources, vocabulary, num_buckets=1), searchers.values())
        compiled = tqdm(compiled, f"compiling, L = {length:,}", len(searchers), unit="decoder", disable=None)
        decoders = dict(zip(searchers, compiled, strict=True))
    seconds = in_turns(decoders, options.repeats)
    tokens = (MANY - FEW) * options.batch_size * options.beam_size
    rows = []
    for name in names:
        pairs = zip(seconds[name, FEW], seconds[name, MANY], strict=True)
        of_a_token = [1e6 * (many - few) / tokens for few, many in pairs]
        rows.append(
            {
                "L": length,
                "system": name.removeprefix("memattn: "),
                MEASURE: f"{float(f'{statistics.median(of_a_token):.3g}'):g}",
                "min-max": formatting.extent(of_a_token, ".3g"),
                "notes": "XLA" if searchers[name, MANY].jit_compile else "graph",
            }
        )
    return rows


def define_flags() -> None:
    """Defines the flags of `main`."""
    race.define_timing(
        systems=["memattn: no attention", "memattn: memory, K = 32", "memattn: dot product", "memattn: Bahdanau"],
        known=[name for name in systems.OF_MEMATTN if not systems.SYSTEMS[name].selected],
        lengths="50,200,500,1000,2000,5000,10000,20000",
    )
    tables.define_output("tokens")
    flags.DEFINE_integer("batch_size", 2, "Sources decoded together.", lower_bound=1)
    flags.DEFINE_integer("beam_size", 10, "Hypotheses per source.", lower_bound=1)
