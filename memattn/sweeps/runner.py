"""Trains and evaluates the runs of a sweep, each in its own process, and writes their table."""

import concurrent.futures
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import IO

from memattn import config as configs
from memattn import console, files, processes
from memattn.config import Config
from memattn.data import corpus, tasks
from memattn.errors import ConfigError
from memattn.runs.run_folder import CONFIG, load_config
from memattn.sweeps import tables
from memattn.sweeps.expand import expand
from memattn.sweeps.overview import Overview
from memattn.sweeps.results import finished, is_final, result_of, validations

LOG = "log.txt"


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Makes SIGTERM, like Ctrl-C, end this process and those that it started; a second signal is ignored.

    Does nothing outside of the main thread, as no other thread gets signals.
    """

    def end(number, _):
        for caught in former:
            signal.signal(caught, signal.SIG_IGN)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    former = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                former[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@terminable()
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
    """Trains and evaluates the runs of a sweep that have no result yet, and writes the table of all.

    Trains `jobs` runs at a time, but evaluates one at a time, so that nothing disturbs the decode times. If `only`
    leaves out a run, writes no table.

    Args:
      config: config with the sweep.
      sweep_dir: folder of the runs and of the files that `tables.write` makes.
      jobs: trainings at a time.
      split: split that the runs are evaluated on.
      average: number of last checkpoints whose weights are averaged; None for the best checkpoint.
      repeats: timed decodings of each run.
      plots: sentences of each run whose alignments are drawn.
      strategy: devices of each training, as in memattn.train.
      title: heading of the table.
      only: names of the runs to train and evaluate; None for all.

    Returns:
      The names of the runs that failed. Their rows of the table say why.

    Raises:
      ConfigError: if the folder holds the runs of another sweep, or a corpus lacks the split.
      RunError: if another process works on the same runs.
      OSError: if the folder cannot be written.
    """
    all_runs = expand(config)
    runs = {name: run for name, run in all_runs.items() if only is None or name in only}
    folders = {name: os.path.join(sweep_dir, name) for name in runs}
    _check_split(runs.values(), split)
    with contextlib.ExitStack() as stack:
        if only is None:
            stack.enter_context(_locked(sweep_dir, "sweep", sweep_dir))
        for name, folder in folders.items():
            stack.enter_context(_locked(sweep_dir, name, folder))
        for name, run in runs.items():
            _write_config(run, sweep_dir, name)
        results = {name: result_of(folders[name], run, split, average) for name, run in runs.items()}
        missing = [name for name, result in results.items() if result is None or not is_final(folders[name], result)]
        console.say(f"{len(runs)} runs, {len(runs) - len(missing)} done before, {len(missing)} to do")
        labels = {name: f"[{number}]" for number, name in enumerate(all_runs)}
        for name in missing:
            console.say(f"{labels[name]} {name}")

        def train(name: str) -> int:
            arguments = ["--config", os.path.join(sweep_dir, f"{name}.yaml"), "--strategy", strategy]
            return command("memattn.train", labels[name], folders[name], arguments, children)

        def evaluate(name: str) -> int:
            arguments = ["--split", split, "--repeats", str(repeats), "--plot", str(plots)]
            arguments += ["--average", str(average)] if average else []
            return command("memattn.eval", labels[name], folders[name], arguments, children)

        children = Processes()
        steps = {name: _steps_left(runs[name], folders[name]) for name in missing}
        reasons = _failures("training", train, steps, jobs, folders, children)
        trained = dict.fromkeys([name for name in missing if name not in reasons], 1)
        reasons |= _failures("evaluation", evaluate, trained, 1, folders, children)
        if len(runs) == len(all_runs):
            done = [run for run in finished(config, sweep_dir, split, average) if run.name not in reasons]
            tables.write(config, done, reasons, sweep_dir, title)
        return list(reasons)


def _check_split(runs: Collection[Config], split: str) -> None:
    """Raises ConfigError if a corpus lacks the split."""
    for run in runs:
        data = run.data
        if data.generated:
            corpus.check_split(data.path, split, tasks.SPLITS)
        elif os.path.isdir(data.path):  # without a folder, training says what is missing
            corpus.check_split(data.path, split, corpus.splits(data.path))


def _locked(sweep_dir: str, name: str, folder: str) -> contextlib.AbstractContextManager:
    """Locks a run of a sweep, or the sweep itself, against other processes."""
    lock = os.path.join(sweep_dir, f"{name}.lock")
    return processes.locked(lock, folder, "is working on it; wait, or use another --sweep_dir")


def _write_config(run: Config, sweep_dir: str, name: str) -> None:
    """Makes the folder of a run, and its config beside it. Raises ConfigError if the folder holds another run."""
    folder = os.path.join(sweep_dir, name)
    if os.path.exists(os.path.join(folder, CONFIG)):
        stored = configs.to_dict(load_config(folder))
        if differing := configs.differences(stored, configs.to_dict(run)):
            keys = ", ".join(map(str, differing))
            raise ConfigError(f"{folder}: holds a run of another config: {keys}; use another --sweep_dir")
    files.make_folder(folder)
    files.write(os.path.join(sweep_dir, f"{name}.yaml"), configs.dump(run))


def _steps_left(run: Config, folder: str) -> int:
    """Returns the number of training steps between the last validation of a run and its end."""
    rows = validations(folder)
    return max(0, run.training.max_steps - (int(rows[-1]["step"]) if rows else 0))


def _failures(
    activity: str,
    work: Callable[[str], int],
    amounts: Mapping[str, int],
    jobs: int,
    folders: Mapping[str, str],
    children: "Processes",
) -> dict[str, str]:
    """Calls `work` with the name of each run, `jobs` at a time, and shows how many runs are done.

    Returns why runs failed, by name. `amounts` has the amount of work of each run, `folders` its run folder.
    """
    overview = Overview(activity, amounts, jobs)

    def show() -> None:
        if console.on_terminal():
            console.redraw()
        else:
            console.say("  ".join(overview.parts()))

    def do(name: str) -> str:
        overview.start(name)
        show()
        try:
            status = work(name)
            problem = f"{activity} ended with status {status}" if status else ""
        except OSError as error:  # such as that of the log
            problem = f"{activity} failed: {error.filename}: {error.strerror}"
        overview.end(name, has_failed=bool(problem))
        reason = _explain(name, problem, folders[name]) if problem else ""
        show()
        return reason

    with console.showing(overview.parts), concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            reasons = list(pool.map(do, amounts))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            children.end()
            console.say("ending the runs; trainings write a checkpoint, and the same command resumes them", sys.stderr)
            raise
    return {name: reason for name, reason in zip(amounts, reasons, strict=True) if reason}


def _explain(name: str, problem: str, folder: str) -> str:
    """Prints and returns why a run failed."""
    log = os.path.join(folder, LOG)
    error = last_error(log)
    console.say(f"{name}: {problem}; see {log}{error}", sys.stderr)
    return f"{problem}{error}"


def last_error(log: str) -> str:
    """Returns the last error in the log of a failed run, after ": "; "" if its last command reported none."""
    last = ""
    with contextlib.suppress(OSError), open(log, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("$ "):  # the next command begins
                last = ""
            elif line.startswith("error: "):
                last = f": {line.strip()}"
    return last


class Processes:
    """The processes of a sweep. `end` ends all of them, and no further process starts after it."""

    def __init__(self) -> None:
        self._lock, self._ended = threading.Lock(), False
        self._started: list[subprocess.Popen] = []

    def start(self, command: list[str], errors: IO[str]) -> tuple[subprocess.Popen, int]:
        """Starts a process that ends with this one; its standard error goes to the file `errors`.

        Returns the process, and the descriptor of the pipe with its output. Raises CancelledError after `end`, OSError.
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
                    pass_fds=[reading],  # keeps the pipe open for its last output if this process dies first
                    env={**os.environ, processes.PARENT: str(os.getpid())},
                    start_new_session=True,  # Ctrl-C goes to the sweep alone, which then ends its processes
                )
            finally:
                os.close(writing)
            self._started.append(process)
        return process, reading

    def end(self) -> None:
        """Sends SIGTERM to all processes. Trainings then write a checkpoint, from which the same command resumes."""
        with self._lock:
            self._ended = True
            for process in self._started:
                process.terminate()


def command(module: str, label: str, folder: str, arguments: list[str], children: Processes) -> int:
    """Runs a module on a run folder; returns its exit status.

    Prints the lines of its output after the run's label, and appends them to the log in the run folder.
    """
    command_line = [sys.executable, "-m", module, "--run_dir", folder, *arguments]
    started, path = time.monotonic(), os.path.join(folder, LOG)
    with (
        files.naming(path),
        open(path, "a", encoding="utf-8", buffering=1) as log,  # line by line, as the process writes too
    ):
        log.write(f"$ {shlex.join(command_line)}\n")
        process, reading = children.start(command_line, log)
        with process, open(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                log.write(line)
                console.say(f"{label} {line.rstrip()}")
    console.say(f"{label} {module} took {time.monotonic() - started:.0f} s")
    return process.returncode
