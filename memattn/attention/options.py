"""Options of mechanisms: what may be given, and the error for what may not."""

import inspect
import numbers
import types
import typing
from collections.abc import Collection
from typing import Any

MODEL_FACTS = ("units", "max_source_length", "initializer")  # arguments that the model gives a mechanism, not a config


class OptionError(ValueError):
    """An option that is out of range; its message is "OPTION: PROBLEM"."""

    def __init__(self, option: str, problem: str):
        super().__init__(option, problem)
        self.option, self.problem = option, problem

    def __str__(self) -> str:
        return f"{self.option}: {self.problem}"


def whole(name: str, value: Any) -> int:
    """An int of at least 1 as Python's int: Keras takes no NumPy integers. Raises OptionError."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise OptionError(name, f"must be a whole number of at least 1, not {value!r}")
    return int(value)


def one_of(name: str, value: Any, known: Collection) -> None:
    """Raises OptionError for a value that is none of the known ones."""
    if value not in known:
        raise OptionError(name, f"{value!r} is none of {', '.join(map(str, known))}")


def choices(annotation: Any) -> tuple:
    """Returns the values that an annotation allows: those of a Literal, which may be optional; () for other types."""
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    options = typing.get_args(annotation) if is_union else (annotation,)
    literals = [option for option in options if typing.get_origin(option) is typing.Literal]
    if not literals or len(literals) + (type(None) in options) < len(options):
        return ()
    return (*(value for literal in literals for value in typing.get_args(literal)), *[None] * (type(None) in options))


def arguments(mechanism: type) -> dict[str, inspect.Parameter]:
    """Returns the arguments of a mechanism's constructor, but for `self`, `*args` and `**kwargs`.

    Annotations that are postponed are evaluated; those that cannot be, as they name what only a type checker imports,
    stay a str.
    """
    constructor = mechanism.__init__
    found = {}
    for name, parameter in list(inspect.signature(constructor).parameters.items())[1:]:
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            found[name] = parameter.replace(annotation=_evaluated(parameter.annotation, constructor))
    return found


def _evaluated(annotation: Any, constructor: Any) -> Any:
    if not isinstance(annotation, str):
        return annotation
    holder = types.SimpleNamespace(__annotations__={"argument": annotation})
    try:
        return typing.get_type_hints(holder, inspect.unwrap(constructor).__globals__)["argument"]
    except Exception:  # of any kind: it is code
        return annotation
