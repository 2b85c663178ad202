"""Trains and evaluates a grid of configs, each in its own process, and writes one table.

memattn-sweep --config configs/copy/demo.yaml --sweep_dir runs/demo
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import signal
import sys

from absl import flags

from memattn.errors import ConfigError


def _check_flags() -> None:
    from memattn import shipped

    if not (flags.FLAGS.sweep_dir or flags.FLAGS.list):
        raise ConfigError("--sweep_dir is missing; only --list needs none")
    shipped.find(flags.FLAGS.config)


def _main() -> int:
    from memattn import config as configs
    from memattn.sweeps.runner import run_sweep
    from memattn.sweeps.runs import expand

    options = flags.FLAGS
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # ends the runs, as Ctrl-C does
    config = configs.load(options.config, options.set)
    names = list(expand(config))
    if options.list:
        for number, name in enumerate(names):
            print(f"{number}\t{name}")
        return 0
    if options.cell is not None and options.cell >= len(names):
        raise ConfigError(f"--cell: {options.cell} is not one of the runs 0 to {len(names) - 1}; see --list")
    failed = run_sweep(
        config,
        options.sweep_dir,
        jobs=options.jobs,
        split=options.split,
        average=options.average,
        repeats=options.repeats,
        num_plots=options.plot,
        strategy=options.strategy,
        title=options.title or f"Sweep of {options.config}",
        only=None if options.cell is None else [names[options.cell]],
    )
    return cli.FAILURE if failed else 0


def main() -> None:
    flags.DEFINE_string(
        "config",
        None,
        "Config whose key sweep lists the runs: a YAML file, or a shipped one such as copy/demo.",
        required=True,
    )
    flags.DEFINE_string("sweep_dir", None, "Folder of the runs and the table; needed unless --list is given.")
    flags.DEFINE_multi_string("set", [], "Override of a key, such as training.max_steps=500; repeatable.")
    flags.DEFINE_bool("list", False, "Print the number and the name of each run; train nothing.")
    flags.DEFINE_integer("cell", None, "Number of a single run to do, from --list.", lower_bound=0)
    flags.DEFINE_integer("jobs", 1, "Number of trainings at a time.", lower_bound=1)
    flags.DEFINE_string("split", "valid", "Split that the runs are evaluated on.")
    flags.DEFINE_integer("average", None, "Average of the last N checkpoints (default: the best).", lower_bound=1)
    flags.DEFINE_integer("repeats", 5, "Number of timed decodings of a run that is not done yet.", lower_bound=1)
    flags.DEFINE_integer("plot", 0, "Number of pictures of alignments of a run that is not done yet.", lower_bound=0)
    flags.DEFINE_enum("strategy", "auto", ["auto", "none", "mirrored"], "Devices, as for memattn-train.")
    flags.DEFINE_string("title", None, "Heading of the table; should state the scale of the runs.")
    cli.run(_main, tensorflow=True, check=_check_flags)


if __name__ == "__main__":
    main()
