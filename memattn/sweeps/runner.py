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
from collections.abc import Collection, Iterator
from typing import TextIO

from memattn import config as configs
from memattn import console, files, processes
from memattn.config import Config
from memattn.data import corpus, task_corpus
from memattn.errors import ConfigError
from memattn.runs.run_folder import CONFIG, load_config
from memattn.sweeps import tables
from memattn.sweeps.expand import expand
from memattn.sweeps.results import finished, result_of

LOG = "log.txt"


@contextlib.contextmanager
def terminable() -> Iterator[None]:
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
        missing = [name for name in runs if result_of(folders[name], runs[name], split, average) is None]
        console.say(f"{len(runs)} runs, {len(runs) - len(missing)} done before, {len(missing)} to do")
        failed, children = {}, Processes()

        def train(name: str) -> None:
            arguments = ["--config", os.path.join(sweep_dir, f"{name}.yaml"), "--strategy", strategy]
            status = command("memattn.train", name, folders[name], arguments, children)
            if status:
                failed[name] = f"training ended with status {status}"

        def evaluate(name: str) -> None:
            arguments = ["--split", split, "--output_dir", folders[name]]
            arguments += ["--repeats", str(repeats), "--plot", str(plots)]
            arguments += ["--average", str(average)] if average else []
            if name not in failed:
                status = command("memattn.eval", name, folders[name], arguments, children)
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
            tables.write(config, done, reasons, sweep_dir, title)
        return list(failed)


def _failure(name: str, problem: str, folder: str) -> str:
    """Prints why a run failed, and returns the same for its row of the table."""
    log = os.path.join(folder, LOG)
    error = last_error(log)
    print(f"{name}: {problem}; see {log}{error}", file=sys.stderr)
    return f"{problem}{error}"


def last_error(log: str) -> str:
    """The last message of a failed run, to append to the name of its log; empty if there is none."""
    last = ""
    with contextlib.suppress(OSError), open(log, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("$ "):  # another command
                last = ""
            elif line.startswith("error: "):
                last = f": {line.strip()}"
    return last


class Processes:
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


def command(module: str, name: str, folder: str, arguments: list[str], children: Processes) -> int:
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
