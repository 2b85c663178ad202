"""Rules between the arguments of a sequence-to-sequence model, which configs and the model itself check."""

from collections.abc import Iterator, Mapping
from typing import Any


def broken(model: Mapping[str, Any], *, reads_tokens: bool) -> tuple[str, str] | None:
    """Returns an argument of `Seq2Seq` that does not fit the others, and why; None if all fit.

    Args:
      model: the arguments by name, each valid by itself.
      reads_tokens: whether sources are tokens, not vectors.
    """
    return next(_all_broken(model, reads_tokens), None)


def _all_broken(model: Mapping[str, Any], reads_tokens: bool) -> Iterator[tuple[str, str]]:
    layers, encoder_layers = model["layers"], model["encoder_layers"] or model["layers"]
    is_rnnsearch = model["decoder"] == "rnnsearch"
    if is_rnnsearch:
        for option, needed in {"layers": 1, "input_feeding": True, "mix": True}.items():
            if model[option] != needed:
                yield option, f"must be {str(needed).lower()} with decoder: rnnsearch"
        if model["units"] % 2:
            yield "units", f"must be even with decoder: rnnsearch, not {model['units']}"
    is_auto = model["bridge"] == "auto" and is_rnnsearch and model["attention"]["name"] != "none"
    if model["bridge"] == "backward" or is_auto:
        bridge = "the bridge backward, which rnnsearch has by default," if is_auto else "backward"
        for option, number in {"layers": layers, "encoder_layers": encoder_layers}.items():
            if number > 1:
                yield "bridge", f"{bridge} is for {option}: 1, not {number}"
    factors = len(model["encoder_reduce"])
    if factors >= encoder_layers:
        problem = f"{factors} factors, but {encoder_layers} layers have {encoder_layers - 1} joints between them"
        yield "encoder_reduce", f"{problem}; raise encoder_layers"
    if model["spec_augment"] and reads_tokens:
        yield "spec_augment", "is for sources of vectors (data.source: features), not of tokens"
    if model["tie_embeddings"] != "none" and not reads_tokens:
        yield "tie_embeddings", f"{model['tie_embeddings']} needs sources of tokens, which have embeddings"
    width = model["units"] // 2 if is_rnnsearch else model["units"]  # of what the output layer reads, with `mix`
    if model["tie_embeddings"] == "all" and not (model["mix"] and model["embedding_size"] == width):
        size = "half of units" if is_rnnsearch else "units"
        has = f"mix: {str(model['mix']).lower()}, {model['embedding_size']} and {width}"
        yield "tie_embeddings", f"'all' needs mix: true and embedding_size = {size}, not {has}"
