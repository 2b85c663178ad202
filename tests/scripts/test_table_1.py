"""Which configs have the settings of the paper's Table 1."""

import pytest
from studies.britz2017 import printed

from memattn import config as configs


def full_scale(**changes):
    """Returns the config of the paper's cell L = 50, K = 32, with changes; `__` stands for the dot of a key."""
    tree = {
        "data": {"copy": {"max_length": 50}},
        "model": {"attention": {"name": "memory", "num_slots": 32}},
    }
    changes = {key.replace("__", "."): value for key, value in changes.items()}
    return configs.checked(configs.apply_changes(tree, changes), configs.Origin("test"))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"data__copy__max_length": 200, "model__attention__num_slots": 1},
        {"data__copy__max_length": 20, "model__attention__name": "none"},
        {"data__copy__max_length": 100, "model__attention__name": "bahdanau"},
        {"training__seed": 7, "data__copy__seed": 2, "data__num_buckets": 1, "training__validate_every": 5},
        {"model__attention__position_encoding": True},
        {"model__attention__encoder_scoring": "sigmoid", "data__folder": "data/mine"},
        {"model__attention": {"name": "bahdanau", "cache_keys": False}},
        {"training__checkpoint_minutes": 5.0, "training__jit_compile": False, "decoding__n_best": 3},
    ],
)
def test_a_config_at_full_scale_has_a_row_in_table_1(changes):
    assert printed.is_in_table_1(full_scale(**changes))


@pytest.mark.parametrize(
    "change",
    [
        {"data__copy__max_length": 30},
        {"data__copy__num_symbols": 10},
        {"data__copy__train_examples": 50_000},
        {"data__copy__valid_examples": 100},
        {"data": {"folder": "data/mine"}},
        {"model__attention__num_slots": 5},
        {"model__attention__name": "windowed_memory"},
        {"model__attention__name": "luong"},
        {"model__layers": 1},
        {"model__units": 128},
        {"model__encoder_units": 128},
        {"model__embedding_size": 128},
        {"model__dropout": 0.1},
        {"model__init_scale": 0.1},
        {"model__input_feeding": False},
        {"model__mix": False},
        {"model__tie_embeddings": "source_target"},
        {"training__batch_size": 64},
        {"training__learning_rate": 0.001},
        {"training__clip_norm": 1.0},
        {"training__max_steps": 10_000},
        {"decoding__beam_size": 5},
        {"decoding__length_penalty": 0.6},
        {"training__batch_type": "tokens"},
        {"training__accumulate": 8},
        {"training__schedule": "linear"},
        {"training__label_smoothing": 0.1},
        {"training__precision": "mixed_float16"},
        {"training__stop_at": 99.9},
        {"training__patience": 3},
        {"training__validation_beam_size": 10},
        {"data__max_source_length": 40},
        {"data__max_target_length": 40},
        {"decoding__max_length": 20},
        {"decoding__max_length_ratio": 1.0},
        {"decoding__coverage_penalty": 0.1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_config_that_differs_from_full_scale_has_no_row_in_table_1(change):
    assert not printed.is_in_table_1(full_scale(**change))
