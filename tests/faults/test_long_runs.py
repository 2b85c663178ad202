"""Long runs: neither memory nor the number of traced functions grows with steps and validations."""

import os

import pytest
import tensorflow as tf

from memattn.training.trainer import Trainer

pytestmark = pytest.mark.slow


def test_neither_memory_nor_traces_grow_with_steps(tiny_config, tmp_path, times):
    steps, validations = times(short=500, full=20_000), times(short=20, full=200)
    every = steps // validations
    changes = {
        "training.schedule": "linear",
        "training.max_steps": steps,
        "training.validate_every": every,
        "training.checkpoint_every": every,
    }
    trainer = Trainer(tiny_config(changes), str(tmp_path / "run"), tf.distribute.get_strategy())
    validate, measured = trainer.validate, []

    def validate_and_measure():
        validate()
        measured.append((resident(), traces(trainer.run.step) + traces(trainer.run.validation._searcher)))

    trainer.validate = validate_and_measure
    assert trainer.train() == 0
    assert len(measured) == validations
    memory, traced = zip(*measured[validations // 10 :], strict=True)
    assert memory[-1] < 1.02 * memory[0], memory
    assert set(traced) == {traced[0]}
    assert traced[0] > 0


def resident():
    """Bytes of memory that this process holds."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def traces(owner):
    """How often the tf.functions of an object were traced."""
    functions = [value for value in vars(owner).values() if hasattr(value, "experimental_get_tracing_count")]
    return sum(function.experimental_get_tracing_count() for function in functions)
