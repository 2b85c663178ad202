"""Trains and evaluates the runs of a sweep, each in its own process, and writes their table."""

import concurrent.futures
import contextlib
import csv
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, TextIO

from memattn import config as configs
from memattn import console, files, processes, reading
from memattn.config import Config
from memattn.data import corpus, task_corpus
from memattn.errors import ConfigError
from memattn.evaluation import evaluate as evaluation
from memattn.evaluation import formatting, plots
from memattn.runs.provenance import conditions
from memattn.runs.run_folder import BEST, CHECKPOINTS, CONFIG, load_config
from memattn.sweeps import tables
from memattn.sweeps.expand import changes, expand

LOG = "log.txt"
_TIMES = ("decode_seconds", "decode_seconds_min", "decode_seconds_max")
_FIGURES = ("bleu", "exact_match", *_TIMES, "sentences", "parameters", "step")  # of every result
_KINDS = {"config": dict, "checkpoints": list, "split": str, **dict.fromkeys(_FIGURES, float)}
_LARGEST_FIGURE = 1e15


class Run(NamedTuple):
    """A trained and evaluated run of a sweep.

    Attributes:
      validations: rows of its validation.csv.
      changes: dotted keys with the values that set it apart from the other runs.
    """

    name: str
    folder: str
    config: Config
    result: dict[str, Any]
    validations: list[dict[str, str]]
    changes: Mapping[str, Any] = {}

    @property
    def curve(self) -> list[tuple[int, float]]:
        """Steps, and validation BLEU after each."""
        return [(int(row["step"]), float(row["bleu"])) for row in self.validations]

    def updates_to(self, bleu: float) -> int | None:
        """The first step whose validation BLEU is at least `bleu`; None if there is none."""
        return next((step for step, own in self.curve if own >= bleu), None)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Makes SIGTERM, like Ctrl-C, end this process and those that it started; a second signal is ignored.

    Does nothing outside of the main thread, which alone receives signals.
    """

    def end(number, _):
        for each in former:
            signal.signal(each, signal.SIG_IGN)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    former = {}
    if threading.current_thread() is threading.main_thread():
        heard = [one for one in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(one) != signal.SIG_IGN]
        former = {number: signal.signal(number, end) for number in heard}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@_terminable()
def run_sweep(
    config: Config,
    sweep_dir: str,
    *,
    jobs: int,
    split: str,
    average: int | None,
    repeats: int,
    plots: int,
    strategy: str,
    title: str,
    only: Collection[str] | None = None,
) -> list[str]:
    """Trains missing runs, `jobs` at a time, then evaluates one at a time, so that times are not disturbed.

    Runs are evaluated with their best checkpoint, or with the average of their last `average` ones.

    Writes table.csv, table.md, learning_curves.png and manifest.json into `sweep_dir`, and seeds.csv if runs differ
    only in their seeds. The row of a run that failed says why. With `only`, does the runs of those names and writes
    none of these. Returns the names of the runs that failed. Raises ConfigError if the folder holds another sweep's
    runs or a corpus lacks the split, RunError if another process is at work on the same sweep or the same runs of it,
    OSError if the folder cannot be written.
    """
    every = expand(config)
    runs = {name: one for name, one in every.items() if only is None or name in only}
    for data in (one.data for one in runs.values()):
        if data.generated or os.path.isdir(data.path):  # else training reports what is missing
            corpus.check_split(data.path, split, task_corpus.SPLITS if data.generated else corpus.splits(data.path))
    folders = {name: os.path.join(sweep_dir, name) for name in runs}
    with contextlib.ExitStack() as stack:
        works = {sweep_dir: "sweep"} if only is None else {}
        works |= {folder: name for name, folder in folders.items()}
        for folder, name in works.items():
            lock = os.path.join(sweep_dir, f"{name}.lock")
            stack.enter_context(processes.locked(lock, folder, "is working on it; wait, or use another --sweep_dir"))
        for name, folder in folders.items():
            if os.path.exists(os.path.join(folder, CONFIG)):
                found, wanted = configs.to_dict(load_config(folder)), configs.to_dict(runs[name])
                differing = configs.differences(found, wanted)
                if differing:
                    keys = ", ".join(map(str, differing))
                    raise ConfigError(f"{folder}: holds a run of another config: {keys}; use another --sweep_dir")
            os.makedirs(folder, exist_ok=True)
            files.write(os.path.join(sweep_dir, f"{name}.yaml"), configs.dump(runs[name]))
        missing = [name for name in runs if _result(folders[name], runs[name], split, average) is None]
        console.say(f"{len(runs)} runs, {len(runs) - len(missing)} done before, {len(missing)} to do")
        failed, children = {}, _Processes()

        def train(name: str) -> None:
            arguments = ["--config", os.path.join(sweep_dir, f"{name}.yaml"), "--strategy", strategy]
            status = _command("memattn.train", name, folders[name], arguments, children)
            if status:
                failed[name] = f"training ended with status {status}"

        def evaluate(name: str) -> None:
            arguments = ["--split", split, "--output_dir", folders[name]]
            arguments += ["--repeats", str(repeats), "--plot", str(plots)]
            arguments += ["--average", str(average)] if average else []
            if name not in failed:
                status = _command("memattn.eval", name, folders[name], arguments, children)
                if status:
                    failed[name] = f"evaluation ended with status {status}"

        for work, workers in ((train, jobs), (evaluate, 1)):
            with concurrent.futures.ThreadPoolExecutor(workers) as pool:
                try:
                    list(pool.map(work, missing))
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    children.end()
                    print("ending the runs; trainings write a checkpoint", file=sys.stderr, flush=True)
                    raise
        reasons = {name: _failure(name, problem, folders[name]) for name, problem in failed.items()}
        if len(runs) == len(every):
            done = finished(config, sweep_dir, split, average)
            lost = set(runs) - {run.name for run in done} - set(failed)
            reasons |= dict.fromkeys(lost, "validation.csv is damaged")
            _write_table(config, done, reasons, sweep_dir, title)
        return list(failed)


def finished(config: Config, sweep_dir: str, split: str, average: int | None = None) -> list[Run]:
    """The runs of a sweep that have a result on a split."""
    done, changed = [], changes(config)
    for name, one in expand(config).items():
        folder = os.path.join(sweep_dir, name)
        result = _result(folder, one, split, average)
        if result is not None:
            path = os.path.join(folder, "validation.csv")
            if validations := _validations(path):
                done.append(Run(name, folder, one, result, validations, changed[name]))
            else:
                warnings.warn(f"{name}: {path} is damaged; remove {folder} to train it again", stacklevel=2)
    return done


def _validations(path: str) -> list[dict[str, str]]:
    """The rows of a run's validation.csv; none if it is missing or damaged."""
    try:
        rows = list(csv.DictReader(io.StringIO(reading.text(path), newline="")))
        _ = [(int(row["step"]), float(row["bleu"]), float(row["seconds"])) for row in rows]
    except (OSError, ValueError, TypeError, KeyError, csv.Error):
        return []
    return rows


