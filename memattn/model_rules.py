"""Rules between the arguments of a sequence-to-sequence model, which configs and the model itself check."""

from collections.abc import Iterator, Mapping
from typing import Any


def first_problem(model: Mapping[str, Any], *, reads_tokens: bool) -> tuple[str, str] | None:
    """Returns an argument of `Seq2Seq` that does not fit the others, and why; None if all fit.

    Args:
      model: the arguments by name, each valid by itself.
      reads_tokens: whether sources are tokens, not vectors.
    """
    return next(_problems(model, reads_tokens), None)


def _problems(model: Mapping[str, Any], reads_tokens: bool) -> Iterator[tuple[str, str]]:
    if model["decoder"] == "rnnsearch":
        for option, needed in {"layers": 1, "input_feeding": True, "mix": True}.items():
            if model[option] != needed:
                yield option, f"must be {str(needed).lower()} with decoder: rnnsearch"
        if model["units"] % 2:
            yield "units", f"must be even with decoder: rnnsearch, not {model['units']}"
    factors, encoder_layers = len(model["encoder_reduce"]), model["encoder_layers"] or model["layers"]
    if factors >= encoder_layers:
        problem = f"{factors} factors, but {encoder_layers} layers have {encoder_layers - 1} joints between them"
        yield "encoder_reduce", f"{problem}; raise encoder_layers"
    if model["spec_augment"] and reads_tokens:
        yield "spec_augment", "is for sources of vectors, not of tokens"
    if model["tie_embeddings"] != "none" and not reads_tokens:
        yield "tie_embeddings", f"{model['tie_embeddings']} needs sources of tokens, which have embeddings"
