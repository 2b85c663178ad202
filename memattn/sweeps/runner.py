"""Trains and evaluates the runs of a sweep, each in its own process, and writes their table."""

import collections
import concurrent.futures
import contextlib
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import IO, cast

from tqdm import tqdm

from memattn import config as configs
from memattn import console, files, processes
from memattn.config import Config
from memattn.data import corpus, tasks
from memattn.runs.run import Run
from memattn.sweeps import tables
from memattn.sweeps.runs import expand, finished, is_done

LOG = "log.txt"


def run_sweep(
    config: Config,
    sweep_dir: str,
    *,
    jobs: int,
    split: str,
    average: int | None,
    repeats: int,
    num_plots: int,
    strategy: str,
    title: str,
    only: Collection[str] | None = None,
) -> list[str]:
    """Trains and evaluates the runs of a sweep that have no result yet, and writes the table of all.

    Trains `jobs` runs at a time, but evaluates one at a time, so that nothing disturbs the decode times. The arguments
    are flags of memattn-sweep, except `only`: names of the runs to train and evaluate, None for all. If it leaves out a
    run, writes no table.

    Returns the names of the runs that failed; their rows of the table say why. Raises ConfigError if the folder holds
    the runs of another sweep, or a corpus lacks the split, RunError if another process works on the same runs, OSError.
    """
    all_configs = expand(config)
    run_configs = {name: run for name, run in all_configs.items() if only is None or name in only}
    runs = {name: Run(os.path.join(sweep_dir, name)) for name in run_configs}
    for data in (config.data for config in run_configs.values()):
        if data.generated or os.path.isdir(data.path):  # without a folder, training says what is missing
            corpus.check_split(data.path, split, tasks.SPLITS if data.generated else None)
    with contextlib.ExitStack() as stack:
        folders = {"sweep": sweep_dir} if only is None else {}
        for name, folder in (folders | {name: run.folder for name, run in runs.items()}).items():
            lock, doing = os.path.join(sweep_dir, f"{name}.lock"), "is working on it; wait, or use another --sweep_dir"
            stack.enter_context(processes.locked(lock, folder, doing))
        for name, run in runs.items():
            if run.exists:
                run.check_config(run_configs[name], may_train_longer=False)
            files.make_folder(run.folder)
            files.write(f"{run.folder}.yaml", configs.dump(run_configs[name]))
        missing = {name: run for name, run in runs.items() if not is_done(run, run_configs[name], split, average)}
        console.say(f"{len(runs)} runs, {len(runs) - len(missing)} done before, {len(missing)} to do")
        labels = {name: f"[{number}]" for number, name in enumerate(all_configs)}
        for name in missing:
            console.say(f"{labels[name]} {name}")

        def train(name: str) -> int:
            folder = runs[name].folder
            arguments = ["--config", f"{folder}.yaml", "--strategy", strategy]
            return command("memattn.train", labels[name], folder, arguments, children)

        def evaluate(name: str) -> int:
            arguments = ["--split", split, "--repeats", str(repeats), "--plot", str(num_plots)]
            arguments += ["--average", str(average)] if average else []
            return command("memattn.eval", labels[name], runs[name].folder, arguments, children)

        children = Processes()
        reasons = _failures("training", train, missing, jobs, children)
        trained = {name: run for name, run in missing.items() if name not in reasons}
        reasons |= _failures("evaluation", evaluate, trained, 1, children)
        if len(runs) == len(all_configs):
            done = [run for run in finished(config, sweep_dir, split, average) if run.name not in reasons]
            tables.write(config, done, reasons, sweep_dir, title)
        return list(reasons)


def _failures(
    activity: str, work: Callable[[str], int], runs: Mapping[str, Run], jobs: int, children: "Processes"
) -> dict[str, str]:
    """Calls `work` with the names of runs, `jobs` at a time, shows progress, and returns why runs failed, by name."""
    started, states, problems = time.monotonic(), dict.fromkeys(runs, "waiting"), {}

    def progress() -> str:
        """Returns the number of runs in each state, and the time left as if all runs took equally long."""
        count = collections.Counter(states.values())
        text = f"{activity}: {count['done']} of {len(runs)} runs done"
        text += "".join(f", {count[state]} {state}" for state in ("failed", "running") if count[state])
        left = count["waiting"] + count["running"]
        if not (left and count["done"]):
            return text
        seconds = left * (time.monotonic() - started) / count["done"]
        return f"{text}  about {tqdm.format_interval(seconds)} left"

    def change(name: str, state: str) -> None:
        states[name] = state
        console.say(progress())

    def do(name: str) -> None:
        change(name, "running")
        if status := work(name):
            log, problem = os.path.join(runs[name].folder, LOG), f"{activity} ended with status {status}"
            cause = last_error(log)
            console.say(f"{name}: {problem}; see {log}{cause}", sys.stderr)
            problems[name] = f"{problem}{cause}"
        change(name, "failed" if status else "done")

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            list(pool.map(do, runs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            children.end()
            console.say("ending the runs; trainings write a checkpoint, and the same command resumes them", sys.stderr)
            raise
    return {name: problems[name] for name in runs if name in problems}


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

    def start(self, command: list[str], errors: IO[str]) -> subprocess.Popen[str]:
        """Starts a process that ends with this one; its standard error goes to the file `errors`.

        Raises CancelledError after `end`, OSError.
        """
        with self._lock:
            if self._ended:
                raise concurrent.futures.CancelledError
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                encoding="utf-8",
                errors="replace",
                env={**os.environ, processes.PARENT: str(os.getpid())},
                start_new_session=True,  # Ctrl-C goes to the sweep alone, which then ends its processes
            )
            self._started.append(process)
        return process

    def end(self) -> None:
        """Sends SIGTERM to all processes. Trainings then write a checkpoint, from which the same command resumes."""
        with self._lock:
            self._ended = True
            for process in self._started:
                process.terminate()


def command(module: str, label: str, folder: str, arguments: list[str], children: Processes) -> int:
    """Runs a module on a run folder; prints its output after the run's label, and logs it. Returns its exit status."""
    command_line = [sys.executable, "-m", module, "--run_dir", folder, *arguments]
    started, path = time.monotonic(), os.path.join(folder, LOG)
    with (
        files.naming(path),
        open(path, "a", encoding="utf-8", buffering=1) as log,  # line by line, as the process writes too
    ):
        log.write(f"$ {shlex.join(command_line)}\n")
        with children.start(command_line, log) as process:
            for line in cast(IO[str], process.stdout):
                log.write(line)
                console.say(f"{label} {line.rstrip()}")
    console.say(f"{label} {module} took {time.monotonic() - started:.0f} s")
    return process.returncode
