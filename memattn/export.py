"""Exports a trained model with its search as a TensorFlow SavedModel, which runs without memattn.

memattn-export --run_dir runs/small --output exported/small
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

from absl import flags


def _main() -> int:
    from memattn.runs.trained import load
    from memattn.serving import saved_model

    options = flags.FLAGS
    trained = load(options.run_dir, options.set, options.average)
    longest = saved_model.export(trained, options.output, options.max_source_length)
    print(f"{options.output}: takes sources of up to {longest:,} tokens")
    return 0


def main() -> None:
    flags.DEFINE_multi_string("run_dir", None, "Run folder of memattn-train; several form an ensemble.", required=True)
    flags.DEFINE_string("output", None, "Folder of the SavedModel, which must not exist.", required=True)
    flags.DEFINE_multi_string("set", [], "Override of a key, such as decoding.beam_size=5; repeatable.")
    flags.DEFINE_integer("average", None, "Average of the last N checkpoints (default: the best).", lower_bound=1)
    flags.DEFINE_integer(
        "max_source_length",
        None,
        "Upper bound on tokens of a source (default: decoding.max_source_length, else twice the longest in training).",
        lower_bound=1,
    )
    cli.run(_main, tensorflow=True)


if __name__ == "__main__":
    main()
