"""Exports a trained model, as a TensorFlow SavedModel with its search or as graphs of ONNX.

memattn-export --run_dir runs/small --output exported/small
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import functools
from collections.abc import Callable

from absl import flags

from memattn.errors import ConfigError
from memattn.runs import check_exist


def _check_flags() -> None:
    from memattn import files

    options = flags.FLAGS
    check_exist(options.run_dir)
    files.check_new(options.output)


def _main() -> int:
    from memattn.runs.trained import load

    options = flags.FLAGS
    trained = load(options.run_dir, options.set, options.average)
    exporter(options.format)(trained, options.output)
    print(f"{options.output}: takes sources of up to {trained.max_source_length:,} tokens")
    return 0


def exporter(name: str) -> Callable[..., None]:
    """Returns the function that exports in a format. Raises ConfigError if a package for it is missing."""
    if name == "saved_model":
        from memattn.serving import saved_model

        return saved_model.export
    try:
        from memattn.onnx_export import export as onnx_export
    except ImportError as error:
        problem = f"--format {name}: needs the package {error.name}, of the extra `onnx`"
        raise ConfigError(f"{problem}: pip install -e '.[onnx]' in the clone") from error
    return functools.partial(onnx_export.export, int8=name == "onnx-int8")


def main() -> None:
    flags.DEFINE_multi_string("run_dir", None, "Run folder of memattn-train; several form an ensemble.", required=True)
    flags.DEFINE_string("output", None, "Folder of the exported model, which must not exist.", required=True)
    flags.DEFINE_enum(
        "format",
        "saved_model",
        ["saved_model", "onnx", "onnx-int8"],
        "Format: TensorFlow's SavedModel; or graphs of ONNX for memattn-onnx, with weights in float32 or in 8 bits.",
    )
    flags.DEFINE_multi_string("set", [], "Override of a key, such as decoding.beam_size=1; repeatable.")
    flags.DEFINE_integer("average", None, "Average of the last N checkpoints (default: the best).", lower_bound=1)
    cli.run(_main, tensorflow=True, check=_check_flags)


if __name__ == "__main__":
    main()
