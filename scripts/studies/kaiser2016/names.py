"""Names models with active memory, and models with attention that are compared with them."""

from memattn.config import NeuralGPUConfig
from memattn.evaluation import styles
from memattn.sweeps.results import Run
from studies.britz2017 import printed, runs

# Words and colours of models with active memory, by kind; those with attention have their mechanism's.
STYLES = {
    "neural_gpu": ("Neural GPU", "#D9D9D9"),
    "markovian": ("Markovian Neural GPU", "#B3B3B3"),
    "extended": ("Extended Neural GPU", "#8C8C8C"),
}


def model_name(run: Run) -> str:
    """Returns the kind of a model, with its cell or its attention."""
    model = run.config.model
    if isinstance(model, NeuralGPUConfig):
        return f"{model.kind} {model.cell}, {model.width} x {model.units}"
    return f"{model.encoder.upper()}, {runs.model_name(run)}"


def style(name: str) -> tuple[str, str]:
    """Returns words and a colour for the model that `model_name` calls so."""
    kind, _, model = name.partition(", ")
    if kind.partition(" ")[0] in STYLES:
        return STYLES[kind.partition(" ")[0]]
    attention = printed.attention(model)
    ((colour, _),) = styles.line_styles([attention])
    return f"{kind}, {styles.words(attention)}", colour
