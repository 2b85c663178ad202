"""Options of a mechanism: checked before its constructor runs, and serialized from its signature."""

from typing import Literal

import numpy as np
import pytest
import tensorflow as tf

from memattn.attention import (
    MECHANISMS,
    AttentionMechanism,
    BahdanauAttention,
    MemoryAttention,
    MochaAttention,
    OptionError,
    build,
)


class Sharp(AttentionMechanism):
    """A mechanism with options of every kind."""

    sizes = ("sharpness",)

    def __init__(
        self,
        *,
        units: int = 4,
        sharpness: int = 1,
        scoring: Literal["softmax", "sigmoid"] = "softmax",
        order: Literal["left", "right"] | None = None,
        initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units, self.sharpness, self.scoring, self.order = units, sharpness, scoring, order
        self.initializer = initializer


class Sharper(Sharp):
    """A subclass that adds an option and changes the default of `sharpness`."""

    def __init__(self, *, margin: float = 0.5, **kwargs):
        super().__init__(**{"sharpness": 3, **kwargs})
        self.margin = margin


class Forgetful(AttentionMechanism):
    """A mechanism that does not keep its option under the name of the argument."""

    def __init__(self, *, margin: float = 0.5, **kwargs):
        super().__init__(**kwargs)
        self._margin = margin


class Needy(AttentionMechanism):
    """A mechanism with a required option, which has a range."""

    def __init__(self, *, rate: float, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate

    @classmethod
    def check(cls, *, rate, **options):
        super().check(**options)
        if rate <= 0:
            raise OptionError("rate", f"must be above 0, not {rate}")


class Positional(AttentionMechanism):
    """A mechanism with a positional argument."""

    def __init__(self, side: Literal["left", "right"], **kwargs):
        super().__init__(**kwargs)
        self.side = side


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sharp(scoring="softmx"), "scoring: 'softmx' is none of softmax, sigmoid"),
        (lambda: Sharp(order="up"), "order: 'up' is none of left, right, None"),
        (lambda: Sharp(sharpness=0), "sharpness: must be an int of at least 1, not 0"),
        (lambda: Sharper(sharpness=0), "sharpness: must be an int"),
        (lambda: BahdanauAttention(units=0), "units: must be an int of at least 1, not 0"),
        (lambda: MemoryAttention(num_slots=None), "num_slots: must be an int of at least 1, not None"),
        (lambda: MochaAttention(units=3, chunk_size=0), "chunk_size: must be an int of at least 1, not 0"),
        (lambda: Sharper(scoring="softmx"), "scoring: 'softmx' is none of softmax, sigmoid"),
        (lambda: Needy(rate=0), "rate: must be above 0, not 0"),
        (lambda: Positional("up"), "side: 'up' is none of left, right"),
        (lambda: MochaAttention(units=3, test_mode="easy"), "test_mode: 'easy' is none of hard, soft"),
    ],
)
def test_options_are_checked_before_the_constructor_runs(make, message):
    with pytest.raises(OptionError, match=message):
        make()


def test_an_optional_choice_or_size_may_be_left_out():
    assert MochaAttention(units=3, chunk_size=None).chunk_size is None
    assert Sharp(order=None).order is None
    assert Sharp(order="left").order == "left"


def test_missing_and_unknown_arguments_raise_the_error_of_the_constructor():
    with pytest.raises(TypeError, match="__init__.*side"):
        Positional()
    with pytest.raises(TypeError, match="__init__.*rate"):
        Needy()
    with pytest.raises(TypeError, match="^Sharp: no argument sharpnes; its arguments: units, sharpness, "):
        Sharp(sharpnes=2)


def test_a_config_is_derived_from_the_constructors():
    layer = Sharper(margin=0.25, scoring="sigmoid", initializer=tf.keras.initializers.Zeros(), name="sharper")
    config = layer.get_config()
    expected = {"units": 4, "sharpness": 3, "scoring": "sigmoid", "order": None, "margin": 0.25, "name": "sharper"}
    assert {name: config[name] for name in expected} == expected
    assert config["initializer"] == tf.keras.initializers.serialize(tf.keras.initializers.Zeros())
    assert Sharper.from_config(config).get_config() == config


def test_an_argument_that_is_not_kept_as_an_attribute_is_reported():
    with pytest.raises(TypeError, match="Forgetful: .*self.margin"):
        Forgetful().get_config()


def test_a_subclass_without_arguments_is_checked_like_its_base():
    class Small(MemoryAttention):
        def __init__(self):
            super().__init__(num_slots=2)

    assert Small().num_slots == 2
    assert MemoryAttention.constructor_arguments().keys() == Small.constructor_arguments().keys()


def test_a_subclass_gets_the_facts_that_its_base_takes(monkeypatch):
    class Warm(BahdanauAttention):
        def __init__(self, *, temperature: float = 1.0, **kwargs):
            super().__init__(**kwargs)
            self.temperature = temperature

    monkeypatch.setitem(MECHANISMS, "warm", Warm)
    built = build("warm", {"temperature": 2.0}, units=3, max_source_length=9, initializer="zeros")
    assert (built.temperature, built.units, built.initializer) == (2.0, 3, "zeros")


def test_arguments_without_a_name_are_refused():
    with pytest.raises(TypeError, match="MemoryAttention: all arguments are keywords, such as num_slots=32"):
        MemoryAttention(32)


@pytest.mark.parametrize(
    ("arguments", "masks", "problem"),
    [
        ([(2, 3, 4), (2, 4)], {}, "value: expected .B, S, D., .*; a recurrent layer before it needs return_sequences"),
        (
            [(2, 3, 4), (2, 5, 4)],
            {"value_mask": [5, 2]},
            "value_mask: expected .B, S., .*; from lengths: tf",
        ),
    ],
)
def test_frequent_mistakes_are_answered_with_advice(arguments, masks, problem):
    with pytest.raises(ValueError, match=problem):
        MemoryAttention(num_slots=2)(*map(np.zeros, arguments), **masks)
