"""Options of mechanisms: the parameters of a constructor, checks of values, and the error for a wrong value."""

import inspect
import numbers
import types
import typing
from collections.abc import Callable, Collection
from typing import Any

MODEL_FACTS = ("units", "max_source_length", "initializer")  # arguments that a model, not a config, gives a mechanism


class OptionError(ValueError):
    """An option that is out of range; its message is "OPTION: PROBLEM"."""

    def __init__(self, option: str, problem: str):
        super().__init__(option, problem)
        self.option, self.problem = option, problem

    def __str__(self) -> str:
        return f"{self.option}: {self.problem}"


def positive_int(option: str, value: Any) -> int:
    """Returns an integer of at least 1 as Python's int, since Keras takes no NumPy integers.

    Raises OptionError for any other value.
    """
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise OptionError(option, f"must be an int of at least 1, not {value!r}")
    return int(value)


def check_choice(option: str, value: Any, choices: Collection) -> None:
    """Raises OptionError for a value that is none of the choices."""
    if value not in choices:
        raise OptionError(option, f"{value!r} is none of {', '.join(map(str, choices))}")


def literal_values(annotation: Any) -> tuple:
    """Returns the values that a Literal or an optional Literal allows; () for any other annotation."""
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    members = typing.get_args(annotation) if is_union else (annotation,)
    literals = [member for member in members if typing.get_origin(member) is typing.Literal]
    is_optional = type(None) in members
    if not literals or len(literals) + is_optional < len(members):
        return ()
    values = [value for literal in literals for value in typing.get_args(literal)]
    return (*values, None) if is_optional else tuple(values)


def constructor_parameters(mechanism: type) -> dict[str, inspect.Parameter]:
    """Returns the parameters of a class' constructor, except `self`, `*args` and `**kwargs`.

    Postponed annotations are evaluated. An annotation stays a str if it cannot be evaluated, for example because it
    names a type that only a type checker imports.
    """
    constructor = inspect.getattr_static(mechanism, "__init__")
    named = [
        parameter
        for parameter in list(inspect.signature(constructor).parameters.values())[1:]
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    return {
        parameter.name: parameter.replace(annotation=_evaluated(parameter.annotation, constructor))
        for parameter in named
    }


def _evaluated(annotation: Any, constructor: Callable) -> Any:
    if not isinstance(annotation, str):
        return annotation
    holder = types.SimpleNamespace(__annotations__={"argument": annotation})
    try:
        return typing.get_type_hints(holder, inspect.unwrap(constructor).__globals__)["argument"]
    except Exception:  # of any kind: evaluating runs the user's code
        return annotation
