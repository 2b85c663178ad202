"""Times the models of runs as they decode a split in turns, and writes their BLEU beside the times.

python scripts/benchmark.py trained RUN_DIR RUN_DIR ... --split valid

A run's speed-up is the first run's time divided by its own. Each model searches as its run's config says, and its own
end-of-sentence tokens end its hypotheses. Times exclude model construction, compiling, reading and scoring.
"""

import os
import statistics

from absl import flags

from benchmarks import tables
from memattn import files
from memattn.errors import ConfigError
from memattn.evaluation import formatting


def main(*run_dirs: str) -> None:
    from benchmarks.decoders import decoder, in_turns
    from memattn.evaluation import evaluate as evaluation
    from memattn.evaluation.evaluate import read_split
    from memattn.runs.trained import load
    from memattn.search.searcher import Searcher

    options = flags.FLAGS
    if len(run_dirs) < 2:
        raise ConfigError("give at least two run folders; their times are compared")
    if len(set(run_dirs)) < len(run_dirs):
        raise ConfigError("a run folder is given twice")
    files.make_folder(os.path.dirname(options.output))
    decoders, rows, references = {}, [], None
    for run_dir in run_dirs:
        trained = load([run_dir], options.set)
        test_set = read_split(trained, options.split)
        if references is not None and test_set.references != references:
            raise ConfigError(f"{run_dir}: has another test set than {run_dirs[0]}; their times cannot be compared")
        references = test_set.references
        result = evaluation.evaluate(trained, test_set, repeats=1).result
        searcher = Searcher(trained.model, trained.config.decoding, trained.lexicon)
        num_buckets = trained.config.data.num_buckets
        decoders[run_dir] = decoder(searcher, test_set.source, trained.vocabulary, num_buckets)
        rows.append(
            {
                "run": os.path.basename(os.path.normpath(run_dir)),
                "BLEU": f"{result.scores['bleu']:.2f}",
                "sentences": result.sentences,
                "beam": result.beam_size,
                "step": result.step,
            }
        )
    seconds = in_turns(decoders, options.repeats)
    baseline = statistics.median(seconds[run_dirs[0]])
    for row, times in zip(rows, seconds.values(), strict=True):
        row |= {
            "decode s": f"{statistics.median(times):.3g}",
            "min-max": formatting.extent(times, ".3g"),
            "speed-up over the first": f"{baseline / statistics.median(times):.2f}",
        }
    title = f"Decode time of the {options.split} split, trained runs in turns, median of {options.repeats}"
    tables.store(options, rows, title=title, repeats=options.repeats)
    print(f"\n{title}\n\n{formatting.markdown(rows)}")


def define_flags() -> None:
    """Defines the flags of `main`."""
    flags.DEFINE_string("split", "valid", "Split of the prepared corpus of each run.")
    flags.DEFINE_multi_string("set", [], "Overrides of decoding keys for all runs, such as decoding.beam_size=1.")
    flags.DEFINE_integer("repeats", 10, "Timed decodings of each run.", lower_bound=1)
    tables.define_output("trained")
