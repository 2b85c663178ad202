"""Makes the paper's tables and figures, and tables and figures on further questions.

There are three scales: the paper's (paper), scaled down for two CPU cores (small), and for the copy task the paper's
size with fewer training steps at a higher learning rate (cpu).

python scripts/reproduce.py table1 figure3 --scale small
python scripts/reproduce.py all --scale paper --dry_run

Results go to runs/results/TARGET/SCALE. If it was stopped, the same command resumes. Run it in the folder that holds
configs/. Without targets, it lists those of the scale.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import os
import sys

from absl import flags

from memattn.errors import ConfigError, DataError, RunError
from memattn.options import not_one_of


def main(*names: str) -> int:
    from studies import runner

    paths = [os.path.dirname(os.path.abspath(__file__)), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))  # where trainings find studies.mechanisms
    options = flags.FLAGS
    available = runner.available(options.scale)
    if not names:
        raise ConfigError(f"give targets: all, or some of {', '.join(available)}")
    for name in names:
        if name not in ("all", *runner.TARGETS):
            raise ConfigError(not_one_of(name, ["all", *runner.TARGETS]))
        if name not in ("all", *available):
            raise ConfigError(f"{name}: not made at --scale {options.scale}, which has {', '.join(available)}")
    targets = available if "all" in names else list(dict.fromkeys(names))
    if options.dry_run:
        print(runner.listing(targets, options.scale))
        return 0
    runner.check(targets, options.scale)
    reproduction = runner.Reproduction(options)
    not_made = []
    for name in targets:
        try:
            reproduction.make(name)
        except (ConfigError, DataError, RunError) as error:
            print(f"{name}: not made: {error}", file=sys.stderr)
            not_made.append(name)
    if reproduction.failed:
        print(f"{len(reproduction.failed)} runs failed: {', '.join(reproduction.failed)}", file=sys.stderr)
    return cli.FAILURE if not_made or reproduction.failed else 0


if __name__ == "__main__":
    flags.DEFINE_enum("scale", "small", ["small", "paper", "cpu"], "Scale of the runs.")
    flags.DEFINE_bool("dry_run", False, "List the runs and their costs; train nothing.")
    flags.DEFINE_integer("jobs", 1, "Trainings that run concurrently.", lower_bound=1)
    flags.DEFINE_string("results_dir", "runs/results", "Folder of the results: TARGET/SCALE for each target.")
    cli.run(main, tensorflow=True)
