"""Translates lines of standard input as they arrive, with a model in ONNX and without TensorFlow.

memattn-onnx --model exported/onnx < source.txt > translations.txt
"""

import sys
from typing import Any

from absl import flags

from memattn import cli, console

_OPTIONS = ("scores", "alignment", "threads", "beam_size", "batch_size", "length_penalty")  # of `load_onnx`


def _main() -> int:
    from memattn.serving.streaming import available_lines, write_results
    from memattn.serving.translator import load_onnx

    options = flags.FLAGS
    given: dict[str, Any] = {name: options[name].value for name in _OPTIONS if options[name].value is not None}
    work = load_onnx(options.model, n_best=options.nbest, **given)
    try:
        write_results(work, available_lines(sys.stdin.fileno(), work.batch_size, 16 * work.batch_size))
    except BrokenPipeError:
        console.silence()
    return 0


def main() -> None:
    flags.DEFINE_string("model", None, "Folder that `memattn-export --format onnx` wrote.", required=True)
    flags.DEFINE_integer("beam_size", None, "Hypotheses of a source (default: as exported).", lower_bound=1)
    flags.DEFINE_float("length_penalty", None, "Length penalty (default: as exported).", lower_bound=0)
    flags.DEFINE_integer("batch_size", None, "Lines translated at once (default: as exported).", lower_bound=1)
    flags.DEFINE_integer("threads", 0, "Threads; 0: one for each core.", lower_bound=0)
    meaning = "Number of translations of each line; if above 1, each follows the number of its line."
    flags.DEFINE_integer("nbest", 1, meaning, lower_bound=1)
    flags.DEFINE_boolean("scores", False, "Print the score before each translation.")
    flags.DEFINE_enum(
        "alignment",
        None,
        ["hard", "soft"],
        "Print word alignments after each translation (hard), or JSON with the weights of all source tokens (soft).",
    )
    cli.run(_main)


if __name__ == "__main__":
    main()
