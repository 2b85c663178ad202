"""Translates lines of standard input as they arrive, or scores given pairs.

memattn-translate --run_dir runs/multi30k < source.txt > translations.txt
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import sys
from typing import TYPE_CHECKING

from absl import flags

from memattn import console
from memattn.errors import ConfigError
from memattn.runs import check_exist

if TYPE_CHECKING:
    from memattn.serving.scorer import PairScorer
    from memattn.serving.translator import Translator

_TRANSLATION_FLAGS = ("nbest", "scores", "alignment")


def _check_flags() -> None:
    options = flags.FLAGS
    if options.score and (unused := [f"--{name}" for name in _TRANSLATION_FLAGS if options[name].value]):
        raise ConfigError(f"--score: scores given pairs; {', '.join(unused)}: for translations")
    check_exist(options.run_dir)


def _main() -> int:
    from memattn.runs.trained import load
    from memattn.serving.scorer import PairScorer
    from memattn.serving.translator import WITHOUT_XLA, from_trained

    options = flags.FLAGS
    trained = load(options.run_dir, [WITHOUT_XLA, *options.set], options.average)
    if options.score:
        write_results(PairScorer(trained))
    else:
        write_results(from_trained(trained, n_best=options.nbest, scores=options.scores, alignment=options.alignment))
    return 0


def write_results(work: "Translator | PairScorer") -> None:
    """Writes the results of `work` for the lines of standard input, each as soon as it is ready."""
    from memattn.serving.lines import available_lines

    number = 1
    try:
        for lines in available_lines(sys.stdin.fileno(), work.batch_size, 16 * work.batch_size):
            for result in work(lines, number):
                print(result, flush=True)
            number += len(lines)
    except BrokenPipeError:
        console.silence()


def define_output_flags() -> None:
    """Defines the flags that say what is written for a line."""
    meaning = "Number of translations of each line; if above 1, each follows the number of its line."
    flags.DEFINE_integer("nbest", None, meaning, lower_bound=1)
    flags.DEFINE_boolean("scores", False, "Print the score before each translation.")
    flags.DEFINE_enum(
        "alignment",
        None,
        ["hard", "soft"],
        "Print word alignments after each translation (hard), or JSON with the weights of all source tokens (soft).",
    )


def main() -> None:
    flags.DEFINE_multi_string("run_dir", None, "Run folder of memattn-train; several form an ensemble.", required=True)
    flags.DEFINE_multi_string("set", [], "Override of a key, such as decoding.beam_size=1; repeatable.")
    flags.DEFINE_integer("average", None, "Average of the last N checkpoints (default: the best).", lower_bound=1)
    define_output_flags()
    flags.DEFINE_boolean("score", False, "Print log-probabilities of pairs: lines of source, tab, target.")
    cli.run(_main, tensorflow=True, check=_check_flags)


if __name__ == "__main__":
    main()
