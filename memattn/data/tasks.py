"""Tasks whose targets follow from their sources by a rule: their tokens, how to draw pairs, and their corpora."""

import json
import operator
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tqdm import tqdm

from memattn import files, processes
from memattn.data.corpus import VOCABULARY
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError, DataError
from memattn.plain_values import differences

if TYPE_CHECKING:
    from memattn.data.config import CopyConfig, TaskConfig

_SETTINGS = "copy.json"  # of every task; named after the first
SPLITS = ("train", "valid")
_BLOCK = 10_000  # pairs that are drawn at a time

Pair = tuple[list[str], list[str]]
MARK = "*"  # stands before the marked symbols of `selective_copy`


class Task(NamedTuple):
    """The two functions of a task. Both take its config: a `CopyConfig` for copying, else a `TaskConfig`."""

    tokens: Callable[["CopyConfig"], list[str]]  # returns the tokens of the vocabulary
    # takes a random generator and lengths [N], too; draws N pairs. `CopyConfig.max_length` says what a length counts
    pairs: Callable[[Any, np.random.RandomState, np.ndarray], list[Pair]]


def _symbols(config: "CopyConfig") -> list[str]:
    return list(map(str, range(config.num_symbols)))


def _draw_sequences(config: "CopyConfig", random: np.random.RandomState, lengths: np.ndarray) -> list[np.ndarray]:
    """Draws a sequence of uniformly distributed symbols for each length."""
    symbols = random.randint(0, config.num_symbols, size=lengths.sum())
    return np.split(symbols, np.cumsum(lengths)[:-1])


def _transduction(change: Callable[[np.ndarray], np.ndarray]) -> Task:
    """Returns the task whose target is `change(source)`."""

    def pairs(config: "CopyConfig", random: np.random.RandomState, lengths: np.ndarray) -> list[Pair]:
        sequences = _draw_sequences(config, random, lengths)
        return [(list(map(str, source)), list(map(str, change(source)))) for source in sequences]

    return Task(_symbols, pairs)


def _key(number: int) -> str:
    return f"k{number}"


def _lookup_pairs(config: "CopyConfig", random: np.random.RandomState, lengths: np.ndarray) -> list[Pair]:
    """Draws up to L keys in random order, each before its value; the target has the values in the order of the keys.

    No token of the source tells what will be asked, so a memory must keep all pairs.
    """
    pairs = []
    for values in _draw_sequences(config, random, lengths):
        keys = random.permutation(config.max_length)[: len(values)]
        source = [token for key, value in zip(keys, values, strict=True) for token in (_key(key), str(value))]
        pairs.append((source, list(map(str, values[np.argsort(keys)]))))
    return pairs


def _marked(symbol: int) -> str:
    return f"{MARK}{symbol}"


def _selective_pairs(config: "TaskConfig", random: np.random.RandomState, lengths: np.ndarray) -> list[Pair]:
    """Draws sources with a few marked symbols; the target has the marked symbols in their order."""
    pairs = []
    for symbols in _draw_sequences(config, random, lengths):
        positions = np.sort(random.permutation(len(symbols))[: config.marked])
        source = list(map(str, symbols))
        for position in positions:
            source[position] = _marked(symbols[position])
        pairs.append((source, list(map(str, symbols[positions]))))
    return pairs


def _arithmetic(sign: str, operation: Callable[[int, int], int], num_digits: Callable[[int, int], int]) -> Task:
    """Returns the task whose source is two numbers with a sign between them, and whose target is the result.

    Digits come lowest first. Operands and result keep their leading zeros: for operands of k and l digits, the result
    has `num_digits(k, l)`.
    """

    def pairs(config: "TaskConfig", random: np.random.RandomState, lengths: np.ndarray) -> list[Pair]:
        examples, base = [], config.num_symbols
        left_lengths, right_lengths = _operand_lengths(config, random, lengths)
        sequences = _draw_sequences(config, random, left_lengths + right_lengths)
        for digits, cut in zip(sequences, left_lengths, strict=True):
            left, right = digits[:cut], digits[cut:]
            result = operation(_value(left, base), _value(right, base))
            source = [*map(str, left), sign, *map(str, right)]
            examples.append((source, _digits(result, base, num_digits(len(left), len(right)))))
        return examples

    return Task(lambda config: [*_symbols(config), sign], pairs)


