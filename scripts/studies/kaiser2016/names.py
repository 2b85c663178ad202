"""Names models with active memory, and models with attention that are compared with them."""

from memattn.config import NeuralGPUConfig
from memattn.sweeps.results import Run
from studies.britz2017 import runs


def model_name(run: Run) -> str:
    """Returns the kind of a model, with its cell or its attention."""
    model = run.config.model
    if isinstance(model, NeuralGPUConfig):
        return f"{model.kind} {model.cell}, {model.width} x {model.units}"
    return f"{model.encoder.upper()}, {runs.model_name(run)}"