def _write_table(config: Config, runs: list[Run], failed: dict[str, str], sweep_dir: str, title: str) -> None:
    """Writes table.csv, table.md and manifest.json, and of runs with a result also seeds.csv and learning_curves.png.

    `failed` says why other runs have no result.
    """
    changed = changes(config)
    done = {run.name: tables.row(run.name, run.config, run.result, run.validations) for run in runs}
    rows = [done.get(name) or tables.failed_row(name, failed[name]) for name in changed]
    columns = dict.fromkeys(column for row in [*done.values(), *rows] for column in row)  # that of failures is last
    rows = [{**dict.fromkeys(columns, ""), **row} for row in rows]
    files.write_csv(os.path.join(sweep_dir, "table.csv"), rows)
    markdown = formatting.markdown(rows)
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(sweep_dir, "seeds.csv"))  # of an earlier sweep
    settings = [run.config for run in runs], [run.changes for run in runs]
    if seeds := tables.over_seeds(list(done.values()), *settings):
        files.write_csv(os.path.join(sweep_dir, "seeds.csv"), seeds)
        markdown += f"\nOver seeds:\n\n{formatting.markdown(seeds)}"
    files.write(os.path.join(sweep_dir, "table.md"), f"{title}\n\n{markdown}")
    manifest = {
        "title": title,
        **conditions(),
        "configs": {run.name: configs.to_dict(run.config) for run in runs},
        "failed": failed,
    }
    files.write(os.path.join(sweep_dir, "manifest.json"), json.dumps(manifest, indent=2) + "\n")
    if runs:
        groups = tables.seed_groups(list(done), *settings)
        curves = {
            name: tables.at_common_steps([dict(runs[place].curve) for place in places])
            for name, places in groups.items()
        }
        plots.learning_curves(os.path.join(sweep_dir, "learning_curves.png"), curves, title)
    written = ["table.csv", "table.md", *["seeds.csv"] * bool(seeds), *["learning_curves.png"] * bool(runs)]
    console.say(f"\n{title}\n\n{markdown}\nwritten to {sweep_dir}: {', '.join([*written, 'manifest.json'])}")


