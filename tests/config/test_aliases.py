"""Configs of version 0.2.0 load, though `memory` had the options of all memory mechanisms then."""

import pytest
from helpers.repository import ROOT

from memattn import config as configs
from memattn.errors import ConfigError

# `model.attention` as version 0.2.0 kept it in a run folder, options at their defaults included.
FORMER = {
    "name": "memory",
    "num_slots": 4,
    "encoder_scoring": "softmax",
    "decoder_scoring": "softmax",
    "encoder_normalize": "none",
    "vote_scale": 1.0,
    "read": "address",
    "read_units": 64,
    "nested": False,
    "position_windows": False,
    "position_encoding": False,
    "renormalize": "sum",
}
OVER_TIME = {"encoder_scoring": "softmax_time", "position_windows": True}


def loaded(attention):
    tree = {"data": {"copy": {}}, "model": {"attention": attention}}
    return configs.checked(tree, configs.Source("config.yaml")).model.attention


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"name": "memory"}),
        ({"position_encoding": True, "renormalize": "mean"}, {"name": "memory", "position_encoding": True}),
        ({"read_units": 128}, {"name": "memory"}),  # without additive reading it has no effect
        ({"nested": True, "decoder_scoring": "sigmoid"}, {"name": "nested_memory", "decoder_scoring": "sigmoid"}),
        (OVER_TIME, {"name": "windowed_memory", "read": "address", "read_units": 128}),
        ({**OVER_TIME, "read": "additive"}, {"name": "windowed_memory", "read": "additive", "read_units": 64}),
        (
            {**OVER_TIME, "read": "additive", "read_units": 128},
            {"name": "windowed_memory", "read": "additive", "read_units": 128},
        ),
        ({"encoder_scoring": "softmax_time"}, {"name": "memory_variant", "encoder_scoring": "softmax_time"}),
        ({**OVER_TIME, "decoder_scoring": "sigmoid"}, {"name": "memory_variant", "decoder_scoring": "sigmoid"}),
        ({**OVER_TIME, "vote_scale": 2.0}, {"name": "memory_variant", "vote_scale": 2.0, "position_windows": True}),
        ({"vote_scale": 16}, {"name": "memory_variant", "vote_scale": 16.0, "encoder_scoring": "softmax"}),
        ({"encoder_normalize": "time"}, {"name": "memory_variant", "encoder_normalize": "time"}),
        ({"read": "additive"}, {"name": "memory_variant", "read": "additive", "read_units": 64}),
        ({"position_windows": True}, {"name": "memory_variant", "position_windows": True}),
    ],
    ids=str,
)
def test_a_section_of_version_0_2_becomes_the_mechanism_that_has_its_options(changes, expected):
    whole = loaded({**FORMER, **changes})
    assert whole["num_slots"] == 4
    assert {name: whole[name] for name in expected} == expected
    assert loaded({"num_slots": 4, **changes}) == whole  # as a config gives it, defaults and the name left out
    assert loaded(whole) == whole


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"read": "content"}, "model.attention.read: 'content' is no longer there; use address, or additive"),
        ({"nested": True, "vote_scale": 2.0}, "model.attention.nested: is for memory without vote_scale"),
        ({"nested": True, **OVER_TIME}, "nested: is for memory without position_windows, encoder_scoring"),
        ({"vote_scale": 2.0, "position_encoding": True}, "position_encoding: is for memory without vote_scale"),
        ({"nested": "yes"}, "model.attention.nested: expected true or false, not 'yes'"),
        ({"position_windows": "yes"}, "model.attention.position_windows: expected true or false, not 'yes'"),
        ({"vote_scale": 0}, "model.attention.vote_scale: must be a number above 0, not 0.0"),
        ({"vote_scale": 2.0, "slots": 3}, "model.attention.slots: unknown key for memory_variant"),
    ],
    ids=str,
)
def test_a_section_of_version_0_2_without_a_mechanism_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        loaded({**FORMER, **changes})


def test_the_configs_of_the_committed_runs_load():
    stored = (ROOT / "results").glob("*/*/runs/*/config.yaml")
    names = {path.parent.name: configs.load(str(path), []).model.attention["name"] for path in stored}
    assert set(names.values()) == {"none", "bahdanau", "memory", "windowed_memory", "memory_variant"}
    assert all(("position_windows=True" in run) == (name == "windowed_memory") for run, name in names.items())
