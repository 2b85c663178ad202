"""Evaluates a trained run: decodes a test set, scores and times it, draws alignments.

memattn-eval --run_dir runs/small
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import os
from typing import TYPE_CHECKING

from absl import flags

from memattn.errors import ConfigError
from memattn.runs import check_exist

if TYPE_CHECKING:
    from memattn.runs.result import Result


def summary(result: "Result") -> str:
    """Returns the lines that the command prints of a result: scores, times and conditions."""
    from memattn.evaluation.metrics import REPORTED

    search = "sampled" if result.config["decoding"]["sample"] else f"beam {result.beam_size}"
    scores = [
        f"{metric.title:20}{metric.with_unit(result.scores[name])}  {result.signatures.get(name, '')}".rstrip()
        for name, metric in REPORTED.items()
        if name in result.scores
    ]
    lines = [
        *scores,
        f"decode time         {result.decode_seconds:.3g} s, median of {result.repeats} ({result.time_range} s) for "
        f"{result.sentences:,} sentences",
        f"                    {result.sentences_per_second:,.1f} sentences/s, {result.tokens_per_second:,.0f} tokens/s",
        f"                    {search}, batch {result.batch_size}, {'XLA' if result.jit_compile else 'graph'}, "
        f"{result.dtype}, {result.device}, {result.cores} cores, TensorFlow {result.tensorflow}",
        f"checkpoint          step {result.step:,}, {result.parameters:,} parameters",
    ]
    return "\n".join(lines)


def _check_flags() -> None:
    options = flags.FLAGS
    if (options.source is None) != (options.target is None) or (options.source is not None and options.split):
        raise ConfigError("--source and --target: give both, or a --split")
    check_exist(options.run_dir)
    for path in filter(None, (options.source, options.target)):
        os.stat(path)


def _main() -> int:
    from memattn.api import evaluate_model
    from memattn.runs.run import ALIGNMENTS, RESULTS, Run

    options = flags.FLAGS
    split = options.split or "valid"
    result = evaluate_model(
        options.run_dir,
        split,
        options.set,
        files=(options.source, options.target) if options.source else None,
        average=options.average,
        repeats=options.repeats,
        num_plots=options.plot,
        rouge=options.rouge,
        output_dir=options.output_dir,
    )
    print(summary(result))
    output_dir = options.output_dir or Run(options.run_dir[0]).results_folder(options.source or split)
    names = [name for name in RESULTS if os.path.exists(os.path.join(output_dir, name))]
    if options.plot and ALIGNMENTS not in names:
        print("--plot: nothing drawn; the model has no attention, or every translation is empty")
    print(f"written to {output_dir}: {', '.join(names)}")
    return 0


def main() -> None:
    flags.DEFINE_multi_string("run_dir", None, "Run folder of memattn-train; several form an ensemble.", required=True)
    flags.DEFINE_multi_string("set", [], "Override of a key, such as decoding.beam_size=1; repeatable.")
    flags.DEFINE_string("split", None, "Split of the prepared corpus that is decoded (default: valid).")
    flags.DEFINE_string("source", None, "File of sources, in the form of the training text, instead of a split.")
    flags.DEFINE_string("target", None, "File of the references of --source.")
    flags.DEFINE_integer("average", None, "Average of the last N checkpoints (default: the best).", lower_bound=1)
    flags.DEFINE_integer("repeats", 5, "Number of timed decodings; their median counts.", lower_bound=1)
    flags.DEFINE_bool("rouge", False, "Compute ROUGE, for summaries.")
    flags.DEFINE_integer("plot", 0, "Number of sentences, the longest, whose alignments are drawn.", lower_bound=0)
    flags.DEFINE_string("output_dir", None, "Folder of the results (default: RUN/eval/SPLIT, or RUN/eval/FILE).")
    cli.run(_main, tensorflow=True, check=_check_flags)


if __name__ == "__main__":
    main()
