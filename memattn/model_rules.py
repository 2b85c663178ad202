"""Rules for the arguments of a sequence-to-sequence model, which configs and the model itself check."""

import itertools
import numbers
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from memattn.errors import abbreviated

_Problems = Iterator[tuple[str, str]]  # arguments, and what is wrong with them
_LEAST_VOCABULARY = 5  # the four special tokens and one more


def first_problem(model: Mapping[str, Any], *, reads_tokens: bool) -> tuple[str, str] | None:
    """Returns an argument of `Seq2Seq` that is out of range or does not fit the others, and why; None if all fit.

    Args:
      model: the arguments by name; those with a list of choices have been checked against it.
      reads_tokens: whether sources are tokens, not vectors.
    """
    problems = (_sizes(model), _decoder(model), _encoder(model), _bridge(model), _sources(model, reads_tokens))
    return next(itertools.chain(*problems), None)


def _sizes(model: Mapping[str, Any]) -> _Problems:
    for name in ("layers", "units", "embedding_size", "encoder_layers", "encoder_units"):
        is_default = model[name] is None and name.startswith("encoder")
        if not is_default and not _is_int(model[name], at_least=1):
            yield name, f"must be an int of at least 1, not {model[name]!r}"
    for name in ("input_feeding", "mix"):
        if not isinstance(model[name], bool):
            yield name, f"must be true or false, not {model[name]!r}"
    for name, least in {"vocabulary_size": _LEAST_VOCABULARY, "max_source_length": 1, "spec_augment": 0}.items():
        value = model.get(name, least)  # the data decide the first two, so a config has neither
        if not _is_int(value, at_least=least):
            yield name, f"must be an int of at least {least}, not {value!r}"
    if not (_is_number(model["init_scale"]) and 0 < model["init_scale"] < np.inf):
        yield "init_scale", f"must be above 0 and finite, not {model['init_scale']!r}"
    if not (_is_number(model["dropout"]) and 0 <= model["dropout"] < 1):
        yield "dropout", f"must be at least 0 and below 1, not {model['dropout']!r}"


def _decoder(model: Mapping[str, Any]) -> _Problems:
    if model["decoder"] == "rnnsearch":
        for option, needed in {"layers": 1, "input_feeding": True, "mix": True}.items():
            if model[option] != needed:
                yield option, f"must be {str(needed).lower()} with decoder: rnnsearch"
        if model["units"] % 2:
            yield "units", f"must be even with decoder: rnnsearch, not {model['units']}"


def _encoder(model: Mapping[str, Any]) -> _Problems:
    if model["encoder_reduce"] and model["encoder"] == "cgru":
        yield "encoder_reduce", "is for encoder: lstm or gru"
    for factor in model["encoder_reduce"]:
        if not _is_int(factor, at_least=1) or factor > 100:
            yield "encoder_reduce", f"expected ints from 1 to 100, not {abbreviated(factor)}"
    factors, layers = len(model["encoder_reduce"]), _encoder_layers(model)
    if factors >= layers:
        problem = f"{factors} factors, but {layers} layers have {layers - 1} joints between them"
        yield "encoder_reduce", f"{problem}; raise encoder_layers"


def _bridge(model: Mapping[str, Any]) -> _Problems:
    has_attention = model["attention"]["name"] != "none"
    if model["bridge"] == "zero" and not has_attention:
        yield "bridge", "zero hides the source from a model without attention; take auto or dense"
    is_auto = model["bridge"] == "auto" and model["decoder"] == "rnnsearch" and has_attention
    if model["bridge"] == "backward" or is_auto:
        bridge = "the bridge backward, which rnnsearch has by default," if is_auto else "backward"
        if model["encoder"] == "cgru":
            yield "bridge", f"{bridge} is for encoder: lstm or gru; take dense"
        for name, layers in {"layers": model["layers"], "encoder_layers": _encoder_layers(model)}.items():
            if layers > 1:
                yield "bridge", f"{bridge} is for {name}: 1, not {layers}"


def _sources(model: Mapping[str, Any], reads_tokens: bool) -> _Problems:
    if model["spec_augment"] and reads_tokens:
        yield "spec_augment", "is for sources of vectors, not of tokens"
    features = model.get("source_features", 1)  # the data decide it, so a config has none
    if not reads_tokens and not _is_int(features, at_least=1):
        yield "source_features", f"must be an int of at least 1, not {features!r}"
    tie = model["tie_embeddings"]
    if tie != "none" and not reads_tokens:
        yield "tie_embeddings", f"{tie} needs sources of tokens, which have embeddings"
    if tie == "all":
        is_rnnsearch = model["decoder"] == "rnnsearch"
        size = model["units"] // 2 if is_rnnsearch else model["units"]
        if not model["mix"]:
            yield "tie_embeddings", "all needs mix: true"
        if model["embedding_size"] != size:
            expected = f"embedding_size: {size}, {'half of units' if is_rnnsearch else 'as units'}"
            yield "tie_embeddings", f"all needs {expected}, not {model['embedding_size']}"


def _encoder_layers(model: Mapping[str, Any]) -> int:
    return model["encoder_layers"] or model["layers"]


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_int(value: Any, *, at_least: int) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= at_least
