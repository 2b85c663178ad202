"""Checkpoints from before version 0.2, in which weights have numbers in place of attribute paths."""

from typing import Any

import tensorflow as tf

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"  # TensorFlow appends it to a variable's path
_LAYERS = ["attention", "source_embedding", "target_embedding", "encoder", "bridge", "decoder", "output_layer"]


def is_numbered(dtypes: dict[str, tf.DType]) -> bool:
    """Returns whether a checkpoint, given the types of its variables, is from before version 0.2."""
    return f"model/0{VALUE}" in dtypes


def weights_by_number(weights: dict[str, tf.Variable], dtypes: dict[str, tf.DType]) -> dict[str, tf.Variable]:
    """Returns the weights of a model, given by attribute path, by their numbers in a checkpoint.

    The numbers are Keras' order of the weights, which differs between Keras 2 and Keras 3.
    """
    numbers = range(sum(key.startswith("model/") for key in dtypes))
    floating = [number for number in numbers if dtypes[f"model/{number}{VALUE}"].is_floating]
    is_keras_3 = len(floating) < len(numbers)  # its weights include the seeds of LSTMs
    layers = ["output_bias", *_LAYERS] if is_keras_3 else [*_LAYERS, "output_bias"]

    def place(path: str) -> tuple[int, bool]:
        layer, *rest = path.split("/")
        is_in_sublayer = layer == "attention" and len(rest) > 1  # sublayers' weights are last
        return layers.index(layer), is_in_sublayer

    ordered = sorted(weights, key=place)
    return {str(number): weights[path] for number, path in zip(floating, ordered, strict=True)}


def adam_by_number(
    paths: list[str], slots: dict[str, dict[str, tf.Variable]], iterations: Any, dtypes: dict[str, tf.DType]
) -> dict[str, tf.Variable]:
    """Returns Adam's variables by their numbers in a checkpoint. `paths` are those of the weights, in their order."""
    momentum, velocity = (slots.get(name, {}) for name in ("momentum", "velocity"))
    moments = [slot[path] for path in paths if path in momentum for slot in (momentum, velocity)]
    first = sum(key.startswith("optimizer/") for key in dtypes) - len(moments)  # 2 in Keras 3, with the rate
    return {"0": iterations, **{str(first + i): moment for i, moment in enumerate(moments)}}
