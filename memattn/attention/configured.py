"""Base of layers whose config is read from the constructor's arguments, and initializers of their weights."""

import inspect
import numbers
import zlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import keras

from memattn import options

Initializer: TypeAlias = str | Mapping | keras.initializers.Initializer
"""Name of a Keras initializer, its config, or an object."""


_KERAS_ARGUMENTS = ("name", "dtype", "trainable", "activity_regularizer", "autocast", "dynamic")


class _ConstructorSignature:
    """The signature of a class, with the arguments of all its constructors, as `help` and editors show it.

    An object of the class has none, so that its signature is that of its `__call__`, which `tf.function` reads.
    """

    def __get__(self, instance, owner):
        if instance is not None:
            raise AttributeError("__signature__")
        arguments = owner.constructor_arguments().values()
        ordered = sorted(arguments, key=lambda argument: (argument.kind, argument.default is not argument.empty))
        return inspect.Signature(ordered)


class ConfiguredLayer(keras.layers.Layer):
    """A Keras layer that keeps each argument of its constructors as an attribute of the same name."""

    __signature__ = _ConstructorSignature()

    def __new__(cls, *args, **kwargs):
        """Checks the arguments by their annotations before the constructor runs."""
        known = cls.constructor_arguments()
        keywords = {name: value for name, value in kwargs.items() if name not in _KERAS_ARGUMENTS}
        options.arguments(known, {**dict(zip(known, args, strict=False)), **keywords}, cls.__name__)
        return super().__new__(cls, *args, **kwargs)

    def __init__(self, **kwargs):
        # Where Keras casts inputs, some versions (2.15, 3.5) lose their masks. The layers cast in `call`.
        kwargs.setdefault("autocast", False)
        super().__init__(**kwargs)

    @classmethod
    def constructor_arguments(cls) -> dict[str, inspect.Parameter]:
        """Returns the constructor arguments of this class and its bases, without those that every Keras layer has."""
        parameters: dict[str, inspect.Parameter] = {}
        for ancestor in cls.__mro__[: cls.__mro__.index(ConfiguredLayer)]:
            if "__init__" in vars(ancestor):
                for name, parameter in options.parameters(vars(ancestor)["__init__"]).items():
                    parameters.setdefault(name, parameter)
        return parameters

    def get_config(self):
        """Returns the constructors' arguments, each read from the attribute of its name."""
        config = super().get_config()
        missing = [name for name in self.constructor_arguments() if name not in config]
        config |= {name: options.plain(getattr(self, name)) for name in missing}
        if callable(initializer := config.get("initializer")):  # neither a name nor a config
            config["initializer"] = options.plain(keras.initializers.serialize(_object_of(initializer)))
        return config

    def make_dense(self, width: int, name: str, *, use_bias: bool = False, **arguments) -> keras.layers.Dense:
        """Makes a dense layer whose kernel starts as `self.initializer` says.

        Args:
          width: width of the output.
          name: name of the dense layer, another one for each in a layer: the seed of an initializer depends on it.
          use_bias: whether the layer has a bias.
          **arguments: further arguments of Dense; `kernel_initializer` replaces `self.initializer`.
        """
        if "kernel_initializer" not in arguments:
            arguments["kernel_initializer"] = initializer_of(name, self.initializer)
        return keras.layers.Dense(width, use_bias=use_bias, dtype=self.dtype_policy, name=name, **arguments)


def initializer_of(weight: str, initializer: Initializer) -> Initializer:
    """Returns the initializer of the weight named `weight`, in a layer that has one initializer for all its weights.

    An initializer draws the same numbers for each weight, unless its seed is a generator. So each weight gets a copy,
    and a seed that the user chose is changed by the weight's name.
    """
    given = _object_of(initializer)
    is_config = isinstance(given, Mapping)
    if not is_config and not hasattr(given, "get_config"):  # a name, or a function
        return given
    config = given.get("config") or {} if is_config else given.get_config()
    if "seed" not in config or isinstance(config["seed"], Mapping):  # a generator's config
        return given
    if isinstance(config["seed"], numbers.Integral):
        config = {**config, "seed": (int(config["seed"]) + zlib.crc32(weight.encode())) % 2**31}
    return {**given, "config": config} if is_config else type(given).from_config(config)


def _object_of(initializer: Any) -> Any:
    """Returns an object of a class, made with the default arguments as in Keras; anything else as it is."""
    return initializer() if isinstance(initializer, type) else initializer
