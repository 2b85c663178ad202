"""Tasks whose pairs follow a rule: what tokens they have, and how a target follows from its source."""

import operator
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from memattn.config import CopyConfig, TaskConfig

Pair = tuple[list[str], list[str]]


class Task(NamedTuple):
    """A kind of pairs.

    Attributes:
      tokens: of the vocabulary, for a config.
      pairs: (config, random, lengths [N]) -> N pairs of source and target tokens, made of so many symbols.
    """

    tokens: Callable[[CopyConfig], list[str]]
    pairs: Callable[[CopyConfig, np.random.RandomState, np.ndarray], list[Pair]]


def _symbols(config: CopyConfig) -> list[str]:
    return [str(symbol) for symbol in range(config.num_symbols)]


def draw_lengths(config: CopyConfig, random: np.random.RandomState, number: int) -> np.ndarray:
    """Lengths [number], uniform on 0 to L (section 4.1 of the paper)."""
    return random.randint(0, config.max_length + 1, size=number)


def _sequences(config: CopyConfig, random: np.random.RandomState, lengths: np.ndarray) -> list[np.ndarray]:
    """A sequence of uniform symbols of each length."""
    symbols = random.randint(0, config.num_symbols, size=lengths.sum())
    return np.split(symbols, np.cumsum(lengths)[:-1])


def _of_sequences(change: Callable[[np.ndarray], np.ndarray]) -> Task:
    """The task of which the target is a changed source."""

    def pairs(config, random, lengths):
        sequences = _sequences(config, random, lengths)
        return [tuple([str(symbol) for symbol in side] for side in (one, change(one))) for one in sequences]

    return Task(_symbols, pairs)


def _key(number: int) -> str:
    return f"k{number}"


def _lookup_pairs(config: TaskConfig, random: np.random.RandomState, lengths: np.ndarray) -> list[Pair]:
    """Up to L keys in random order, each before its value; the target has the values in the order of the keys.

    So no token of the source tells what will be asked, and a memory must keep all pairs.
    """
    found = []
    for values in _sequences(config, random, lengths):
        keys = random.permutation(config.max_length)[: len(values)]
        source = [token for key, value in zip(keys, values, strict=True) for token in (_key(key), str(value))]
        found.append((source, [str(values[place]) for place in np.argsort(keys)]))
    return found


def _marked(symbol: int) -> str:
    return f"*{symbol}"


def _selective_pairs(config: TaskConfig, random: np.random.RandomState, lengths: np.ndarray) -> list[Pair]:
    """A few marked symbols among many others; the target has the marked ones, in their order."""
    found = []
    for symbols in _sequences(config, random, lengths):
        places = np.sort(random.permutation(len(symbols))[: config.marked])
        source = [str(symbol) for symbol in symbols]
        for place in places:
            source[place] = _marked(symbols[place])
        found.append((source, [str(symbols[place]) for place in places]))
    return found


def _arithmetic(sign: str, operation: Callable[[int, int], int], places: Callable[[int, int], int]) -> Task:
    """Two numbers and the sign between them; the target is the result, the lowest digit first.

    Operands and result keep their leading zeros: the result of operands of k and l digits has `places(k, l)`.
    """

    def pairs(config, random, lengths):
        found, base = [], config.num_symbols
        one_has, other_has = _digits_of_operands(config, random, lengths)
        for digits, cut in zip(_sequences(config, random, one_has + other_has), one_has, strict=True):
            operands = digits[:cut], digits[cut:]
            result = operation(*(_value(operand, base) for operand in operands))
            one, other = ([str(digit) for digit in operand] for operand in operands)
            found.append(([*one, sign, *other], _digits(result, base, places(len(one), len(other)))))
        return found

    return Task(lambda config: [*_symbols(config), sign], pairs)


def _digits_of_operands(
    config: TaskConfig, random: np.random.RandomState, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How many digits [N] the two numbers of each pair have: `lengths`, or one of them fewer where they are uneven."""
    if not config.uneven:
        return lengths, lengths
    equal, swapped = random.randint(0, 2, [2, len(lengths)]) == 1
    fewer = np.where(equal, lengths, random.randint(0, np.maximum(lengths, 1)))
    return np.where(swapped, fewer, lengths), np.where(swapped, lengths, fewer)


def _value(digits: np.ndarray, base: int) -> int:
    """The number of these digits, the lowest first."""
    value = 0
    for digit in digits[::-1].tolist():
        value = value * base + digit
    return value


def _digits(value: int, base: int, places: int) -> list[str]:
    """The number in so many digits, the lowest first."""
    digits = []
    for _ in range(places):
        value, digit = divmod(value, base)
        digits.append(str(digit))
    return digits


TASKS = {
    "copy": _of_sequences(lambda source: source),
    "reverse": _of_sequences(lambda source: source[::-1]),
    "duplicate": _of_sequences(lambda source: np.tile(source, 2)),
    "addition": _arithmetic("+", operator.add, lambda one, other: max(one, other) + 1),
    "multiplication": _arithmetic("*", operator.mul, operator.add),
    "sort": _of_sequences(np.sort),
    "lookup": Task(lambda config: [*_symbols(config), *map(_key, range(config.max_length))], _lookup_pairs),
    "selective_copy": Task(
        lambda config: [*_symbols(config), *map(_marked, range(config.num_symbols))], _selective_pairs
    ),
}
