"""Writes a report of trained runs: scores, learning curves, and translations with their attention, in one HTML file.

memattn-report runs/small runs/large --output report.html
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import os

from absl import flags

from memattn.errors import ConfigError
from memattn.runs import check_exist


def _check_flags(*run_dirs: str) -> None:
    if not run_dirs:
        raise ConfigError("give run folders: memattn-report RUN... --output report.html")
    check_exist(run_dirs)


def _main(*run_dirs: str) -> int:
    options = flags.FLAGS
    from memattn import files
    from memattn.reports import content, page

    reported = [content.read(run_dir, options.split, options.set) for run_dir in run_dirs]
    files.make_folder(os.path.dirname(options.output))
    chosen = []
    if options.examples:
        for runs in content.by_test_set(reported):
            chosen.append(content.examples(runs, options.split, options.examples, options.set))
    files.write(options.output, page.page(reported, chosen, options.split))
    print(f"{options.output}: {', '.join(run_dirs)}; example translations: {sum(map(len, chosen))}")
    for run in reported:
        if run.result is None:
            command = content.evaluation_command(run, options.split)
            print(f"no evaluation on {options.split}; make one with: {command}")
    return 0


def main() -> None:
    flags.DEFINE_string("output", None, "HTML file to write.", required=True)
    flags.DEFINE_string("split", "valid", "Split whose evaluations are reported, and whose sentences are translated.")
    flags.DEFINE_integer(
        "examples", 10, "Number of sentences that are translated; 0 needs no checkpoints.", lower_bound=0
    )
    flags.DEFINE_multi_string("set", [], "Override of a key, such as decoding.beam_size=1; repeatable.")
    cli.run(_main, tensorflow=True, check=_check_flags)


if __name__ == "__main__":
    main()
