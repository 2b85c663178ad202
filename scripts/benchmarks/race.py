"""Times systems on the same work, in turns, each in processes of its own."""

import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Mapping
from typing import IO, Any, cast

from absl import flags
from studies import standalone
from tqdm import tqdm

from benchmarks.peers import worker
from benchmarks.systems import SYSTEMS, System
from memattn import files, processes
from memattn.errors import ConfigError, RunError

PEERS = pathlib.Path(__file__).resolve().parent / "peers"


@dataclasses.dataclass(frozen=True)
class Measured:
    """The measurements of one system.

    Attributes:
      seconds: time of each repeat.
      background_load: cores that other processes used, averaged over a repeat; the largest of all repeats.
      peak_memory: MiB of memory.
      cpu_seconds: CPU time of each repeat.
      versions, notes: reported by the worker.
      fold_seconds: time of folding the token embeddings, once per model and not in `seconds`; None if not folded.
      batches_at_once: batches that one process decodes concurrently.
    """

    seconds: list[float]
    background_load: float
    peak_memory: int
    cpu_seconds: list[float]
    versions: dict[str, str]
    notes: str
    fold_seconds: float | None = None
    batches_at_once: int = 1

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def define_sizes(lengths: str) -> None:
    """Defines the flags of benchmarks whose sizes the user chooses."""
    standalone.define_numbers("lengths", lengths, "Lengths L in tokens, separated by commas.")
    flags.DEFINE_integer("units", 256, "Units per layer and direction; also the embedding size.", lower_bound=1)
    flags.DEFINE_integer("vocabulary", 24, "Number of ids, including four special ones.", lower_bound=5)


def define_timing(*, systems: list[str], known: list[str] | None = None, threads: str | None = None) -> None:
    """Defines the flags of what is timed.

    Of the `known` systems, by default all, `systems` are timed if the command line names none. If `threads` has
    numbers, separated by commas, they are the default of a flag for several.
    """
    flags.DEFINE_multi_enum("systems", systems, known or list(SYSTEMS), "System to time; repeatable.")
    flags.DEFINE_enum("device", "cpu", ["cpu", "gpu"], "Device of memattn; other libraries run on the CPU.")
    if threads:
        standalone.define_numbers("threads", threads, "Threads per system, separated by commas.")
    else:
        flags.DEFINE_integer("threads", processes.cores(), "Threads per system.", lower_bound=1)
    flags.DEFINE_enum("jit_compile", "auto", ["auto", "true", "false"], "Whether XLA compiles memattn.")
    flags.DEFINE_integer("repeats", 5, "Runs per system, in turns.", lower_bound=1)


def define_flags(*, systems: list[str], known: list[str] | None = None, threads: str | None = None) -> None:
    """Defines the flags of `define_timing`, and those of processes of other libraries."""
    define_timing(systems=systems, known=known, threads=threads)
    flags.DEFINE_string("environments", "build/peers", "Folder made by scripts/benchmarks/peers/setup.sh.")
    flags.DEFINE_string("logs", "build/logs", "Folder of the systems' output.")


def work_of_size(options: flags.FlagValues, **settings: Any) -> dict[str, Any]:
    """Returns the work of a worker, see `peers/worker.py`; `options` have the size of the model."""
    return {"units": options.units, "vocabulary": options.vocabulary, **settings}


def settings(system: System, options: flags.FlagValues) -> dict[str, Any]:
    """Returns what a worker is told of a system."""
    described = {key: value for key, value in system._asdict().items() if key != "worker"}
    return {**described, "jit_compile": {"auto": "auto", "true": True, "false": False}[options.jit_compile]}


def use_device(device: str) -> None:
    """Hides GPUs from the TensorFlow of this process if the device is "cpu"."""
    if device == "cpu":
        import tensorflow as tf

        tf.config.set_visible_devices([], "GPU")


