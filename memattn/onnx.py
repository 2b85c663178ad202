"""Translates lines of standard input as they arrive, with a model in ONNX and without TensorFlow.

memattn-onnx --model exported/onnx < source.txt > translations.txt
"""

from typing import Any

from absl import flags

from memattn import cli, translate

_OPTIONS = ("beam_size", "length_penalty", "batch_size", "threads", "scores", "alignment")  # of `load_onnx`


def _main() -> int:
    from memattn.serving.translator import load_onnx

    options = flags.FLAGS
    given: dict[str, Any] = {name: options[name].value for name in _OPTIONS}
    translate.write_results(load_onnx(options.model, n_best=options.nbest, **given))
    return 0


def main() -> None:
    flags.DEFINE_string("model", None, "Folder that memattn-export wrote, in a format of ONNX.", required=True)
    flags.DEFINE_integer("beam_size", None, "Hypotheses of a source (default: as exported).", lower_bound=1)
    flags.DEFINE_float("length_penalty", None, "Length penalty (default: as exported).", lower_bound=0)
    flags.DEFINE_integer("batch_size", None, "Lines translated at once (default: as exported).", lower_bound=1)
    flags.DEFINE_integer("threads", 0, "Threads; 0: one for each core.", lower_bound=0)
    translate.define_output_flags()
    cli.run(_main)


if __name__ == "__main__":
    main()
