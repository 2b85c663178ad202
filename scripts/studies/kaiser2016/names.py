"""Names models with active memory, and models with attention that are compared with them."""

from memattn.config import NeuralGPUConfig
from memattn.evaluation import styles
from memattn.sweeps.results import SweepRun
from studies import names, runs
from studies.styles import line_styles, mixed


def model_name(run: SweepRun) -> str:
    """Returns the kind of a model, with its cell or its attention."""
    model = run.config.model
    if isinstance(model, NeuralGPUConfig):
        return f"{model.kind} {model.cell}, {model.width} x {model.units}"
    return f"{model.encoder.upper()}, {runs.model_name(run)}"


def style(name: str) -> tuple[str, str]:
    """Returns the words and the colour of a model, given its name in tables."""
    kind, _, model = name.partition(", ")
    kind = kind.partition(" ")[0]
    attention = {"name": kind} if kind in styles.STYLES else names.attention(model)
    ((colour, _),) = line_styles([attention])
    if kind == "CGRU":  # a darker shade than attention over recurrent states
        colour = mixed(colour, "black", 0.4)
    words = styles.words(attention)
    return words if kind in styles.STYLES else f"{kind}, {words}", colour
