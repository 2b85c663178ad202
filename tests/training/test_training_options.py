"""Options of training: schedules, accumulation, mixed precision, averaging; graphs of steps are freed."""

import gc
import os
import weakref

import numpy as np
import pytest
import tensorflow as tf
from helpers import neural_gpu
from helpers.models import BATCH, SECOND_BATCH, V, arrays, make_model, three_updates
from helpers.runs import NO_STRATEGY, evaluate, replicas, untrained
from studies.mechanisms import MEMORY_VARIANT

from memattn.config import TrainingConfig
from memattn.errors import ConfigError, RunError
from memattn.files import read_csv
from memattn.runs.checkpoints import Checkpoint
from memattn.runs.run import CHECKPOINTS
from memattn.runs.trained import load
from memattn.training.config import learning_rate
from memattn.training.step import TrainingStep, UpdateResult
from memattn.training.trainer import Trainer, train

pytestmark = pytest.mark.slow


def parallel_model(**options):
    """A model whose steps are traced quickly: no step of its decoder depends on the one before."""
    return make_model("none", {}, input_feeding=False, **options)


def test_accumulation_keeps_the_gradients_of_a_single_batch_at_a_time(monkeypatch):
    step = TrainingStep(parallel_model(), TrainingConfig(jit_compile=False), NO_STRATEGY)
    compute, references, alive_counts = step._traced_gradients, [], []

    def counting(*arguments):
        gc.collect()
        alive_counts.append(sum(reference() is not None for reference in references))
        gradients, sums = compute(*arguments)
        references.append(weakref.ref(gradients[0]))
        return gradients, sums

    monkeypatch.setattr(step, "_traced_gradients", counting)
    step([(BATCH, BATCH)] * 5, 0, 0.1)
    assert len(references) == 5
    assert max(alive_counts) <= 1


def test_accumulated_batches_train_as_one_large_batch():
    width = max(BATCH.shape[1], SECOND_BATCH.shape[1])
    large = np.concatenate([np.pad(ids, [(0, 0), (0, width - ids.shape[1])]) for ids in (BATCH, SECOND_BATCH)])
    accumulated, expected = three_updates([BATCH, SECOND_BATCH]), three_updates([large], batch_size=8)
    np.testing.assert_allclose(accumulated, expected, rtol=1e-4)


def test_a_run_that_accumulates_takes_several_batches_a_step(tiny_config, tmp_path):
    config = tiny_config({"training.accumulate": 3})
    assert train(config, str(tmp_path / "run"), NO_STRATEGY) == 0
    examples = [int(row["examples"]) for row in read_csv(str(tmp_path / "run" / "validation.csv"))]
    epoch, batch, short_batch = 60, 8, 4  # pairs; an epoch has 8 batches, one of them short
    assert examples == [epoch + batch, 2 * epoch + batch + short_batch]  # after 9 and 18 batches


@pytest.mark.parametrize(
    ("schedule", "step", "decays", "expected"),
    [
        ("constant", 10**6, 3, 1.0),
        ("inverse_sqrt", 0, 0, 1 / 100),
        ("inverse_sqrt", 49, 0, 0.5),
        ("inverse_sqrt", 399, 0, 0.5),
        ("inverse_sqrt", 9_999, 0, 0.1),
        ("linear", 150, 3, 0.25),
        ("linear", 199, 0, 0.005),
        ("plateau", 5, 2, 0.09),
    ],
)
def test_schedules_give_the_learning_rate_of_a_step(schedule, step, decays, expected):
    config = TrainingConfig(learning_rate=2.0, schedule=schedule, warmup_steps=100, decay_factor=0.3, max_steps=200)
    assert learning_rate(config, step, decays) == pytest.approx(2 * expected)


def test_the_learning_rate_reaches_the_optimizer_without_retracing():
    model = parallel_model()
    step = TrainingStep(model, TrainingConfig(batch_size=4, jit_compile=False), NO_STRATEGY)
    moves = []
    for number, rate in enumerate([0.1, 0.0, 0.001]):
        before = arrays(model)
        step([(BATCH, BATCH)], number, rate)
        moves.append(max(np.abs(new - old).max() for new, old in zip(arrays(model), before, strict=True)))
    assert moves[1] == 0
    assert 0 < 20 * moves[2] < moves[0]
    assert step._traced_update.experimental_get_tracing_count() == 1


def test_the_precision_null_of_decoding_is_that_of_training_also_as_an_override(tiny_config, tmp_path):
    run_dir = untrained(tiny_config({"decoding.precision": "mixed_bfloat16"}), tmp_path / "run")
    for overrides, precision, dtype in (
        ([], "mixed_bfloat16", "bfloat16"),
        (["decoding.precision=null"], "float32", "float32"),
    ):
        assert load([run_dir], overrides).model.compute_dtype == dtype
        assert evaluate(run_dir, *overrides)["dtype"] == precision


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("memory", {"position_encoding": True, "renormalize": "sum"}),
        ("windowed_memory", {}),
        (MEMORY_VARIANT, {"encoder_normalize": "time"}),
    ],
    ids=str,
)
def test_gradients_in_float16_are_finite_where_a_row_of_the_batch_is_padding(name, options):
    model, batch = make_model(name, {"num_slots": 2, **options}, dtype="mixed_float16"), np.pad(BATCH, [(0, 1), (0, 0)])
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch, tf.cast(model(batch, batch), tf.float32))
        loss = 2**10 * tf.reduce_mean(losses[:-1])  # as in training, whose scale of the loss is such a power
    for gradient in tape.gradient(loss, model.trainable_variables):
        values = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(values).all() and values.any()


