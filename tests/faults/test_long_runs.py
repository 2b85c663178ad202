"""Long runs: neither memory nor the number of traced functions grows with steps and validations."""

import os

import pytest
from helpers.runs import NO_STRATEGY

from memattn.training.trainer import Trainer

pytestmark = pytest.mark.slow


@pytest.mark.long
def test_neither_memory_nor_traces_grow_with_steps(tiny_config, tmp_path, times):
    steps, validations = times(short=500, full=20_000), times(short=20, full=200)
    interval = steps // validations
    changes = {
        "training.schedule": "linear",
        "training.max_steps": steps,
        "training.validate_every": interval,
        "training.checkpoint_every": interval,
    }
    trainer = Trainer(tiny_config(changes), str(tmp_path / "run"), NO_STRATEGY)
    validate, memory_sizes, trace_counts = trainer.validate, [], []

    def validate_and_measure():
        validate()
        memory_sizes.append(resident_bytes())
        trace_counts.append(traces(trainer.run.training_step) + traces(trainer.run.validation._searcher))

    trainer.validate = validate_and_measure
    assert trainer.train() == 0
    assert len(memory_sizes) == validations
    settled = validations // 10  # validations until caches are filled
    assert memory_sizes[-1] < 1.02 * memory_sizes[settled], memory_sizes[settled:]
    assert set(trace_counts[settled:]) == {trace_counts[settled]}
    assert trace_counts[settled] > 0


def resident_bytes():
    """Returns the resident memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def traces(owner):
    """Returns how often the tf.functions among an object's attributes were traced."""
    functions = [value for value in vars(owner).values() if hasattr(value, "experimental_get_tracing_count")]
    return sum(function.experimental_get_tracing_count() for function in functions)
