"""Times memattn and its exports to ONNX beside decoders of small devices, on single sentences and on batches.

python scripts/benchmark.py small_devices
"""

import itertools
import statistics

from absl import flags
from studies import standalone

from benchmarks import race, systems, tables
from memattn import processes
from memattn.evaluation import formatting

REFERENCE = "CTranslate2: Transformer, int8"
# CTranslate2 was fastest with at most this many tokens of hypotheses in a thread's batch. More overflow its caches.
CACHED_TOKENS = 800


def main() -> None:
    options, rows, notes = flags.FLAGS, [], {}
    title = (
        f"Decode time of a batch, untrained models of {options.units} units, vocabulary {options.vocabulary:,}; L "
        "tokens in each source and, in all systems, in each hypothesis; only speed is compared, not quality"
    )
    sizes = (options.lengths, options.beam_sizes, options.threads, options.batch_sizes)
    for length, beam, threads, batch in itertools.product(*sizes):
        work = race.work_of_size(
            options, length=length, source_lengths=length, examples=batch, batch=batch, beam=beam, threads=threads
        )
        runners = {
            name: (name, {**work, "batch": decoded_together(systems.SYSTEMS[name].worker, work)})
            for name in options.systems
        }
        measured = race.race(runners, options, warming_up=processes.cores())
        reference = measured.get(REFERENCE)
        for name, result in measured.items():
            rows.append(
                {
                    "L": length,
                    "beam": beam,
                    "threads": threads,
                    "batch": batch,
                    "system": name,
                    "seconds": float(f"{result.median:.4g}"),
                    "min-max": formatting.extent(result.seconds, ".4g"),
                    "time / CTranslate2 int8": round(result.median / reference.median, 2) if reference else "",
                    "CPU seconds": float(f"{statistics.median(result.cpu_seconds):.4g}"),
                    "peak MiB": result.peak_memory,
                    "background load": result.background_load,
                }
            )
            notes[name] = tables.notes(result)
        tables.store(options, rows, title=title, repeats=options.repeats, systems=notes)
    print(f"\n{title}\n\n{formatting.markdown(rows)}")


def decoded_together(worker: systems.Worker, work: dict) -> int:
    """Returns how many of the sentences a worker decodes at once, so that it is fastest."""
    if worker.name != "ct2":
        return work["batch"]
    return min(work["batch"], work["threads"] * max(1, CACHED_TOKENS // (work["beam"] * work["length"])))


def define_flags() -> None:
    """Defines the flags of `main`."""
    timed = ["memattn: memory, K = 32", *systems.SMALL_DEVICES, REFERENCE]
    race.define_flags(systems=timed, threads="1,2")
    tables.define_output("small_devices")
    race.define_sizes("25,200")
    flags.FLAGS.set_default("vocabulary", 4000)
    flags.FLAGS.set_default("repeats", 11)
    standalone.define_numbers("beam_sizes", "1,5", "Hypotheses of each sentence.")
    standalone.define_numbers("batch_sizes", "1,4,16,64", "Sentences to decode.")
