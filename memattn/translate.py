"""Translates lines of standard input as they arrive, or scores given pairs.

memattn-translate --run_dir runs/multi30k < source.txt > translations.txt
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import sys

from absl import flags

from memattn.errors import ConfigError


def _main() -> int:
    from memattn.runs.trained import load
    from memattn.search.translator import PairScorer, Translator, available_lines, translate

    options = flags.FLAGS
    if options.score and (options.nbest or options.scores or options.alignments):
        raise ConfigError("--score: scores given pairs; --nbest, --scores and --alignments are for translations")
    if sys.stdin is None:
        raise ConfigError("standard input is closed; give it lines to translate")
    trained = load(options.run_dir, ["decoding.jit_compile=false", *options.set], options.average)
    if options.score:
        work = PairScorer(trained)
    else:
        n_best = options.nbest or trained.config.decoding.n_best
        work = Translator(trained, n_best=n_best, scores=options.scores, alignments=options.alignments)
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    try:
        translate(work, available_lines(sys.stdin.fileno(), 16 * trained.config.decoding.batch_size))
    except BrokenPipeError:  # the reader has closed it
        cli.silence()
    return 0


def main() -> None:
    flags.DEFINE_multi_string("run_dir", None, "Run folder of memattn.train; several form an ensemble.", required=True)
    flags.DEFINE_multi_string("set", [], "Override, such as decoding.beam_size=5; repeatable.")
    flags.DEFINE_integer("average", None, "Last checkpoints to average (default: the best one).", lower_bound=1)
    flags.DEFINE_integer("nbest", None, "Hypotheses per line, each after the number of its line.", lower_bound=1)
    flags.DEFINE_boolean("scores", False, "Print the score before each translation.")
    flags.DEFINE_boolean("alignments", False, "Print word alignments after it; replace unknown words by the source's.")
    flags.DEFINE_boolean("score", False, "Print log-probabilities of pairs: lines of source, tab, target.")
    cli.run(_main, tensorflow=True)


if __name__ == "__main__":
    main()