def _operand_lengths(
    config: "TaskConfig", random: np.random.RandomState, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numbers of digits [N] of both operands: `lengths`; if `uneven`, one operand may have fewer."""
    if not config.uneven:
        return lengths, lengths
    equal, swapped = random.randint(0, 2, [2, len(lengths)]) == 1
    fewer = np.where(equal, lengths, random.randint(0, np.maximum(lengths, 1)))
    return np.where(swapped, fewer, lengths), np.where(swapped, lengths, fewer)


def _value(digits: np.ndarray, base: int) -> int:
    """Returns the number with these digits, lowest first."""
    return sum(digit * base**power for power, digit in enumerate(digits.tolist()))


def _digits(value: int, base: int, number: int) -> list[str]:
    """Returns the lowest `number` digits of a value, lowest first."""
    digits = []
    for _ in range(number):
        value, digit = divmod(value, base)
        digits.append(str(digit))
    return digits


TASKS = {
    "copy": _transduction(lambda source: source),
    "reverse": _transduction(lambda source: source[::-1]),
    "duplicate": _transduction(lambda source: np.tile(source, 2)),
    "sort": _transduction(np.sort),
    "addition": _arithmetic("+", operator.add, lambda left, right: max(left, right) + 1),
    "multiplication": _arithmetic("*", operator.mul, operator.add),
    "lookup": Task(lambda config: [*_symbols(config), *map(_key, range(config.max_length))], _lookup_pairs),
    "selective_copy": Task(
        lambda config: [*_symbols(config), *map(_marked, range(config.num_symbols))], _selective_pairs
    ),
}


def prepare(config: "CopyConfig", folder: str) -> None:
    """Writes vocab.txt and {train,valid}.{source,target} into `folder`, the same bytes on every machine.

    One process writes a folder; others wait for it. The folder appears when it is complete. A complete folder is not
    touched.

    Raises ConfigError if the folder holds something else, OSError.
    """
    folder = os.path.normpath(folder)
    if _is_complete(folder, config.settings):
        return
    os.makedirs(os.path.dirname(folder) or os.curdir, exist_ok=True)
    with files.naming(folder), processes.locked(f"{folder}.lock", folder, "is writing it; waiting", wait=True):
        if not _is_complete(folder, config.settings):
            with files.making_folder(folder) as unfinished:
                _write_corpus(config, unfinished)


def _is_complete(folder: str, settings: dict) -> bool:
    """Returns False for a folder that is missing or empty. Raises ConfigError unless it holds this corpus."""
    if not (os.path.exists(folder) and os.listdir(folder)):
        return False
    try:
        stored = files.read_json(os.path.join(folder, _SETTINGS))
    except (OSError, DataError) as error:
        raise ConfigError(f"{folder}: holds files, but no corpus of a task ({error}); use another folder") from error
    if stored != settings:
        differing = ", ".join(map(str, differences(stored, settings)))
        raise ConfigError(f"{folder}: holds a task with other settings: {differing}; use another folder")
    return True


def _write_corpus(config: "CopyConfig", folder: str) -> None:
    files.write(os.path.join(folder, VOCABULARY), str(Vocabulary(TASKS[config.name].tokens(config))))
    sizes = config.train_examples, config.valid_examples
    for number, (split, examples) in enumerate(zip(SPLITS, sizes, strict=True)):
        seed = [config.seed, config.max_length, config.num_symbols, number]
        random = np.random.RandomState(seed)  # noqa: NPY002 (the same in every version of NumPy)
        _write_split(config, folder, split, examples, random)
    files.write(os.path.join(folder, _SETTINGS), json.dumps(config.settings, indent=2) + "\n")


def _write_split(config: "CopyConfig", folder: str, split: str, examples: int, random: np.random.RandomState) -> None:
    with (
        files.writing(os.path.join(folder, f"{split}.source")) as source,
        files.writing(os.path.join(folder, f"{split}.target")) as target,
        tqdm(total=examples, desc=f"{config.name} task, {split}", unit=" pairs", disable=None) as progress,
    ):
        for start in range(0, examples, _BLOCK):
            number = min(_BLOCK, examples - start)
            lengths = random.randint(0, config.max_length + 1, number)  # uniform on 0 to L (section 4.1 of the paper)
            pairs = TASKS[config.name].pairs(config, random, lengths)
            for file, lines in zip((source, target), zip(*pairs, strict=True), strict=True):
                file.write("".join(" ".join(line) + "\n" for line in lines).encode("utf-8"))
            progress.update(len(pairs))
