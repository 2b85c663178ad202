"""Options: fields of a dataclass, or arguments of a layer's constructor, checked by their annotations.

An option is declared once, with its type, its range and its default:

    num_slots: Annotated[int, Range(at_least=1)] = 32
    scoring: Literal["softmax", "sigmoid"] = "softmax"
"""

import collections.abc
import dataclasses
import datetime
import difflib
import functools
import inspect
import math
import textwrap
import types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import numpy as np

from memattn.errors import abbreviated

_Section = TypeVar("_Section", bound="Options")

TYPES = {  # in words, for messages
    int: "an int",
    float: "a number",
    bool: "true or false",
    str: "a str",
    list: "a list",
    tuple: "a list",
    dict: "a mapping",
    collections.abc.Mapping: "a mapping",
    types.NoneType: "null",
}


class OptionError(ValueError):
    """An option that is unknown, missing or out of range; its message is "OPTION: PROBLEM"."""

    def __init__(self, option: str, problem: str):
        super().__init__(option, problem)
        self.option, self.problem = option, problem

    def __str__(self) -> str:
        return f"{self.option}: {self.problem}"


@dataclasses.dataclass(frozen=True)
class Range:
    """Bounds of a finite number."""

    at_least: float = -math.inf
    above: float = -math.inf
    at_most: float = math.inf
    below: float = math.inf

    def problem(self, value: float) -> str:
        """Returns why a number is out of the range; "" if it is not."""
        fits = self.at_least <= value <= self.at_most and self.above < value < self.below
        return "" if fits else f"must be {self}, not {value}"

    def __str__(self) -> str:
        bounds = vars(self).items()
        return " and ".join(f"{name.replace('_', ' ')} {bound}" for name, bound in bounds if math.isfinite(bound))


class OneOf:
    """The keys of a dictionary. A new entry is known to configs and their documentation without further edits."""

    def __init__(self, names: Collection[str]):
        self.names = names

    def problem(self, value: str) -> str:
        """Returns the message for a str that is none of the keys; "" for a key."""
        return "" if value in self.names else not_one_of(value, self.names)


PositiveInt: TypeAlias = Annotated[int, Range(at_least=1)]
Rate: TypeAlias = Annotated[float, Range(at_least=0, below=1)]
Seed: TypeAlias = Annotated[int, Range(at_least=0, below=2**31)]
Precision: TypeAlias = Literal["float32", "mixed_bfloat16", "mixed_float16"]
Problems: TypeAlias = Iterator[tuple[str, str]]  # an option, and what is wrong with it


@dataclasses.dataclass(frozen=True)
class Options:
    """Base of dataclasses that check their fields when they are made, and raise OptionError."""

    def __post_init__(self):
        for name, hint in hints(type(self)).items():
            object.__setattr__(self, name, checked(name, hint, getattr(self, name)))
        raise_first(self.problems())

    def problems(self) -> Problems:
        """Yields fields whose values are valid alone, but do not fit the others."""
        return iter(())


def raise_first(problems: Problems) -> None:
    """Raises OptionError for the first of the problems, if there is one."""
    for option, problem in problems:
        raise OptionError(option, problem)


_type_hints = functools.cache(typing.get_type_hints)  # it evaluates annotations anew each time


def hints(section: type) -> dict[str, Any]:
    """Returns the annotation of each field of a dataclass."""
    annotations = _type_hints(section, include_extras=True)
    return {field.name: annotations[field.name] for field in dataclasses.fields(section)}


def split(section: type[_Section], config: Mapping[str, Any]) -> tuple[_Section, dict[str, Any]]:
    """Returns the dataclass of the options in a mapping, and the rest of the mapping."""
    options = {name: value for name, value in config.items() if name in hints(section)}
    return section(**options), {name: value for name, value in config.items() if name not in options}