def check(runners: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
    """Raises ConfigError if a system selects no more tokens than a batch's sources have, or the whole vocabulary.

    See `race` for `runners`.
    """
    for name, work in runners.values():
        selected, vocabulary = SYSTEMS[name].selected, work["vocabulary"]
        source_tokens = worker.tokens_of_batch(worker.SimpleNamespace(**work)) if selected else 0
        if selected and not source_tokens < selected < vocabulary:
            raise ConfigError(
                f"{name}: selects {selected:,} tokens; it needs a --vocabulary above that, not {vocabulary:,}, and "
                f"batches of fewer source tokens, not {source_tokens:,}"
            )


def race(
    runners: Mapping[str, tuple[str, Mapping[str, Any]]], options: flags.FlagValues, *, warming_up: int = 1
) -> dict[str, Measured]:
    """Warms up runners (name -> system and work), then times them in turns, `repeats` times.

    `warming_up` runners warm up at the same time, which lengthens `fold_seconds` if there are several. Raises RunError,
    and ConfigError as `check`.
    """
    check(runners)
    for folder in (options.logs, os.path.dirname(options.output)):
        files.make_folder(folder)
    use_device(options.device)  # this process reports it
    children: dict[str, list[subprocess.Popen]] = {}
    measured: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in runners}

    def warm_up(name: str) -> dict:
        system, work = runners[name]
        children[name] = _start(name, SYSTEMS[system], work, options)
        reply = _replies(children[name], name, options)[0]
        parts = len(children[name])
        return reply if parts == 1 else {**reply, "notes": f"{reply['notes']}, {parts} processes with a batch each"}

    try:
        with concurrent.futures.ThreadPoolExecutor(warming_up) as pool:
            warmed = tqdm(pool.map(warm_up, runners), "warming up", len(runners), unit="system", disable=None)
            ready = dict(zip(runners, warmed, strict=True))
        for name in tqdm(list(runners) * options.repeats, desc="measuring", unit="run", disable=None):
            busy = _busy_seconds()
            for process in children[name]:
                with contextlib.suppress(BrokenPipeError):  # a process that has ended does not reply either
                    print("run", file=process.stdin, flush=True)
            replies = _replies(children[name], name, options)
            seconds = max(reply["seconds"] for reply in replies)
            cpu_seconds = sum(reply["cpu_seconds"] for reply in replies)
            background = _busy_seconds() - busy - cpu_seconds
            memory = sum(reply["peak_memory_MiB"] for reply in replies)
            measured[name].append((seconds, background / seconds, memory, cpu_seconds))
    finally:
        for process in itertools.chain(*children.values()):
            process.kill()
            process.communicate()
    results = {}
    for name, runs in measured.items():
        seconds, background, memory, cpu_seconds = zip(*runs, strict=True)
        load = round(max(0.0, *background), 2)
        results[name] = Measured(list(seconds), load, round(max(memory)), list(cpu_seconds), **ready[name])
    return results


def _start(name: str, system: System, work: Mapping[str, Any], options: flags.FlagValues) -> list[subprocess.Popen]:
    """Starts the processes of a system: `work["processes"]`, which share batches and threads, or one."""
    worker = system.worker
    variables = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONSAFEPATH": "", **worker.variables}
    if worker.is_ours:
        program = [sys.executable, "-m", f"benchmarks.peers.{worker.name}"]
        variables |= {
            "PYTHONSAFEPATH": "1",
            "PYTHONPATH": os.pathsep.join([str(PEERS.parents[1]), os.environ.get("PYTHONPATH", "")]),
        }
    else:
        python = os.path.join(options.environments, worker.name, "bin", "python")
        if not os.path.exists(python):
            raise RunError(
                f"{python}: missing; scripts/benchmarks/peers/setup.sh creates it, or choose other --systems"
            )
        program = [python, str(PEERS / f"{worker.name}.py")]  # imports worker.py, which is beside it
    parts = work.get("processes", 1)
    threads = max(1, work.get("threads", options.threads) // parts)
    whole = {**work, **settings(system, options), "threads": threads, "parts": parts}
    if options.device == "cpu" or not worker.is_ours:
        variables["CUDA_VISIBLE_DEVICES"] = ""
    with open(_log(name, options), "wb") as file:
        return [
            subprocess.Popen(
                [*program, json.dumps({**whole, "part": part})],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env={**os.environ, **variables},
            )
            for part in range(parts)
        ]


def _replies(children: list[subprocess.Popen], name: str, options: flags.FlagValues) -> list[dict]:
    """Reads a reply of each process. Raises RunError if a process has ended."""
    lines = [cast(IO[str], process.stdout).readline() for process in children]
    if not all(lines):
        raise RunError(f"{name}: its process ended; see {_log(name, options)}")
    return [json.loads(line) for line in lines]


def _busy_seconds() -> float:
    """Returns the CPU seconds used on the whole machine since it started."""
    with open("/proc/stat", encoding="utf-8") as file:
        fields = [int(field) for field in file.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def _log(name: str, options: flags.FlagValues) -> str:
    return os.path.join(options.logs, f"{name}.log")
