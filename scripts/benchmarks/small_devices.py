"""Times memattn and its exports to ONNX beside decoders of small devices, on single sentences and on batches.

python scripts/benchmark.py small_devices
"""

import itertools
from typing import Any

from absl import flags
from studies import standalone

from benchmarks import race, systems, tables
from memattn.evaluation import formatting

REFERENCE = "CTranslate2: Transformer, int8"
TIMED = [
    "memattn: memory, K = 32",
    "memattn: memory, K = 32, ONNX",
    "memattn: memory, K = 32, ONNX int8",
    "Marian: SSRU, int8",
    REFERENCE,
]
# CTranslate2 was fastest with at most this many tokens of hypotheses in a thread's batch. More overflow its caches.
CACHED_TOKENS = 800


def main() -> None:
    options, rows = flags.FLAGS, []
    title = (
        f"Decode time of a batch, untrained models of {options.units} units, vocabulary {options.vocabulary:,}; L "
        "tokens in each source and, in all systems, in each hypothesis; only speed is compared, not quality"
    )
    sizes = list(itertools.product(options.lengths, options.beam_sizes, options.batch_sizes))
    works = [{name: _work(name, *size, options) for name in options.systems} for size in sizes]
    race.check(works, options)
    for (length, beam, batch), works_of_size in zip(sizes, works, strict=True):
        measured = race.race(works_of_size, options)
        reference = measured.get(REFERENCE)
        for row in tables.rows_of(length, measured):
            ratio = round(row["seconds"] / reference.median, 2) if reference else ""
            rows.append({"beam": beam, "batch": batch, **row, "time / CTranslate2 int8": ratio})
        table, notes = tables.without_notes(rows)
        tables.store(options, table, title=title, repeats=options.repeats, threads=options.threads, systems=notes)
    print(f"\n{title}\n\n{formatting.markdown(table)}")


def _work(name: str, length: int, beam: int, batch: int, options: flags.FlagValues) -> dict[str, Any]:
    """Returns the work of a system: to decode a batch of sources into hypotheses as long as they."""
    together = decoded_together(systems.SYSTEMS[name].worker, batch, beam * length, options)
    return {"length": length, "source_lengths": length, "examples": batch, "beam": beam, "batch": together}


def decoded_together(worker: systems.Worker, batch: int, tokens: int, options: flags.FlagValues) -> int:
    """Returns how many sentences of a batch, with so many tokens of hypotheses each, a worker decodes at once."""
    if worker.name != "ct2":
        return batch
    return min(batch, options.threads * max(1, CACHED_TOKENS // tokens))


def define_flags() -> None:
    """Defines the flags of `main`."""
    race.define_flags(systems=TIMED, known=list(systems.SYSTEMS), lengths="25,200")
    tables.define_output("small_devices")
    for name, value in {"vocabulary": 4000, "repeats": 11, "threads": 1}.items():
        flags.FLAGS.set_default(name, value)
    standalone.define_numbers("beam_sizes", "1,5", "Hypotheses of each sentence.")
    standalone.define_numbers("batch_sizes", "1,4,16,64", "Sentences to decode.")