def parameters(constructor: Any) -> dict[str, inspect.Parameter]:
    """Returns the parameters of a constructor, except `self`, `*args` and `**kwargs`.

    If annotations cannot be evaluated, because they name what only a type checker imports, the parameters have none.
    """
    try:
        annotations = typing.get_type_hints(constructor, include_extras=True)
    except NameError:
        annotations = {}
    named = list(inspect.signature(constructor).parameters.values())[1:]
    return {
        parameter.name: parameter.replace(annotation=annotations.get(parameter.name, Any))
        for parameter in named
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }


def arguments(known: Mapping[str, inspect.Parameter], given: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Returns the values that are given for known parameters, checked. Raises OptionError, which names the `owner`."""
    for name in given:
        if name not in known:
            options = f"its options: {listed(known)}" if known else "it has none"
            raise OptionError(str(name), "; ".join([f"unknown option of {owner}", *did_you_mean(name, known), options]))
    return {name: checked(name, known[name].annotation, value) for name, value in given.items()}


def checked(option: str, hint: Any, value: Any) -> Any:
    """Returns the value of an option as its annotation wants it.

    NumPy's numbers become Python's; an int may become a float, a list a tuple. A hint with a type that no config has,
    such as a class, allows every value. Raises OptionError.
    """
    if isinstance(value, np.generic):
        value = value.item()
    expected: list[str] = []
    for member in members(hint):
        kind, *rules = typing.get_args(member) if typing.get_origin(member) is Annotated else [member]
        origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
        if origin is Literal:
            if value in arguments:
                return value
            expected += arguments
        elif origin not in TYPES:
            return value
        elif _is(value, origin):
            value = float(value) if origin is float else value
            if problem := next(filter(None, (rule.problem(value) for rule in rules)), ""):
                raise OptionError(option, problem)
            if origin is tuple:
                return tuple(checked(f"{option}[{i}]", arguments[0], item) for i, item in enumerate(value))
            return value
        else:
            expected.append(TYPES[origin])
    raise OptionError(option, _unexpected(value, expected))


def _unexpected(value: Any, expected: list[str]) -> str:
    """Returns the message for a value that is none of the expected values, and of none of the expected types."""
    if all(name not in TYPES.values() or name == "null" for name in expected):
        return not_one_of(value, expected)
    needs_quotes = "a str" in expected and isinstance(value, (bool, int, float, datetime.date))
    advice = "; quote it for a str" if needs_quotes else ""
    return f"expected {' or '.join(expected)}, not {abbreviated(value)}{advice}"


def _is(value: Any, origin: type) -> bool:
    if isinstance(value, bool):
        return origin is bool
    accepted = {float: (int, float), tuple: (list, tuple), dict: Mapping}
    return isinstance(value, accepted.get(origin, origin))  # type: ignore[arg-type]


def plain(value: Any) -> Any:
    """Returns a copy in which every mapping is a dict, every sequence a list, and every NumPy number Python's."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def members(hint: Any) -> tuple[Any, ...]:
    """Returns the members of a union; for another hint, the hint itself."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def not_one_of(value: Any, known: Iterable[Any]) -> str:
    """Returns the message for a value that is none of the known ones; it names the nearest of them."""
    names = [str(name) for name in known]
    return "; ".join([f"{abbreviated(value)} is none of {', '.join(names)}", *did_you_mean(value, names)])


def did_you_mean(name: Any, known: Iterable[Any]) -> list[str]:
    """Returns a list with a question that names the nearest known name; [] if no name is near."""
    by_lower_case = {str(each).lower(): str(each) for each in known}
    close = difflib.get_close_matches(str(name).lower(), by_lower_case, n=1, cutoff=0.5)
    return [f"did you mean {by_lower_case[close[0]]}?"] if close else []


def listed(keys: Iterable[str]) -> str:
    """Returns keys joined by commas, only the first ones if there are many."""
    return textwrap.shorten(", ".join(keys), 300, placeholder=" ...")
