"""Times one decoder step of the search, without the encoder, against the length of the source.

python scripts/benchmark.py tokens

The time of a step is the difference in time between decoding many and few steps, divided by the difference in steps.
All models are timed in one process.
"""

import os
import statistics
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import flags
from tqdm import tqdm

from benchmarks import race, systems, tables
from memattn import files
from memattn.evaluation import formatting

if TYPE_CHECKING:
    from memattn.data.sentences import Sentences
    from memattn.data.vocabulary import Vocabulary
    from memattn.search.searcher import Searcher

FEW, MANY = 20, 420  # decoder steps
MEASURE = "microseconds per token"


def main() -> None:
    import tensorflow as tf

    options = flags.FLAGS
    files.make_folder(os.path.dirname(options.output))
    if options.device == "cpu":
        tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    rows = [row for length in options.lengths for row in times(options.systems, length, options)]
    work_of_a_step = f"{options.batch_size} sources together, {options.beam_size} hypotheses of each, random weights"
    tables.write(
        rows,
        options,
        title=f"Time to decode one token of one hypothesis, against the length L of the source ({work_of_a_step})",
        measure=MEASURE,
        scale="linear",
    )
    print(formatting.markdown(tables.pivot(rows, "L", itemgetter("system"), itemgetter(MEASURE))))


def times(names: list[str], length: int, options: Any) -> list[dict[str, Any]]:
    """Returns a row for each system: its time for one token, for sources of a length.

    `options` have units, vocabulary, batch_size, beam_size, threads, jit_compile and repeats, as the flags of `main`.
    """
    from benchmarks.decoders import decoder, in_turns

    sources, vocabulary = _sources(length, options)
    timed = [(name, steps) for name in names for steps in (FEW, MANY)]
    searchers = [_searcher(name, length, steps, options) for name, steps in timed]
    with ThreadPoolExecutor(options.threads) as pool:
        compiled = pool.map(lambda searcher: decoder(searcher, sources, vocabulary, num_buckets=1), searchers)
        compiled = tqdm(compiled, f"compiling, L = {length:,}", len(timed), unit="decoder", disable=None)
        decoders = dict(zip(timed, compiled, strict=True))
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
                "notes": "XLA" if searchers[0].jit_compile else "graph",
            }
        )
    return rows


def _searcher(name: str, length: int, steps: int, options: Any) -> "Searcher":
    """Returns a searcher of an untrained model, for sources of a length and hypotheses of `steps` tokens."""
    from benchmarks.decoders import config_of, untrained_model
    from memattn.search.searcher import Searcher

    work = race.work_of_size(options, length=steps, batch=options.batch_size, beam=options.beam_size, as_source=False)
    config = config_of(SimpleNamespace(**work, **race.settings(systems.SYSTEMS[name], options)))
    return Searcher(untrained_model(config, options.vocabulary, length), config.decoding)


def _sources(length: int, options: Any) -> tuple["Sentences", "Vocabulary"]:
    """Returns a batch of random sources of a length, and their vocabulary."""
    from memattn.data.sentences import Sentences
    from memattn.data.vocabulary import SPECIAL_TOKENS, Vocabulary

    ids = np.random.default_rng(0).integers(len(SPECIAL_TOKENS), options.vocabulary, (options.batch_size, length))
    vocabulary = Vocabulary([f"w{i}" for i in range(options.vocabulary - len(SPECIAL_TOKENS))])
    return Sentences.from_ids(ids.tolist()), vocabulary


def define_flags() -> None:
    """Defines the flags of `main`."""
    timed = ["memattn: no attention", "memattn: memory, K = 32", "memattn: dot product", "memattn: Bahdanau"]
    race.define_timing(systems=timed, known=systems.of_memattn(selecting=False))
    tables.define_output("tokens")
    race.define_sizes("50,200,500,1000,2000,5000,10000,20000")
    flags.DEFINE_integer("batch_size", 2, "Sources decoded together.", lower_bound=1)
    flags.DEFINE_integer("beam_size", 10, "Hypotheses per source.", lower_bound=1)
