"""Options of a mechanism: checked by their annotations before its constructor runs, and serialized."""

import inspect
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import pytest
import tensorflow as tf

from memattn.attention import (
    MECHANISMS,
    AttentionMechanism,
    BahdanauAttention,
    MemoryAttention,
    OptionError,
    Range,
    build,
)
from memattn.options import OneOf, PositiveInt, checked

SCHEDULES = {"constant": 1, "linear": 2}


class Sharp(AttentionMechanism):
    """A mechanism with options of every kind."""

    def __init__(
        self,
        *,
        units: int = 4,
        sharpness: PositiveInt = 1,
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


@pytest.mark.parametrize(
    ("hint", "value", "result"),
    [
        (int, np.int64(3), 3),
        (bool, np.True_, True),
        (PositiveInt | None, None, None),
        (Annotated[float, Range(above=0, at_most=1)], 1, 1.0),
        (tuple[PositiveInt, ...], [2, 3], (2, 3)),
        (Mapping[str, Any], {"a": 1}, {"a": 1}),
        (Annotated[str, OneOf(SCHEDULES)], "linear", "linear"),
    ],
)
def test_a_value_that_fits_becomes_one_of_python(hint, value, result):
    assert checked("option", hint, value) == result
    assert type(checked("option", hint, value)) is type(result)


@pytest.mark.parametrize(
    ("hint", "value", "problem"),
    [
        (int, True, "expected an int, not True"),
        (int, 2.0, "expected an int, not 2.0"),
        (float | None, "x", "expected a number or null, not 'x'"),
        (bool, 1, "expected true or false, not 1"),
        (str, 1e-4, "expected a str, not 0.0001; quote it for a str"),
        (bool | Literal["auto"], "x", "expected true or false or auto, not 'x'"),
        (Literal["left", "right"], "lift", r"'lift' is none of left, right; did you mean left\?"),
        (Annotated[str, OneOf(SCHEDULES)], "lineer", r"'lineer' is none of constant, linear; did you mean linear\?"),
        (Annotated[float, Range(above=0, at_most=1)], 0, "must be above 0 and at most 1, not 0.0"),
        (Annotated[float, Range(at_least=0)], float("nan"), "must be at least 0, not nan"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(hint, value, problem):
    with pytest.raises(OptionError, match=f"^option: {problem}$"):
        checked("option", hint, value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sharp(scoring="softmx"), "scoring: 'softmx' is none of softmax, sigmoid"),
        (lambda: Sharper(sharpness=0), "sharpness: must be at least 1, not 0"),
        (lambda: Sharp(sharpnes=2), "sharpnes: unknown option of Sharp; did you mean sharpness?; its options: units, "),
        (lambda: MemoryAttention(position_encoding=True), "max_source_length: missing; position_encoding needs it"),
    ],
)
def test_options_are_checked_before_the_constructor_runs(make, message):
    with pytest.raises(OptionError) as refused:
        make()
    assert str(refused.value).startswith(message)


def test_a_config_is_derived_from_the_constructors():
    layer = Sharper(margin=0.25, scoring="sigmoid", initializer=tf.keras.initializers.Zeros(), name="sharper")
    config = layer.get_config()
    expected = {"units": 4, "sharpness": 3, "scoring": "sigmoid", "order": None, "margin": 0.25, "name": "sharper"}
    assert {name: config[name] for name in expected} == expected
    assert config["initializer"] == tf.keras.initializers.serialize(tf.keras.initializers.Zeros())
    assert Sharper.from_config(config).get_config() == config


def test_a_class_shows_the_arguments_of_all_its_constructors_and_a_layer_those_of_its_call():
    assert list(inspect.signature(Sharper).parameters) == ["margin", *inspect.signature(Sharp).parameters]
    assert inspect.signature(Sharper).parameters["units"].default == 4
    queries, states = np.ones([2, 3, 4], "float32"), np.ones([2, 5, 4], "float32")
    layer = BahdanauAttention(units=4)
    np.testing.assert_allclose(tf.function(layer)(queries, states), layer(queries, states), atol=1e-6)


def test_a_subclass_gets_the_arguments_that_its_base_takes_from_the_model(monkeypatch):
    class Warm(BahdanauAttention):
        def __init__(self, *, temperature: float = 1.0, **kwargs):
            super().__init__(**kwargs)
            self.temperature = temperature

    monkeypatch.setitem(MECHANISMS, "warm", Warm)
    built = build("warm", {"temperature": 2.0}, units=3, max_source_length=9, initializer="zeros")
    assert (built.temperature, built.units, built.initializer) == (2.0, 3, "zeros")
