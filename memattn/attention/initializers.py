"""Initial weights: one initializer, given once, for all weights of a layer."""

import numbers
import zlib
from collections.abc import Mapping

import tensorflow as tf

Initializer = str | Mapping | tf.keras.initializers.Initializer


def initializer_of(weight: str, initializer: Initializer) -> Initializer:
    """The initializer of one weight, where a layer's weights share a name, config or object of Keras.

    An object that has a seed draws the same numbers each time, so each weight gets a copy. A seed that the user gave is
    changed by the weight's name.
    """
    if isinstance(initializer, str) or not (isinstance(initializer, Mapping) or hasattr(initializer, "get_config")):
        return initializer
    is_config = isinstance(initializer, Mapping)
    options = dict(initializer.get("config") or {} if is_config else initializer.get_config())
    seed = options.get("seed")
    if isinstance(seed, numbers.Integral):
        options["seed"] = (int(seed) + zlib.crc32(weight.encode())) % 2**31
    elif isinstance(seed, Mapping):  # the config of a generator
        options["seed"] = initializer_of(weight, seed)
    elif is_config or "seed" not in options:
        return initializer
    return {**initializer, "config": options} if is_config else type(initializer).from_config(options)


def initializer_config(initializer: Initializer) -> Initializer:
    """An initializer as `get_config` gives it: a name or a config, an object serialized."""
    if isinstance(initializer, (str, Mapping)):
        return initializer
    return tf.keras.initializers.serialize(initializer)
