"""Checks `model.attention` by the constructor of the mechanism that it names.

Mechanisms, and TensorFlow with them, are imported only when a config is checked.
"""

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memattn.config.schema import Origin, did_you_mean, not_one_of, value_of
from memattn.errors import listed, reason, short

if TYPE_CHECKING:
    from memattn.attention import AttentionMechanism

DEFAULT = "memory"  # the mechanism of a `model.attention` without `name`


def complete(attention: Mapping[str, Any], key: str, origin: Origin) -> dict[str, Any]:
    """Returns the name of a mechanism and all of its options, the absent ones at the constructor's defaults.

    Args:
      attention: `name`, by default `DEFAULT`, and options.
      key: dotted key of the mapping.
      origin: where the mapping came from.

    Raises:
      ConfigError: the mechanism cannot be imported, or an option is unknown, missing or out of range.
    """
    from memattn.attention import OptionError

    name = attention.get("name", DEFAULT)
    mechanism = _mechanism(name, f"{key}.name", origin)
    parameters = mechanism_parameters(mechanism)
    options = {option: value for option, value in attention.items() if option != "name"}
    for option, value in options.items():
        if option not in parameters:
            keys = f"its keys: {listed(parameters)}" if parameters else "it has no keys"
            problems = [f"unknown key for {name}", *did_you_mean(option, parameters), keys]
            raise origin.error(f"{key}.{option}", "; ".join(problems))
        annotation = parameters[option].annotation
        if annotation is inspect.Parameter.empty:
            problem = f"the argument of {mechanism.__name__} has no annotation to check by"
            raise origin.error(f"{key}.{option}", problem)
        options[option] = value_of(annotation, value, f"{key}.{option}", origin, {})
    for option, parameter in parameters.items():
        if option not in options and parameter.default is parameter.empty:
            raise origin.error(f"{key}.{option}", f"missing; {name} needs it")
        options.setdefault(option, parameter.default)
    try:
        mechanism.validate(options)
    except OptionError as error:
        raise origin.error(f"{key}.{error.option}", error.problem) from error
    except ValueError as error:
        raise origin.error(key, str(error)) from error
    return {"name": name, **options}


def keys_of_option(option: str) -> list[str]:
    """Returns a list with the dotted key of an option of a registered mechanism; [] if no mechanism has it."""
    from memattn.attention import MECHANISMS

    has_option = any(option in mechanism_parameters(mechanism) for mechanism in MECHANISMS.values())
    return [f"model.attention.{option}"] if has_option else []


def _mechanism(name: Any, key: str, origin: Origin) -> "type[AttentionMechanism]":
    """Returns the class of a mechanism."""
    from memattn.attention import MECHANISMS, mechanism

    try:
        return mechanism(name)
    except ImportError as error:
        raise origin.error(key, f"{short(name)}: {reason(error)}") from error
    except ValueError as error:
        raise origin.error(key, not_one_of(name, list(MECHANISMS))) from error


def mechanism_parameters(mechanism: "type[AttentionMechanism]") -> dict[str, inspect.Parameter]:
    """Returns the arguments of a mechanism's constructor that a config sets."""
    from memattn.attention.options import MODEL_FACTS

    return {name: argument for name, argument in mechanism.constructor_arguments().items() if name not in MODEL_FACTS}
