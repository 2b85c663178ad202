"""Base of layers whose config is read from the constructor's arguments."""

import inspect

import keras

from memattn import options
from memattn.attention.initializers import initializer_config


class ConfiguredLayer(keras.layers.Layer):
    """A Keras layer that keeps each argument of its constructors as an attribute of the same name."""

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
        for name in self.constructor_arguments():
            if name not in config:
                if not hasattr(self, name):
                    raise TypeError(
                        f"{type(self).__name__}: the constructor must keep its argument {name} as self.{name}"
                    )
                config[name] = options.plain(getattr(self, name))
        if "initializer" in config:
            config["initializer"] = options.plain(initializer_config(config["initializer"]))
        return config
