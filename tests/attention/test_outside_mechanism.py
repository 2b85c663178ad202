"""A config may name a mechanism outside the package as module:Class."""

import importlib
import os
import sys

import pytest

from memattn import config as configs
from memattn.errors import ConfigError
from memattn.sweeps.runs import expand

MODULE = '''
"""Attention to the mean of the source, with the settings of another file of the same folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import tensorflow as tf

from memattn import AttentionMechanism
from outside_settings import LOWEST

if TYPE_CHECKING:
    from somewhere import Sizes


class Uniform(AttentionMechanism):
    def __init__(self, *, sharpness: float = 1.0, side: Literal["left", "right"] = "left", **kwargs):
        super().__init__(**kwargs)
        self.sharpness, self.side = sharpness, side

    def memorize(self, states, mask):
        return {"values": states, "mask": mask}

    def score(self, query, memory, state=(), seed=None):
        energies = self.sharpness * tf.reduce_sum(memory["values"], -1) + tf.where(memory["mask"], 0.0, LOWEST)
        return tf.repeat(tf.nn.softmax(energies)[:, None], tf.shape(query)[1], 1), state


class Even(Uniform):
    def __init__(self, *, sizes: Sizes = 3, **kwargs):
        super().__init__(**kwargs)
        self.sizes = sizes


class Nothing:
    pass
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current directory, not on sys.path as for a console script: a package, and a module that this imports."""
    (tmp_path / "outside_package").mkdir()
    (tmp_path / "outside_package" / "looks.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "outside_settings.py").write_text("LOWEST = -1e9\n", encoding="utf-8")
    (tmp_path / "outside_broken.py").write_text("1 / 0\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", os.getcwd())])
    importlib.invalidate_caches()
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("outside_")]:
        del sys.modules[name]


def loaded(attention):
    tree = {"data": {"copy": {}}, "model": {"attention": attention}}
    return configs.from_dict(tree, name="config.yaml").model.attention


def test_options_of_an_outside_mechanism_are_checked_by_its_constructor(folder):
    name = "outside_package.looks:Uniform"
    assert loaded({"name": name, "sharpness": 2}) == {"name": name, "sharpness": 2.0, "side": "left"}
    with pytest.raises(ConfigError, match="model.attention.side: 'up' .*left, right"):
        loaded({"name": name, "side": "up"})
    even = loaded({"name": "outside_package.looks:Even", "sizes": "x"})
    assert even["sizes"] == "x"  # its annotation exists for type checkers alone


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_package:Uniform", "module 'no_package' of module:Class cannot be imported: ModuleNotFoundError"),
        ("outside_broken:Uniform", "module 'outside_broken' of module:Class cannot be imported: ZeroDivisionError"),
        ("outside_package.looks:Nothing", "module outside_package.looks has no memattn.AttentionMechanism Nothing"),
    ],
)
def test_an_unusable_mechanism_is_reported_in_one_line(folder, name, message):
    with pytest.raises(ConfigError, match=message) as raised:
        loaded({"name": name})
    assert str(raised.value).startswith(f"config.yaml: model.attention.name: {name}: ")
    assert "\n" not in str(raised.value)


def test_runs_of_a_sweep_are_named_after_an_outside_mechanism(folder, write_config):
    names = ["outside_package.looks:Uniform", "outside_package.looks:Even", "none"]
    path = write_config({"sweep": {"cells": [{"model.attention": {"name": name}} for name in names]}})
    runs = expand(configs.load(path, []))
    assert list(runs) == ["looks", "outside_package.looks:Even", "none"]  # the module's name, if it is enough
    assert runs["looks"].model.attention["sharpness"] == 1.0