def _failure(name: str, problem: str, folder: str) -> str:
    """Prints why a run failed, and returns the same for its row of the table."""
    log = os.path.join(folder, LOG)
    error = _last_error(log)
    print(f"{name}: {problem}; see {log}{error}", file=sys.stderr)
    return f"{problem}{error}"


def _last_error(log: str) -> str:
    """The last message of a failed run, to append to the name of its log; empty if there is none."""
    last = ""
    with contextlib.suppress(OSError), open(log, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("$ "):  # another command
                last = ""
            elif line.startswith("error: "):
                last = f": {line.strip()}"
    return last


def _result(folder: str, config: Config, split: str, average: int | None) -> dict | None:
    """The result of a run; None if there is none for exactly this config, split and choice of checkpoints."""
    try:
        of_text = {} if config.data.generated else {"sacrebleu": float}
        result = reading.json_file(os.path.join(folder, evaluation.RESULT), {**_KINDS, **of_text})
        found = configs.from_dict(result["config"])  # with the defaults of newer keys
        folders = [os.path.basename(os.path.dirname(path)) for path in result["checkpoints"]]
        same = result["split"] == split and configs.to_dict(found) == configs.to_dict(config)
        whole = all(abs(result[figure]) < _LARGEST_FIGURE for figure in _FIGURES)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return result if same and whole and folders == ([CHECKPOINTS] * average if average else [BEST]) else None


class _Processes:
    """The processes of a sweep: `end` ends them all, and none starts afterwards."""

    def __init__(self):
        self._lock, self._started, self._ended = threading.Lock(), [], False

    def start(self, command: list[str], errors: TextIO) -> tuple[subprocess.Popen, int]:
        """A process that ends with this one, and the pipe of its output; `errors` receives its standard error.

        Raises CancelledError after `end`, OSError.
        """
        with self._lock:
            if self._ended:
                raise concurrent.futures.CancelledError
            reading, writing = os.pipe()
            try:
                process = subprocess.Popen(
                    command,
                    stdout=writing,
                    stderr=errors,
                    pass_fds=[reading],  # a line without a reader must not end it
                    env={**os.environ, processes.PARENT: str(os.getpid())},
                    start_new_session=True,  # Ctrl-C goes to the sweep alone, which then ends its processes
                )
            finally:
                os.close(writing)
            self._started.append(process)
        return process, reading

    def end(self) -> None:
        """Sends SIGTERM to all: trainings write a checkpoint, from which the same command resumes."""
        with self._lock:
            self._ended = True
            for process in self._started:
                process.terminate()


def _command(module: str, name: str, folder: str, arguments: list[str], children: _Processes) -> int:
    """Runs a module on a run folder; shows its lines with the run's name, and keeps them in the run's log."""
    command = [sys.executable, "-m", module, "--run_dir", folder, *arguments]
    started, path = time.monotonic(), os.path.join(folder, LOG)
    with files.naming(path), open(path, "a", encoding="utf-8", buffering=1) as log:  # by lines: shared with the process
        log.write(f"$ {shlex.join(command)}\n")
        process, reading = children.start(command, log)
        with process, open(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                log.write(line)
                console.say(f"[{name}] {line}", end="")
    console.say(f"[{name}] {module} took {time.monotonic() - started:.0f} s")
    return process.returncode
