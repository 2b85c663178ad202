"""Two real workers take the same decisions even where their clocks, signals, disks or data differ."""

import contextlib
import glob
import os
import signal
import time
import types
from unittest import mock

import pytest
from helpers.worker_pair import WorkerPair

from memattn import config as configs
from memattn import files, xla
from memattn.data import tasks
from memattn.data.batches import TrainingBatches
from memattn.errors import DataError
from memattn.training import trainer
from memattn.training.step import TrainingStep

pytestmark = pytest.mark.slow

STOPPED = 128 + signal.SIGTERM
FAILED = ["RunError", "another worker failed; see its output"]


@pytest.fixture(scope="module")
def pair():
    """Two worker processes, started once for all tests of this file."""
    workers = WorkerPair()
    yield workers
    workers.end()


@pytest.fixture
def both(pair, write_config, tmp_path):
    """both(function, changes, *arguments) returns the results of two workers.

    Each calls function(rank, strategy, config, run_dir, *arguments).
    """
    tiny = {"training.max_steps": 12, "training.batch_size": 4, "model.attention": {"name": "none"}}

    def run(function, changes=None, *arguments):
        config = write_config({**tiny, **(changes or {})})
        return pair("test_agreement", function.__name__, config, str(tmp_path / "run"), *arguments)

    return run


def checkpoints(folder):
    """Returns the steps of the run's checkpoints."""
    names = glob.glob(os.path.join(folder, "run", "checkpoints", "*.index"))
    return sorted(int(os.path.basename(name).removeprefix("step-").removesuffix(".index")) for name in names)


def train(strategy, config, run_dir, *overrides):
    """Loads the config and trains; returns the exit status."""
    return trainer.train(configs.load(config, list(overrides)), run_dir, strategy)


def with_a_fast_clock(rank, strategy, config, run_dir, fast):
    """Trains; on the worker `fast`, a minute passes in less than a training step."""
    clock = types.SimpleNamespace(monotonic=lambda: time.monotonic() * (1e6 if rank == fast else 1))
    with mock.patch.object(trainer, "time", clock):
        return train(strategy, config, run_dir)


@pytest.mark.long
@pytest.mark.parametrize(("fast", "steps"), [(0, [10, 12]), (1, [12])])
def test_the_clock_of_the_first_worker_decides_when_a_checkpoint_is_due(both, tmp_path, fast, steps):
    minutes = {"training.checkpoint_minutes": 1, "training.checkpoint_every": 1000, "training.validate_every": 1000}
    assert both(with_a_fast_clock, minutes, fast) == [0, 0]
    assert checkpoints(tmp_path) == steps


def with_a_signal(rank, strategy, config, run_dir, signalled, when):
    """Trains; the worker `signalled` gets SIGTERM in training step `when`."""
    step = TrainingStep.__call__

    def signal_then_step(self, batches, number, rate):
        if (rank, number) == (signalled, when):
            signal.raise_signal(signal.SIGTERM)
        return step(self, batches, number, rate)

    with mock.patch.object(TrainingStep, "__call__", signal_then_step):
        return train(strategy, config, run_dir)


def test_a_signal_to_either_worker_stops_both_at_the_same_step(both, tmp_path):
    """The first signal comes before a validation, which only the resumed run does; the second one after it."""
    validations = tmp_path / "run" / "validation.csv"
    assert both(with_a_signal, {}, 0, 7) == [STOPPED, STOPPED]
    assert checkpoints(tmp_path)[-1] == 9
    assert "\n6," in validations.read_text("utf-8") and "\n9," not in validations.read_text("utf-8")
    assert both(with_a_signal, {}, 1, 9) == [STOPPED, STOPPED]
    assert checkpoints(tmp_path)[-1] == 10
    assert "\n9," in validations.read_text("utf-8")


def with_overrides(rank, strategy, config, run_dir, overrides_by_rank):
    """Trains; the overrides of the config may differ between workers."""
    return train(strategy, config, run_dir, *overrides_by_rank[rank])


