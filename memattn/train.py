"""Trains a model; resumes a training that was stopped.

memattn-train --config configs/copy/small.yaml --run_dir runs/small
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

from absl import flags

from memattn import config as configs

STRATEGIES = ["none", "mirrored", "multi_worker", "auto"]  # keys of training.distribution.STRATEGIES


def _main() -> int:
    from memattn.training import distribution
    from memattn.training.trainer import train

    options = flags.FLAGS
    strategy = distribution.STRATEGIES[options.strategy]()  # first: several workers must meet before TensorFlow starts
    return train(configs.load(options.config, options.set), options.run_dir, strategy)


def main() -> None:
    flags.DEFINE_string("config", None, "Config, a YAML file.", required=True)
    flags.DEFINE_string("run_dir", None, "Run folder, made if it is missing; else training resumes.", required=True)
    flags.DEFINE_multi_string("set", [], "Override of a key, such as model.attention.num_slots=64; repeatable.")
    flags.DEFINE_enum(
        "strategy",
        "auto",
        STRATEGIES,
        "Devices: one (none), all GPUs of this machine (mirrored), the workers of TF_CONFIG or Slurm (multi_worker); "
        "auto takes the workers if TF_CONFIG names several, else all GPUs.",
    )
    cli.run(_main, tensorflow=True)


if __name__ == "__main__":
    main()
