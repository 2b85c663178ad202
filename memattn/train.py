"""Trains a model; resumes a training that was stopped.

memattn-train --config configs/copy/small.yaml --run_dir runs/small
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

from absl import flags

from memattn.errors import ConfigError

STRATEGIES = ["none", "mirrored", "multi_worker", "auto"]  # keys of training.distribution.STRATEGIES


def _check_flags() -> None:
    from memattn import shipped

    if not (flags.FLAGS.run_dir or flags.FLAGS.print_config):
        raise ConfigError("--run_dir is missing; see --help")
    shipped.find(flags.FLAGS.config)


def _main() -> int:
    from memattn import config as configs

    options = flags.FLAGS
    if options.print_config:
        from memattn.config.commented import commented

        print(commented(configs.load(options.config, options.set)), end="")
        return 0

    from memattn.training import distribution
    from memattn.training.trainer import train

    strategy = distribution.STRATEGIES[options.strategy]()  # first: workers connect before TensorFlow starts
    return train(configs.load(options.config, options.set), options.run_dir, strategy)


def main() -> None:
    flags.DEFINE_string("config", None, "Config: a YAML file, or a shipped one such as copy/small.", required=True)
    flags.DEFINE_string(
        "run_dir",
        None,
        "Run folder: made if it is missing, else its training resumes. Required, except with --print_config.",
    )
    flags.DEFINE_bool("print_config", False, "Print all keys with their values and meanings, and end.")
    flags.DEFINE_multi_string("set", [], "Override of a key, such as model.attention.num_slots=64; repeatable.")
    flags.DEFINE_enum(
        "strategy",
        "auto",
        STRATEGIES,
        "Devices: one (none), all GPUs of this machine (mirrored), the workers of TF_CONFIG or Slurm (multi_worker); "
        "auto takes the workers if TF_CONFIG names several, else all GPUs.",
    )
    cli.run(_main, tensorflow=True, check=_check_flags)


if __name__ == "__main__":
    main()