def test_different_configs_and_corpora_are_refused_before_a_model_is_built(both, tmp_path):
    problem = f"{tmp_path / 'run'}: the workers have different configs or data; start all with the same"
    refused = [["RunError", problem]] * 2
    assert both(with_overrides, {}, [[], ["model.units=16"]]) == refused
    assert both(with_overrides, {}, [[], ["training.checkpoint_minutes=7"]]) == refused
    assert both(with_disks, {}, [1, "train.source", "0 1\n" * 60], []) == refused
    assert not (tmp_path / "run").exists()


@contextlib.contextmanager
def inside(folder):
    """Creates a folder and makes it the working directory for a while."""
    os.makedirs(folder, exist_ok=True)
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def with_disks(rank, strategy, config, run_dir, replacement, overrides, run_is_shared=True):
    """Trains; each worker reads the corpus from a disk of its own.

    `replacement` is [worker, file, content]: the file that differs on that worker's disk, or [None].
    """
    with inside(f"{run_dir}-disk-{rank}"):
        loaded = configs.load(config, ["data.folder=data", *overrides])
        tasks.prepare(loaded.data.generated, "data")
        if rank == replacement[0]:
            _, name, content = replacement
            files.write(os.path.join("data", name), content.encode("latin-1"))
        return trainer.train(loaded, run_dir if run_is_shared else "run", strategy)


def test_different_run_folders_are_refused(both):
    longer = ["training.max_steps=24"]
    assert both(with_disks, {}, [None], [], False) == [0, 0]
    problem = "run: the workers see different checkpoints in it; all must share the folder"
    assert both(with_disks, {}, [None], longer, False) == [["RunError", problem]] * 2


@pytest.mark.parametrize(
    ("broken", "file", "error"),
    [
        (0, "valid.target", "data/valid.target:1: not UTF-8 text: byte 0xff"),
        (1, "vocab.txt", "data/vocab.txt:1: the line is empty"),
    ],
)
def test_a_file_unreadable_on_one_worker_ends_both(both, broken, file, error):
    answers = both(with_disks, {}, [broken, file, "" if "empty" in error else "\xff"], [])
    assert answers[broken][0] == "DataError"
    assert answers[broken][1].startswith(error)
    assert answers[1 - broken] == FAILED


def with_broken_data(rank, strategy, config, run_dir, broken, number):
    """Trains; the worker `broken` cannot read its batch of training step `number`."""
    stream = TrainingBatches.stream

    def breaking(self, *place):
        for n, batch in enumerate(stream(self, *place)):
            if (rank, n) == (broken, number):
                raise DataError("train.source.ids.npy: damaged")
            yield batch

    with mock.patch.object(TrainingBatches, "stream", breaking):
        try:
            return train(strategy, config, run_dir)
        except DataError as error:  # which ends a command, and with it the connection
            os.write(2, str(error).encode("utf-8"))
            os._exit(1)


@pytest.mark.long
def test_data_unreadable_on_one_worker_ends_both(both, tmp_path):
    """The worker that can read waits for gradients, and ends when the connection does."""
    often = {"training.checkpoint_every": 5, "training.validate_every": 1000, "training.max_steps": 30}
    answers = both(with_broken_data, often, 1, 12)
    assert answers[1][0] == "NoAnswer" and "train.source.ids.npy: damaged" in answers[1][1]
    assert answers[0][0] == "LostWorkerError"
    assert checkpoints(tmp_path) == [5, 10]
    assert both(with_overrides, often, [[], []]) == [0, 0]


def with_different_kernels(rank, strategy, config, run_dir):
    """Trains; only the second worker compiles with XLA."""
    with mock.patch.object(xla, "jit_compile", lambda *_: rank == 1):
        return train(strategy, config, run_dir)


def test_workers_with_different_kernels_train_together(both):
    assert both(with_different_kernels) == [0, 0]
