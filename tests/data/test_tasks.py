"""Corpora of tasks: their rules, fixed bytes, uniform lengths, and folders that are safe to prepare again."""

import hashlib
import operator

import numpy as np
import pytest
from helpers.files import contents, lines_of
from helpers.repository import ROOT, run_python

from memattn import config as configs
from memattn.config import CopyConfig, TaskConfig
from memattn.data import tasks
from memattn.data.corpus import read_vocabulary
from memattn.errors import ConfigError

SMALL = CopyConfig(max_length=6, num_symbols=5, train_examples=30, valid_examples=10, seed=3)
NAMES = ["copy.json", "train.source", "train.target", "valid.source", "valid.target", "vocab.txt"]
SHA256 = {
    "train": "54feeed212aa634a0d0deab0b13d0e77d04402b194a59008f92293f6b829dea3",
    "valid": "124f5f48dcc6bb3a773a1fc6b6120cc93414818e0d1f1e5774b88fef7a76f6eb",
}


@pytest.fixture
def folder(tmp_path):
    tasks.prepare(SMALL, str(tmp_path / "copy"))
    return tmp_path / "copy"


def test_the_bytes_of_the_copy_task_are_the_same_on_every_machine(folder):
    assert sorted(contents(folder)) == NAMES
    for split, digest in SHA256.items():
        for name in ("source", "target"):
            assert hashlib.sha256((folder / f"{split}.{name}").read_bytes()).hexdigest() == digest


def operands(source):
    """The digits of both numbers of a source."""
    sign = next(index for index, token in enumerate(source) if token in "+*")
    return source[:sign], source[sign + 1 :]


