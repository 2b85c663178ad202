"""Configs of former versions load.

In version 0.2.0, the mechanism `memory` had the options of all memory mechanisms, and `model` the keys of all kinds of
models. Up to version 0.3.0, `training.stop_at_bleu` ended training at a BLEU.
"""

import pytest
from helpers.repository import ROOT
from studies.mechanisms import MEMORY_VARIANT

from memattn import config as configs
from memattn.errors import ConfigError

# `model.attention` as version 0.2.0 wrote it into a run folder, including options with default values.
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


def load_attention(attention):
    tree = {"data": {"copy": {}}, "model": {"attention": attention}}
    return configs.checked(tree, configs.Origin("config.yaml")).model.attention


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"name": "memory"}),
        ({"position_encoding": True, "renormalize": "mean"}, {"name": "memory", "position_encoding": True}),
        ({"read_units": 128}, {"name": "memory"}),  # without additive reading it has no effect
        (OVER_TIME, {"name": "windowed_memory", "read": "address", "read_units": 128}),
        ({**OVER_TIME, "read": "additive"}, {"name": "windowed_memory", "read": "additive", "read_units": 64}),
        (
            {**OVER_TIME, "read": "additive", "read_units": 128},
            {"name": "windowed_memory", "read": "additive", "read_units": 128},
        ),
    ],
    ids=str,
)
def test_former_options_of_memory_load_as_the_mechanism_that_has_them_now(changes, expected):
    current = load_attention({**FORMER, **changes})
    assert current["num_slots"] == 4
    assert {name: current[name] for name in expected} == expected
    assert (
        load_attention({"num_slots": 4, **changes}) == current
    )  # as in a config of a user, without defaults and the name
    assert load_attention(current) == current


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vote_scale": 2.0, "position_encoding": True}, "position_encoding: is for memory without vote_scale"),
        ({"nested": True}, "model.attention.nested: is no longer an option of memory"),
        ({**OVER_TIME, "vote_scale": 2.0}, "model.attention.vote_scale: is no longer an option of memory"),
        ({"encoder_scoring": "softmax_time"}, "model.attention.encoder_scoring: is no longer an option of memory"),
        ({"read": "content"}, "model.attention.read: is no longer an option of memory"),
        ({"position_windows": "yes"}, "model.attention.position_windows: is no longer an option of memory"),
    ],
    ids=str,
)
def test_former_options_that_no_mechanism_has_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        load_attention({**FORMER, **changes})


@pytest.mark.parametrize(
    ("training", "stop_at"),
    [
        ({"stop_at_bleu": 99.5}, 99.5),
        ({"stop_at_bleu": None}, None),
        ({"stop_at_bleu": 99.5, "stop_at": None, "metric": "bleu"}, 99.5),
        ({"stop_at_bleu": None, "stop_at": 2.0, "metric": "perplexity"}, 2.0),
        ({"stop_at_bleu": None, "stop_at": 99.0}, 99.0),
    ],
    ids=str,
)
def test_the_former_stop_at_bleu_loads_as_stop_at(training, stop_at):
    assert configs.from_dict({"data": {"copy": {}}, "training": training}).training.stop_at == stop_at


@pytest.mark.parametrize(
    "training", [{"stop_at_bleu": 99.5, "metric": "perplexity"}, {"stop_at_bleu": 99.5, "stop_at": 99.0}], ids=str
)
def test_a_former_stop_at_bleu_that_contradicts_other_keys_is_refused(training):
    with pytest.raises(ConfigError, match="training.stop_at_bleu: is no longer there; use stop_at, a value of"):
        configs.from_dict({"data": {"copy": {}}, "training": training})


def test_a_former_number_of_decoded_slots_is_left_out_unless_it_cut_the_memory():
    loaded = configs.from_dict({"data": {"copy": {}}, "decoding": {"num_slots": None, "beam_size": 3}})
    assert loaded.decoding.beam_size == 3
    with pytest.raises(ConfigError, match="decoding.num_slots: unknown key"):
        configs.from_dict({"data": {"copy": {}}, "decoding": {"num_slots": 4}})


# `model` as version 0.2.0 wrote it into a run folder, without the keys that all kinds of models share.
SEQ2SEQ_KEYS = {
    "encoder": "lstm",
    "decoder": "lstm",
    "encoder_units": None,
    "embedding_size": 256,
    "init_scale": 0.04,
    "input_feeding": True,
    "mix": True,
    "bridge": "auto",
    "tie_embeddings": "none",
    "attention": {"name": "none"},
}
NEW_SEQ2SEQ_KEYS = {"encoder_layers": None, "encoder_reduce": [], "spec_augment": 0}
ACTIVE_MEMORY_KEYS = {"width": 4, "cell": "cgru"}


def load_model(**model):
    return configs.to_dict(configs.from_dict({"data": {"copy": {}}, "model": model}))["model"]


@pytest.mark.parametrize("kind", ["seq2seq", "neural_gpu", "markovian", "extended"])
def test_a_former_model_loses_the_keys_of_other_kinds(kind):
    expected = {**SEQ2SEQ_KEYS, **NEW_SEQ2SEQ_KEYS} if kind == "seq2seq" else ACTIVE_MEMORY_KEYS
    shared = {"kind": kind, "layers": 3, "units": 8, "dropout": 0.1}
    assert load_model(**shared, **SEQ2SEQ_KEYS, **ACTIVE_MEMORY_KEYS) == {**shared, **expected}


@pytest.mark.parametrize(
    "changes",
    [{"width": 1}, {"kind": "extended", "mix": False}, {"kind": "markovian", "attention": {"name": "bahdanau"}}],
    ids=str,
)
def test_a_former_key_of_another_kind_is_refused_unless_it_has_its_default(changes):
    with pytest.raises(ConfigError, match=f"model.{list(changes)[-1]}: is for model.kind: "):
        load_model(**{**SEQ2SEQ_KEYS, **ACTIVE_MEMORY_KEYS, **changes})


def test_configs_of_the_committed_runs_load():
    stored = (ROOT / "results").glob("*/*/runs/*/config.yaml")
    names = {str(path.parent): configs.load(str(path), []).model.attention["name"] for path in stored}
    assert set(names.values()) == {"none", "bahdanau", "memory", "windowed_memory", MEMORY_VARIANT}
    for run, name in names.items():  # windowed memory was an option of memory
        is_windowed = "position_windows=True" in run or "windowed_memory-" in run or "max_steps=2800" in run
        assert is_windowed == (name == "windowed_memory"), run