def test_a_metric_of_trees_is_refused_before_training_on_other_targets(tiny_config, tmp_path):
    config = tiny_config({"training.metric": "bracketing_f1"})
    with pytest.raises(ConfigError, match=r"^training.metric: bracketing_f1 compares trees, and .* has other targets"):
        Trainer(config, str(tmp_path / "run"), NO_STRATEGY)


def test_an_overflow_in_float16_skips_the_update_and_halves_the_scale_but_not_below_1():
    model = parallel_model(dtype="mixed_float16")
    step = TrainingStep(model, TrainingConfig(batch_size=4, jit_compile=False, precision="mixed_float16"), NO_STRATEGY)
    before, weight = arrays(model), model.trainable_variables[0]

    def update_at(scale, steps):
        """Updates with a scale of the loss that has been kept for some steps; returns the result."""
        step.state[0].assign(scale)
        step.state[1].assign(steps)
        return step([(BATCH, BATCH)], 0, 0.1).numpy()

    assert np.isfinite(update_at(2.0**40, 0)).all()
    assert all((old == new).all() for old, new in zip(before, arrays(model), strict=True))
    assert (step.optimizer.iterations, step.state[0]) == (0, 2.0**39)
    weight.assign(np.full_like(before[0], np.nan))
    update_at(2.0, 0)
    assert step.state[0] == 1.0
    assert not np.isfinite(update_at(1.0, 0)).all()  # no loss scale helps against a weight of NaN
    assert step.state[0] == 1.0
    weight.assign(before[0])
    update_at(2.0**10, 0)
    assert any((old != new).any() for old, new in zip(before, arrays(model), strict=True))
    assert (step.state[0], step.state[1]) == (2.0**10, 1)
    update_at(2.0**10, 10**6)
    assert (step.state[0], step.state[1]) == (2.0**11, 0)


def test_averaged_checkpoints_are_the_mean_of_their_weights(finished):
    run_dir = str(finished)
    state = tf.train.get_checkpoint_state(os.path.join(run_dir, CHECKPOINTS))
    weights_by_checkpoint = []
    for path in state.all_model_checkpoint_paths:
        trained = load([run_dir], [], None)
        Checkpoint(trained.model).read(path)
        weights_by_checkpoint.append(arrays(trained.model))
    assert len(weights_by_checkpoint) == 3
    averaged = load([run_dir], [], 3)
    assert sorted(averaged.checkpoints) == sorted(state.all_model_checkpoint_paths)
    for mean, *weights in zip(arrays(averaged.model), *weights_by_checkpoint, strict=True):
        np.testing.assert_allclose(mean, np.mean(weights, 0), rtol=1e-5, atol=1e-6)
    last_weights = weights_by_checkpoint[-1]
    assert any((last != mean).any() for last, mean in zip(last_weights, arrays(averaged.model), strict=True))
    with pytest.raises(RunError, match="has 3 of the 4 checkpoints .*training.keep_checkpoints"):
        load([run_dir], [], 4)


def test_pairs_longer_than_the_limits_are_left_out_of_training(tiny_config, tmp_path, capsys):
    config = tiny_config({"data.max_source_length": 4, "data.max_target_length": 4})
    Trainer(config, str(tmp_path / "run"), NO_STRATEGY).log.introduce()
    lines = (tmp_path / "data" / "train.source").read_text(encoding="utf-8").splitlines()
    short = sum(len(line.split()) <= 3 for line in lines)
    assert 10 < short < 55
    output = capsys.readouterr().out
    assert f"{short} training pairs" in output
    assert f"{60 - short} pairs are left out: longer than data.max_source_length" in output


def test_each_accumulated_batch_and_each_step_draws_its_own_dropout():
    step = TrainingStep(parallel_model(dropout=0.5), TrainingConfig(jit_compile=False), NO_STRATEGY)

    def loss(number, batches):
        return UpdateResult.read(step([(BATCH, BATCH)] * batches, number, 0.0)).loss

    first, second = loss(0, 1), loss(1, 1)
    assert abs(first - second) > 1e-3
    np.testing.assert_allclose(loss(0, 1), first, rtol=1e-5)
    np.testing.assert_allclose(loss(0, 2), first + second, rtol=1e-5)


def test_each_replica_draws_its_own_dropout():
    row, strategy = BATCH[:1], replicas(2)
    losses = {}
    for name, where, batch in (("one", NO_STRATEGY, row), ("two", strategy, np.repeat(row, 2, 0))):
        with where.scope():
            step = TrainingStep(parallel_model(dropout=0.5), TrainingConfig(jit_compile=False), where)
        losses[name] = UpdateResult.read(step([(batch, batch)], 0, 0.0)).loss
    assert abs(losses["two"] - 2 * losses["one"]) > 1e-3


def graphs_after_a_step(model):
    """The number of graphs in memory after a training step of a model that nothing else holds."""
    TrainingStep(model, TrainingConfig(batch_size=4, jit_compile=False), NO_STRATEGY)([(BATCH, BATCH)], 0, 0.1)
    del model
    gc.collect()
    return sum(isinstance(item, tf.Graph) for item in gc.get_objects())


@pytest.mark.parametrize(
    "make",
    [
        lambda: make_model("memory", {"num_slots": 2}),
        lambda: neural_gpu.make_model("neural_gpu", "dngpu", vocabulary_size=V),
    ],
    ids=["LSTM", "Neural GPU"],
)
def test_the_graphs_of_a_trained_model_are_freed(make):
    before = graphs_after_a_step(make())  # leaves graphs of functions that all models share
    assert graphs_after_a_step(make()) == before
