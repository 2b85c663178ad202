"""Times systems on the same work, in turns, each in processes of its own."""

import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import IO, Any, cast

from absl import flags
from studies import standalone
from tqdm import tqdm

from benchmarks.peers import worker
from benchmarks.systems import SYSTEMS
from memattn import files, processes
from memattn.errors import ConfigError, RunError

PEERS = pathlib.Path(__file__).resolve().parent / "peers"


@dataclasses.dataclass(frozen=True)
class Measured:
    """The measurements of one system."""

    seconds: list[float]  # of each repeat
    background_load: float  # cores that other processes used, averaged over a repeat; the largest of all repeats
    peak_memory: int  # MiB
    versions: dict[str, str]  # reported by the worker, as are the notes
    notes: str
    fold_seconds: float | None = None  # of folding the token embeddings, once per model; None if not folded

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def define_timing(*, systems: list[str], known: list[str], lengths: str) -> None:
    """Defines the flags of what is timed: of the `known` systems, by default `systems`; by default these `lengths`."""
    flags.DEFINE_multi_enum("systems", systems, known, "System to time; repeatable.")
    standalone.define_numbers("lengths", lengths, "Lengths L in tokens, separated by commas.")
    flags.DEFINE_integer("units", 256, "Units per layer and direction; also the embedding size.", lower_bound=1)
    flags.DEFINE_integer("vocabulary", 24, "Number of ids, including four special ones.", lower_bound=5)
    flags.DEFINE_enum("device", "cpu", ["cpu", "gpu"], "Device of memattn; other libraries run on the CPU.")
    flags.DEFINE_integer("threads", processes.cores(), "Threads per system.", lower_bound=1)
    flags.DEFINE_enum("jit_compile", "auto", ["auto", "true", "false"], "Whether XLA compiles memattn.")
    flags.DEFINE_integer("repeats", 5, "Runs per system, in turns.", lower_bound=1)


def define_flags(*, systems: list[str], known: list[str], lengths: str) -> None:
    """Defines the flags of `define_timing`, and those of the systems' processes."""
    define_timing(systems=systems, known=known, lengths=lengths)
    flags.DEFINE_string("environments", "build/peers", "Folder made by scripts/benchmarks/peers/setup.sh.")
    flags.DEFINE_string("logs", "build/logs", "Folder of the systems' output.")


def complete(name: str, work: Mapping[str, Any], options: flags.FlagValues) -> dict[str, Any]:
    """Returns the work of a system with all that its worker has to know (see `peers/worker.py`)."""
    system = SYSTEMS[name]._asdict()
    del system["worker"]
    jit_compile = {"auto": "auto", "true": True, "false": False}[options.jit_compile]
    size = {"units": options.units, "vocabulary": options.vocabulary}
    return {**system, **size, "jit_compile": jit_compile, "threads": options.threads, **work}


def use_device(device: str) -> None:
    """Hides GPUs from the TensorFlow of this process if the device is "cpu"."""
    if device == "cpu":
        import tensorflow as tf

        tf.config.set_visible_devices([], "GPU")


def check(races: Iterable[Mapping[str, Mapping[str, Any]]], options: flags.FlagValues) -> None:
    """Checks the works of several races, to be called before the first race: an error in a later one loses all times.

    Raises ConfigError if a system selects no more tokens than a batch's sources have, or the whole vocabulary.
    """
    for name, work in itertools.chain.from_iterable(works.items() for works in races):
        whole = SimpleNamespace(**complete(name, work, options))
        source_tokens = worker.tokens_of_batch(whole) if whole.selected else 0
        if whole.selected and not source_tokens < whole.selected < whole.vocabulary:
            raise ConfigError(
                f"{name}: selects {whole.selected:,} tokens; it needs a --vocabulary above that, not "
                f"{whole.vocabulary:,}, and batches of fewer source tokens, not {source_tokens:,}"
            )


def race(works: Mapping[str, Mapping[str, Any]], options: flags.FlagValues) -> dict[str, Measured]:
    """Warms up systems, each with its work, then times them in turns, `repeats` times. Raises RunError, OSError."""
    works = {name: complete(name, work, options) for name, work in works.items()}
    for folder in (options.logs, os.path.dirname(options.output)):
        files.make_folder(folder)
    use_device(options.device)  # this process reports it
    children: dict[str, list[subprocess.Popen]] = {}
    ready: dict[str, dict] = {}
    measured: dict[str, list[tuple[float, float, float]]] = {name: [] for name in works}
    try:
        for name in tqdm(works, "warming up", unit="system", disable=None):
            children[name] = _start(name, works[name], options)
            ready[name] = _replies(children[name], name, options)[0]
            if (parts := len(children[name])) > 1:
                ready[name]["notes"] += f", {parts} processes with a batch each"
        for name in tqdm(list(works) * options.repeats, desc="measuring", unit="run", disable=None):
            busy = _busy_seconds()
            for process in children[name]:
                with contextlib.suppress(BrokenPipeError):  # a process that has ended does not reply either
                    print("run", file=process.stdin, flush=True)
            replies = _replies(children[name], name, options)
            seconds = max(reply["seconds"] for reply in replies)
            cpu_seconds = sum(reply["cpu_seconds"] for reply in replies)
            background = _busy_seconds() - busy - cpu_seconds
            memory = sum(reply["peak_memory_MiB"] for reply in replies)
            measured[name].append((seconds, background / seconds, memory))
    finally:
        for process in itertools.chain(*children.values()):
            process.kill()
            process.communicate()
    results = {}
    for name, runs in measured.items():
        seconds, background, memory = zip(*runs, strict=True)
        load = round(max(0.0, *background), 2)
        results[name] = Measured(list(seconds), load, round(max(memory)), **ready[name])
    return results


def _start(name: str, work: Mapping[str, Any], options: flags.FlagValues) -> list[subprocess.Popen]:
    """Starts the processes of a system: `work["processes"]`, which share batches and threads, or one."""
    worker = SYSTEMS[name].worker
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
    shares = [{"threads": (options.threads + part) // parts, "parts": parts, "part": part} for part in range(parts)]
    if options.device == "cpu" or not worker.is_ours:
        variables["CUDA_VISIBLE_DEVICES"] = ""
    with open(_log(name, options), "wb") as file:
        return [
            subprocess.Popen(
                [*program, json.dumps({**work, **share})],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env={**os.environ, **variables},
            )
            for share in shares
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
