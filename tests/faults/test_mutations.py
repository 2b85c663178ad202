"""Configs and corpora damaged at random train or are refused in a single line, and no existing file changes."""

import copy
import json
import random
import shutil

import pytest
import yaml
from helpers.files import contents
from helpers.runs import TINY

from memattn import config as configs

pytestmark = pytest.mark.slow

# Overrides that keep a training short whatever its config holds.
SHORT = ["training.max_steps=2", "training.jit_compile=false", "decoding.jit_compile=false"]
ATTENTIONS = [
    {
        "name": "memory",
        "num_slots": 3,
        "encoder_scoring": "sigmoid",
        "decoder_scoring": "softmax",
        "position_encoding": True,
    },
    {"name": "bahdanau", "cache_keys": True},
    {"name": "luong"},
    {"name": "none"},
]
VALUES = [
    *(-1, 0, 1, 2, 3, 17, 0.5, 1.5, -0.0, 1e-30, 1e30, 2**31, 10**40, float("nan"), float("inf")),
    *(True, False, None, "", "x", "7", "none", "null", "softmax", "sigmoid", "auto", "memory", "luong", "all", "é\n\0"),
    *([], {}, [1], {"x": 1}, [[]], {"name": "memory"}),
]
SCRAPS = [
    *("\t", ":", "- ", "#", "'", '"', "{", "]", "&a ", "*a"),
    *("---\n", "\0", "\x85", "\ufeff", "9" * 50, "%"),
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The folder of a corpus of text."""
    folder = tmp_path_factory.mktemp("corpus")
    words, chance = ["ein", "Mann", "läuft", "über", "die", "Straße", ".", "日本"], random.Random(1)
    for split, pairs in (("train", 40), ("valid", 6)):
        lines = [" ".join(chance.choices(words, k=chance.randint(1, 6))) for _ in range(pairs)]
        for side in ("source", "target"):
            (folder / f"{split}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    return folder


def outcome(command, folder):
    """Trains in a folder with a config; returns the exit status, or a str that describes a fault in how it ended."""
    before = contents(folder)
    flags = ["--config=config.yaml", "--run_dir=run", "--strategy=none", *(f"--set={setting}" for setting in SHORT)]
    status, stdout, stderr = command(folder, "memattn.train", *flags)
    after = contents(folder)
    changed = [path for path in before if after.get(path) != before[path]]
    errors = [line for line in stderr.splitlines() if line.startswith("error: ")]
    is_consistent = (status, len(errors)) in ((0, 0), (1, 1), (2, 1))
    if changed or "Traceback" in stderr or not is_consistent:
        return f"{folder}: status {status}, changed {changed}\n{stdout[-300:]}\n{stderr[-2000:]}"
    return status


def try_all(count, fill, commands, tmp_path):
    """Trains in `count` folders, each filled by fill(random, folder); returns how many ended with each status."""
    command, map_over_processes = commands

    def fill_and_train(number):
        folder = tmp_path / str(number)
        folder.mkdir()
        fill(random.Random(number), folder)
        status = outcome(command, folder)
        if isinstance(status, int):
            shutil.rmtree(folder)
        return status

    statuses = list(map_over_processes(fill_and_train, range(count)))
    faults = [status for status in statuses if not isinstance(status, int)]
    assert not faults, "\n\n".join(faults)
    return {status: statuses.count(status) for status in sorted(set(statuses))}


def paths_of_nodes(tree, path=()):
    """Returns the paths of all nodes below the root of a tree of mappings and lists."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    paths = []
    for key, value in items:
        paths += [(*path, key), *paths_of_nodes(value, (*path, key))]
    return paths


def damage_tree(chance, tree):
    """Deletes a random key, misspells it, or gives it the value of another key or one of VALUES."""
    path = chance.choice(paths_of_nodes(tree))
    *parents, key = path
    node = tree
    for parent in parents:
        node = node[parent]
    kind = chance.randrange(6)
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node, dict):
        letters = list(str(key))
        letters[chance.randrange(len(letters))] = chance.choice("abcdefgh._")
        node["".join(letters)] = node.pop(key)
    elif kind == 2:
        value = tree
        for part in chance.choice(paths_of_nodes(tree)):
            value = value[part]
        node[key] = json.loads(json.dumps(value))
    else:
        node[key] = copy.deepcopy(chance.choice(VALUES))


def damage_bytes(chance, content):
    """Returns the content with some bytes lost, doubled, changed or added, cut off, or with its lines shuffled."""
    if not content:
        return b"\n"
    start = chance.randrange(len(content))
    end = min(len(content), start + chance.randint(1, 12))
    kind = chance.randrange(6)
    if kind == 0:
        return content[:start]
    if kind == 1:
        return content[:start] + content[end:]
    if kind == 2:
        return content[:end] + content[start:]
    if kind == 3:
        return content[:start] + bytes([chance.randrange(256)]) + content[start + 1 :]
    if kind == 4:
        return content[:start] + chance.choice(SCRAPS).encode() + content[start:]
    lines = content.splitlines(keepends=True)
    chance.shuffle(lines)
    return b"".join(lines)


def write_damaged_config(chance, folder, corpus):
    """Writes config.yaml with one to three faults, in its tree of keys or in its bytes."""
    tree = configs.apply_changes(TINY, {"model.attention": chance.choice(ATTENTIONS)})
    if chance.random() < 0.5:
        shutil.copytree(corpus, folder / "data")
        del tree["data"]["copy"]
        tree["data"]["folder"] = "data"
    (folder / "intact.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    tree = configs.to_dict(configs.load(str(folder / "intact.yaml"), []))  # with all defaults
    is_tree_damaged = chance.random() < 0.7
    for _ in range(chance.randint(1, 3) if is_tree_damaged else 0):
        if paths_of_nodes(tree):
            damage_tree(chance, tree)
    content = yaml.safe_dump(tree, sort_keys=False).encode()
    for _ in range(0 if is_tree_damaged else chance.randint(1, 3)):
        content = damage_bytes(chance, content)
    (folder / "config.yaml").write_bytes(content)


def write_damaged_corpus(chance, folder, corpus):
    """Copies a corpus and damages files in it: one to three are lost, replaced or changed."""
    shutil.copytree(corpus, folder / "data")
    tree = configs.apply_changes(TINY, {"data": {"folder": "data", "num_buckets": 2}})
    (folder / "config.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    for _ in range(chance.randint(1, 3)):
        path = chance.choice(sorted((folder / "data").iterdir()))
        kind = chance.randrange(10)
        if kind == 0:
            remove(path)
        elif kind == 1:
            remove(path)
            path.mkdir()
        elif kind == 2 and path.is_file():
            replacement = chance.choice(sorted((folder / "data").iterdir()))
            if replacement.is_file():
                path.write_bytes(replacement.read_bytes())
        elif path.is_file():
            path.write_bytes(damage_bytes(chance, path.read_bytes()))


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def test_damaged_configs_train_or_are_refused_in_a_single_line(corpus, commands, tmp_path, times):
    def fill(chance, folder):
        write_damaged_config(chance, folder, corpus)

    statuses = try_all(times(short=12, full=2_000), fill, commands, tmp_path)
    assert {0, 2} <= statuses.keys(), statuses


@pytest.mark.long
def test_damaged_corpora_train_or_are_refused_in_a_single_line(corpus, commands, tmp_path, times):
    def fill(chance, folder):
        write_damaged_corpus(chance, folder, corpus)

    statuses = try_all(times(short=8, full=500), fill, commands, tmp_path)
    assert {0, 1} <= statuses.keys(), statuses