def result(source, operation, num_digits):
    """The digits of the result of an operation in base 5, lowest digit first, by Python's arithmetic.

    `num_digits` gives the number of digits of the result from those of the operands.
    """
    left, right = operands(source)
    value = operation(number(left), number(right))
    digits = [str(value // 5**power % 5) for power in range(num_digits(len(left), len(right)))]
    assert number(digits) == value
    return digits


def number(digits):
    return int("".join(digits[::-1]) or "0", 5)


RULES = {
    "copy": lambda source: source,
    "reverse": lambda source: source[::-1],
    "sort": lambda source: sorted(source, key=int),
    "lookup": lambda source: [
        value for _, value in sorted(zip(source[::2], source[1::2], strict=True), key=lambda pair: int(pair[0][1:]))
    ],
    "duplicate": lambda source: source + source,
    "addition": lambda source: result(source, operator.add, lambda left, right: max(left, right) + 1),
    "multiplication": lambda source: result(source, operator.mul, operator.add),
    "selective_copy": lambda source: [token[1:] for token in source if token.startswith("*")],
}


@pytest.mark.parametrize("name", RULES)
def test_targets_follow_from_sources(name, tmp_path):
    marked = {"marked": 3} if name == "selective_copy" else {}
    task = TaskConfig(**{**vars(SMALL), "max_length": 12, "train_examples": 300}, name=name, **marked)
    tasks.prepare(task, str(tmp_path / name))
    vocabulary = read_vocabulary(str(tmp_path / name))
    lines = [lines_of(tmp_path / name / f"train.{side}") for side in ("source", "target")]
    pairs = [tuple(line.split() for line in pair) for pair in zip(*lines, strict=True)]
    assert len(pairs) == 300
    for source, target in pairs:
        assert target == RULES[name](source)
        assert 3 not in vocabulary.encode(source) + vocabulary.encode(target)  # no unknown token
    assert sum(source == target for source, target in pairs) < 100 or name == "copy"
    longest = max(len(source) for source, _ in pairs)
    assert longest == {"lookup": 24, "addition": 25, "multiplication": 25}.get(name, 12)
    assert {token for source, _ in pairs for token in source} == set(vocabulary.tokens[4:])
    if name == "lookup":
        assert all(len(set(source[::2])) == len(target) for source, target in pairs)  # each key once
    if name == "selective_copy":
        assert all(len(target) == min(3, len(source)) for source, target in pairs)


@pytest.mark.parametrize("name", ["addition", "multiplication"])
def test_operands_may_have_different_lengths(name, tmp_path):
    """With `uneven`, half of the pairs draw a shorter length for one operand, the left as often as the right."""
    for uneven in (False, True):
        task = TaskConfig(max_length=9, num_symbols=5, train_examples=2_000, valid_examples=1, name=name, uneven=uneven)
        folder = tmp_path / str(uneven)
        tasks.prepare(task, str(folder))
        sources, targets = (lines_of(folder / f"train.{side}") for side in ("source", "target"))
        for source, target in zip(sources, targets, strict=True):
            assert target.split() == RULES[name](source.split())
        lengths = np.array([[len(digits) for digits in operands(source.split())] for source in sources])
        fractions_of_longer_lengths = np.bincount(lengths.max(1), minlength=10) / len(lengths)
        np.testing.assert_allclose(fractions_of_longer_lengths, np.full(10, 0.1), atol=0.03)
        for side in (0, 1):
            fraction_with_this_side_shorter = np.mean(lengths[:, side] < lengths[:, 1 - side])
            # Where the longer length is 0, as in a tenth of the pairs, no side is shorter.
            np.testing.assert_allclose(fraction_with_this_side_shorter, 0.25 * 0.9 * uneven, atol=0.03 * uneven)


def test_the_task_named_copy_equals_data_copy(tmp_path, folder):
    task = TaskConfig(**vars(SMALL), name="copy")
    assert (task.folder, task.settings) == (SMALL.folder, SMALL.settings)
    tasks.prepare(task, str(tmp_path / "task"))
    assert contents(tmp_path / "task") == contents(folder)


def test_each_task_has_a_folder_of_another_name():
    def load(task):
        return configs.from_dict({"data": task}).data

    different = [{"name": name} for name in RULES]
    different += [{"name": "selective_copy", "marked": 5}, {"name": "sort", "seed": 2}]
    different += [{"name": name, "uneven": True} for name in ("addition", "multiplication")]
    different += [{field: 7} for field in ("max_length", "num_symbols", "train_examples", "valid_examples", "seed")]
    assert len({load({"task": task}).path for task in different}) == len(different)
    with pytest.raises(ConfigError, match="data.task.uneven: .*addition"):
        load({"task": {"name": "sort", "uneven": True}})
    with pytest.raises(ConfigError, match="data.task.marked: .*selective_copy"):
        load({"task": {"name": "sort", "marked": 5}})
    with pytest.raises(ConfigError, match="data.task: given beside data.copy"):
        load({"copy": {}, "task": {"name": "sort"}})
    with pytest.raises(ConfigError, match="data.task.name: 'sorted' .*mean sort"):
        load({"task": {"name": "sorted"}})


def chi_square(counts):
    expected = np.mean(counts)
    return float(((np.array(counts) - expected) ** 2 / expected).sum())


def test_lengths_and_symbols_are_uniform(tmp_path):
    task = CopyConfig(max_length=7, num_symbols=4, train_examples=20_500, valid_examples=500)  # written in blocks
    tasks.prepare(task, str(tmp_path / "copy"))
    train, valid = (lines_of(tmp_path / f"copy/{split}.source") for split in ("train", "valid"))
    assert (len(train), len(valid)) == (20_500, 500)
    lengths = np.bincount([len(line.split()) for line in train])
    symbols = np.bincount(list(map(int, " ".join(train).split())))
    assert (len(lengths), len(symbols)) == (8, 4)
    assert chi_square(lengths) < 24.3  # 7 degrees of freedom: 1 in 1,000
    assert chi_square(symbols) < 16.3  # 3 degrees of freedom: 1 in 1,000
    assert not set(valid) <= set(train)


def test_a_complete_folder_is_left_untouched(folder):
    (folder / "train.source").write_text("mine\n", encoding="utf-8")
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    tasks.prepare(SMALL, str(folder))
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert (folder / "train.source").read_text(encoding="utf-8") == "mine\n"


@pytest.mark.slow
def test_the_recipe_writes_the_same_corpora(tmp_path, folder):
    options = {name: value for name, value in vars(SMALL).items() if name != "max_length"}
    flags = ["--max_length=6", "--max_length=7", *(f"--{name}={value}" for name, value in options.items())]
    result = run_python(ROOT / "data/copy_task.py", *flags, folder=tmp_path)
    assert result.stdout.splitlines() == [SMALL.folder, CopyConfig(**{**vars(SMALL), "max_length": 7}).folder]
    assert contents(tmp_path / SMALL.folder) == contents(folder)
