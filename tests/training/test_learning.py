"""Losses, learning-rate schedules and optimizers, each by its name in a config."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.marks import slow
from helpers.mechanisms import KERAS_3
from helpers.models import BATCH, arrays, make_model
from helpers.runs import NO_STRATEGY, replicas

from memattn.attention import MECHANISMS
from memattn.attention.content import LuongDotAttention
from memattn.config import TrainingConfig
from memattn.errors import ConfigError
from memattn.runs.checkpoints import Checkpoint
from memattn.training import config as training_config
from memattn.training.config import OPTIMIZERS
from memattn.training.config import optimizer as make_optimizer
from memattn.training.step import TrainingStep, UpdateResult


@pytest.mark.slow
def test_a_registered_loss_is_minimized(monkeypatch):
    """The loss that is reported stays the cross-entropy."""

    def zero_loss(logits, targets, mask, *, label_smoothing):
        result = training_config.cross_entropy(logits, targets, mask, label_smoothing=label_smoothing)
        return result._replace(objective=0 * result.objective)

    monkeypatch.setitem(training_config.LOSSES, "nothing", zero_loss)
    training = TrainingConfig(loss="nothing", jit_compile=False)
    step = TrainingStep(make_model("none", {}), training, NO_STRATEGY)
    result = UpdateResult.read(step([(BATCH, BATCH)], 0, 0.1))
    assert (result.gradient_norm, result.is_finite) == (0, True)
    assert result.loss > result.tokens


@pytest.mark.parametrize(("num_replicas", "precision"), [(1, "float32"), slow(2, "mixed_float16")])
def test_weights_that_the_loss_does_not_depend_on_stay_and_are_named(num_replicas, precision, monkeypatch):
    class Unused(LuongDotAttention):
        def memorize(self, states, mask):
            if not hasattr(self, "unused"):
                self.unused = tf.keras.layers.Dense(3, use_bias=False, name="unused")
                self.unused.build(states.shape)
            return super().memorize(states, mask)

    monkeypatch.setitem(MECHANISMS, "unused", Unused)
    strategy = replicas(num_replicas)
    with strategy.scope():
        model = make_model("unused", {}, dtype=precision)
        training = TrainingConfig(jit_compile=False, precision=precision, clip_norm=0.01, accumulate=2)
        step = TrainingStep(model, training, strategy)
    before = arrays(model)
    unused, name = model.attention.unused.kernel, "unused/kernel" if KERAS_3 else "kernel"
    with pytest.warns(UserWarning, match=rf"weights that the loss does not depend on: \S*{name}\S*$"):
        result = UpdateResult.read(step([(BATCH, BATCH), (BATCH, BATCH)], 0, 0.1))
    assert result.is_finite
    assert result.gradient_norm > 0.01
    same = [np.array_equal(old, new) for old, new in zip(before, arrays(model), strict=True)]
    assert same == [weight is unused for weight in model.trainable_variables]


def two_layer_model(names):
    """Returns a model whose layers, first and second, are created in the order of `names`."""
    model = tf.keras.Model()
    for name in names:
        layer = tf.keras.layers.Dense(2, kernel_initializer="ones")
        layer.build((None, 3))
        setattr(model, name, layer)
    model.built = True
    return model


def update(model, optimizer, updates=1):
    """Updates a two-layer model with made-up gradients, which differ between weights and updates."""
    weights = [*model.first.weights, *model.second.weights]
    for i in range(updates):
        gradients = [tf.fill(weight.shape, 0.1 * (i + n + 1)) for n, weight in enumerate(weights)]
        optimizer.apply_gradients(list(zip(gradients, weights, strict=True)))


def values(model):
    return [tf.convert_to_tensor(weight).numpy() for weight in (*model.first.weights, *model.second.weights)]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) for name in OPTIMIZERS),
        ("sgd", {"momentum": 0.9}),
        ("rmsprop", {"momentum": 0.9}),
        ("adam", {"amsgrad": True}),
    ],
)
def test_an_optimizer_resumes_from_a_checkpoint(name, options, tmp_path):
    """The layers of the resumed model are created in another order."""
    training = TrainingConfig(optimizer=name, learning_rate=0.1, optimizer_options=options)
    model, saved_optimizer = two_layer_model(["first", "second"]), make_optimizer(training)
    saved_optimizer.build(model.trainable_variables)
    update(model, saved_optimizer, 2)
    path = Checkpoint(model, saved_optimizer).trackable.write(str(tmp_path / "step-2"))
    before = values(model)
    update(model, saved_optimizer)
    assert all((old != new).all() for old, new in zip(before, values(model), strict=True))
    resumed, resumed_optimizer = two_layer_model(["second", "first"]), make_optimizer(training)
    resumed_optimizer.build(resumed.trainable_variables)
    Checkpoint(resumed, resumed_optimizer).read(path)
    update(resumed, resumed_optimizer)
    np.testing.assert_equal(values(resumed), values(model))


@pytest.mark.parametrize("name", [name if name == "adam" else slow(name) for name in OPTIMIZERS])
def test_an_optimizer_does_not_sum_gradients_over_replicas_again(name):
    values_by_strategy = []
    for strategy in (NO_STRATEGY, replicas(2)):
        with strategy.scope():
            model = two_layer_model(["first", "second"])
            optimizer = make_optimizer(TrainingConfig(optimizer=name, learning_rate=0.1))
            optimizer.build(model.trainable_variables)
        strategy.run(tf.function(lambda model=model, optimizer=optimizer: update(model, optimizer), autograph=False))
        values_by_strategy.append(values(model))
    for alone, on_replicas in zip(*values_by_strategy, strict=True):
        np.testing.assert_allclose(alone, on_replicas, rtol=1e-6)


def test_optimizers_take_the_epsilon_of_the_config():
    assert make_optimizer(TrainingConfig(adam_epsilon=1e-3)).epsilon == 1e-3
    assert make_optimizer(TrainingConfig(adam_epsilon=1e-3, optimizer="rmsprop")).epsilon == 1e-3


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("sgd", {"momentun": 0.5}, r"optimizer_options.momentun: .*momentum\?"),
        ("adam", {"use_ema": True}, "optimizer_options.use_ema: unknown"),
        ("sgd", {"momentum": 5}, "training.optimizer_options: .*momentum"),
        ("adam", {"beta_1": "abc"}, "training.optimizer_options.beta_1: expected a number, not 'abc'"),
        ("adam", {"amsgrad": "abc"}, "training.optimizer_options.amsgrad: expected true or false, not 'abc'"),
    ],
)
def test_options_that_an_optimizer_does_not_have_are_refused(name, options, problem):
    with pytest.raises(ConfigError, match=problem):
        make_optimizer(TrainingConfig(optimizer=name, optimizer_options=options))
