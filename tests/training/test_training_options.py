"""Options of training: label smoothing, schedules, accumulation, mixed precision, averaging, checkpoints by time."""

import csv
import gc
import os
import signal
import time
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from helpers.models import arrays, make_model, padded
from helpers.runs import NO_STRATEGY, assert_same_run, evaluate, replicas
from helpers.training_steps import BATCH
from studies.mechanisms import MEMORY_VARIANT

from memattn.config import TrainingConfig
from memattn.data.vocabulary import EOS
from memattn.errors import ConfigError, RunError
from memattn.runs import building
from memattn.runs.checkpoints import Checkpoint
from memattn.runs.run import CHECKPOINTS
from memattn.runs.trained import load
from memattn.search.searcher import Searcher
from memattn.training.schedules import learning_rate
from memattn.training.step import TrainingStep, UpdateResult
from memattn.training.stopping import Stopping
from memattn.training.trainer import Trainer, train

pytestmark = pytest.mark.slow

SECOND_BATCH = padded([[5, 5, EOS], [4, 9, 8, 7, EOS], [6, EOS], [10, EOS]]).numpy()


@pytest.fixture(autouse=True)
def float32_policy_afterwards():
    """Undoes the global precision policies that tests set."""
    yield
    tf.keras.mixed_precision.set_global_policy("float32")


def train_steps(batches, model=None, strategy=NO_STRATEGY, steps=1, **changes):
    """Returns a model after some training steps on `batches`, and the result of the last step."""
    config = TrainingConfig(**{"batch_size": 4, "jit_compile": False, **changes})
    with strategy.scope():
        model = model or make_model("memory", {"num_slots": 2})
        step = TrainingStep(model, config, strategy)
    for number in range(steps):
        result = UpdateResult.read(step(batches, number, 0.01))
    return model, result


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_label_smoothing_is_cross_entropy_with_a_smoothed_target(smoothing):
    """Compares the norm of the gradient, and each weight after Adam's first step, with values computed apart."""
    model = make_model("memory", {"num_slots": 2})
    with tf.GradientTape() as tape:
        log_probs = tf.nn.log_softmax(model(tf.constant(BATCH), tf.constant(BATCH)))
        vocabulary = log_probs.shape[-1]
        target = np.eye(vocabulary)[BATCH] * (1 - smoothing) + smoothing / vocabulary
        real = (BATCH != 0).astype(np.float32)
        objective = -tf.reduce_sum(target.astype(np.float32) * log_probs * real[:, :, None]) / real.sum()
        plain = -sum(log_probs[b, t, BATCH[b, t]] for b, t in zip(*np.nonzero(real), strict=True))
    gradients = [tf.convert_to_tensor(g) for g in tape.gradient(objective, model.trainable_variables)]
    before = arrays(model)
    model, result = train_steps([(BATCH, BATCH)], model, label_smoothing=smoothing, clip_norm=1e9)
    np.testing.assert_allclose(result.gradient_norm, tf.linalg.global_norm(gradients), rtol=1e-4)
    np.testing.assert_allclose(result.loss, plain, rtol=1e-5)  # what is reported stays unsmoothed
    for old, new, gradient in zip(before, arrays(model), gradients, strict=True):
        moved = 0.01 * gradient / (np.abs(gradient) + 1e-7 / np.sqrt(0.001))  # Adam's first step, its epsilon unscaled
        np.testing.assert_allclose(new, old - moved, rtol=1e-3, atol=2e-5)


@pytest.mark.long
def test_accumulation_keeps_the_gradients_of_a_single_batch_at_a_time(monkeypatch):
    step = TrainingStep(make_model("memory", {"num_slots": 2}), TrainingConfig(jit_compile=False), NO_STRATEGY)
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
    small = [(BATCH, BATCH), (SECOND_BATCH, SECOND_BATCH)]
    width = max(BATCH.shape[1], SECOND_BATCH.shape[1])
    large = np.concatenate([np.pad(ids, [(0, 0), (0, width - ids.shape[1])]) for ids in (BATCH, SECOND_BATCH)])
    accumulating_model, accumulated = train_steps(small)
    model, expected = train_steps([(large, large)], batch_size=8)
    np.testing.assert_allclose(accumulated, expected, rtol=1e-5)
    for weight, expected_weight in zip(arrays(accumulating_model), arrays(model), strict=True):
        np.testing.assert_allclose(weight, expected_weight, rtol=1e-3, atol=1e-5)


@pytest.mark.long
def test_accumulation_gives_the_same_result_on_two_replicas():
    strategy = replicas(2)
    batches = [(BATCH, BATCH), (SECOND_BATCH, SECOND_BATCH)]
    (_, alone), (_, on_replicas) = train_steps(batches), train_steps(batches, strategy=strategy)
    np.testing.assert_allclose(alone, on_replicas, rtol=1e-4)


def test_a_run_that_accumulates_takes_several_batches_a_step(tiny_config, tmp_path):
    config = tiny_config({"training.accumulate": 3})
    assert train(config, str(tmp_path / "run"), NO_STRATEGY) == 0
    with open(tmp_path / "run" / "validation.csv", encoding="utf-8") as file:
        examples = [int(row["examples"]) for row in csv.DictReader(file)]
    epoch, batch, short_batch = 60, 8, 4  # pairs; an epoch has 8 batches, one of them short
    assert examples == [epoch + batch, 2 * epoch + batch + short_batch]  # after 9 and 18 batches


@pytest.mark.parametrize(
    ("schedule", "step", "decays", "expected"),
    [
        ("constant", 0, 0, 1.0),
        ("constant", 10**6, 3, 1.0),
        ("inverse_sqrt", 0, 0, 1 / 100),
        ("inverse_sqrt", 49, 0, 0.5),
        ("inverse_sqrt", 99, 0, 1.0),
        ("inverse_sqrt", 399, 0, 0.5),
        ("inverse_sqrt", 9_999, 0, 0.1),
        ("linear", 0, 0, 1.0),
        ("linear", 150, 3, 0.25),
        ("linear", 199, 0, 0.005),
        ("plateau", 10**6, 0, 1.0),
        ("plateau", 5, 2, 0.09),
    ],
)
def test_schedules_give_the_learning_rate_of_a_step(schedule, step, decays, expected):
    config = TrainingConfig(learning_rate=2.0, schedule=schedule, warmup_steps=100, decay_factor=0.3, max_steps=200)
    assert learning_rate(config, step, decays) == pytest.approx(2 * expected)


def test_the_learning_rate_reaches_the_optimizer_without_retracing():
    model = make_model("memory", {"num_slots": 2})
    step = TrainingStep(model, TrainingConfig(batch_size=4, jit_compile=False), NO_STRATEGY)
    moves = []
    for number, rate in enumerate([0.1, 0.0, 0.001]):
        before = arrays(model)
        step([(BATCH, BATCH)], number, rate)
        moves.append(max(np.abs(new - old).max() for new, old in zip(arrays(model), before, strict=True)))
    assert moves[1] == 0
    assert 0 < 20 * moves[2] < moves[0]
    assert step._traced_update.experimental_get_tracing_count() == 1


@pytest.mark.long
def test_the_learning_rate_decays_when_bleu_stalls(tiny_config, tmp_path, made_up_scores, capsys):
    made_up_scores(bleu=[10.0, 9.0, 11.0, 10.0, 10.0])
    config = tiny_config({"training.max_steps": 15, "training.schedule": "plateau", "training.decay_factor": 0.1})
    trainer = Trainer(config, str(tmp_path / "run"), NO_STRATEGY)
    assert trainer.train() == 0
    assert trainer.run.progress.decays == 3
    assert "the learning rate is now 0.001" in capsys.readouterr().out
    rate_of_last_step = 0.01 * 0.1**2  # the validation after it decays the rate once more
    np.testing.assert_allclose(trainer.run.step.optimizer.learning_rate, rate_of_last_step, rtol=1e-5)
    resumed = Trainer(config, str(tmp_path / "run"), NO_STRATEGY)
    assert resumed.run.progress.decays == 3


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "plateau", "batch_type": "tokens", "batch_size": 60, "accumulate": 2},
        {"precision": "mixed_float16"},
    ],
)
def test_a_stopped_run_with_options_equals_an_uninterrupted_one(options, tiny_config, tmp_path, monkeypatch):
    monkeypatch.setattr("memattn.training.step._RAISE_AFTER", 2)  # so that the scale of float16's loss changes
    shorter = {"training.max_steps": 4, "training.validate_every": 2, "training.checkpoint_every": 3}
    training = {f"training.{key}": value for key, value in options.items()}
    config = tiny_config({"data.num_buckets": 2, **shorter, **training})
    assert train(config, str(tmp_path / "uninterrupted"), NO_STRATEGY) == 0
    call = TrainingStep.__call__

    def stop_after_step(self, *arguments):
        trainers[-1].stopping.received = signal.SIGTERM
        return call(self, *arguments)

    monkeypatch.setattr(TrainingStep, "__call__", stop_after_step)
    trainers = []
    while not trainers or not trainers[-1].run.progress.finished:
        trainers.append(Trainer(config, str(tmp_path / "interrupted"), NO_STRATEGY))
        trainers[-1].train()
        assert len(trainers) < 10
    assert len(trainers) >= 4
    assert_same_run(tmp_path / "uninterrupted", tmp_path / "interrupted")


@pytest.mark.long
@pytest.mark.parametrize(
    ("attention", "precision", "dtype"),
    [("memory", "mixed_bfloat16", "bfloat16"), ("bahdanau", "mixed_float16", "float16")],
)
def test_mixed_precision_computes_in_16_bits_and_keeps_weights_in_32(
    tiny_config, tmp_path, attention, precision, dtype
):
    changes = {"training.precision": precision, "model.attention": {"name": attention}, "model.tie_embeddings": "all"}
    assert train(tiny_config(changes), str(tmp_path / "run"), NO_STRATEGY) == 0
    trained = load([str(tmp_path / "run")], [], None)
    assert {tf.as_dtype(weight.dtype).name for weight in trained.model.trainable_variables} == {"float32"}
    assert trained.model(tf.constant([[4, EOS]]), tf.constant([[4, EOS]])).dtype == dtype
    memory, _ = trained.model.encode(tf.constant([[4, EOS]]))
    assert memory["values"].dtype == dtype
    assert evaluate(tmp_path / "run")["dtype"] == precision


@pytest.mark.long
def test_a_model_trained_in_float32_decodes_in_16_bits(tiny_config, tmp_path):
    assert train(tiny_config(), str(tmp_path / "run"), NO_STRATEGY) == 0
    in_32_bits = load([str(tmp_path / "run")], [], None).model
    in_16_bits = load([str(tmp_path / "run")], ["decoding.precision=mixed_float16"], None).model
    assert (in_32_bits.compute_dtype, in_16_bits.compute_dtype) == ("float32", "float16")
    for expected, weight in zip(in_32_bits.weights, in_16_bits.weights, strict=True):
        np.testing.assert_array_equal(expected, weight)
    assert evaluate(tmp_path / "run")["dtype"] == "float32"
    assert evaluate(tmp_path / "run", "decoding.precision=mixed_float16")["dtype"] == "mixed_float16"


def test_logits_in_mixed_precision_are_close_to_those_in_float32(tiny_config):
    """Initial weights are as large as after training, and a row of the batch is padding."""
    batch, logits = tf.constant(np.pad(BATCH, [(0, 1), (0, 0)])), {}
    for precision in ("float32", "mixed_bfloat16", "mixed_float16"):
        changes = {"training.precision": precision, "model.init_scale": 1.0}
        tf.keras.utils.set_random_seed(1)
        model = building.build_model(tiny_config({**changes, "model.attention.position_encoding": True}), 12, 8)
        logits[precision] = tf.cast(model(batch, batch), tf.float32).numpy()
    assert np.isfinite(logits["mixed_float16"]).all()
    scale = logits["float32"].std()
    assert scale > 0.5
    np.testing.assert_allclose(logits["mixed_bfloat16"], logits["float32"], atol=0.2 * scale)
    np.testing.assert_allclose(logits["mixed_float16"], logits["float32"], atol=0.02 * scale)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("memory", {"position_encoding": True, "renormalize": "sum"}),
        ("windowed_memory", {}),
        (MEMORY_VARIANT, {"encoder_normalize": "time"}),
    ],
    ids=str,
)
def test_float16_updates_all_weights_where_a_row_of_the_batch_is_padding(name, options):
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    model = make_model(name, {"num_slots": 2, **options})
    step = TrainingStep(model, TrainingConfig(batch_size=4, jit_compile=False, precision="mixed_float16"), NO_STRATEGY)
    step.state[0].assign(2.0**10)  # a loss scale at which no gradient overflows
    before, batch = arrays(model), np.pad(BATCH, [(0, 1), (0, 0)])
    assert UpdateResult.read(step([(batch, batch)], 0, 0.1)).gradient_norm > 0
    assert step.state[0] == 2.0**10
    assert all((old != new).any() for old, new in zip(before, arrays(model), strict=True))


def test_a_metric_of_trees_is_refused_before_training_on_other_targets(tiny_config, tmp_path):
    config = tiny_config({"training.metric": "bracketing_f1"})
    with pytest.raises(ConfigError, match=r"^training.metric: bracketing_f1 compares trees, and .* has other targets"):
        Trainer(config, str(tmp_path / "run"), NO_STRATEGY)


def test_float16_skips_updates_that_overflow():
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    model = make_model("memory", {"num_slots": 2})
    step = TrainingStep(model, TrainingConfig(batch_size=4, jit_compile=False, precision="mixed_float16"), NO_STRATEGY)
    step.state[0].assign(2.0**40)
    before = arrays(model)
    result = step([(BATCH, BATCH)], 0, 0.1).numpy()
    assert np.isfinite(result).all()
    assert all((old == new).all() for old, new in zip(before, arrays(model), strict=True))
    assert step.optimizer.iterations == 0
    assert step.state[0] == 2.0**39
    step.state[0].assign(2.0**10)
    step([(BATCH, BATCH)], 1, 0.1)
    assert any((old != new).any() for old, new in zip(before, arrays(model), strict=True))
    assert (step.state[0], step.state[1]) == (2.0**10, 1)
    step.state[1].assign(10**6)
    step([(BATCH, BATCH)], 2, 0.1)
    assert (step.state[0], step.state[1]) == (2.0**11, 0)


def test_the_loss_scale_of_float16_stays_at_least_1():
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    model = make_model("memory", {"num_slots": 2})
    step = TrainingStep(model, TrainingConfig(batch_size=4, jit_compile=False, precision="mixed_float16"), NO_STRATEGY)
    step.state[0].assign(2.0)
    weight = model.trainable_variables[0]
    before = weight.numpy()
    weight.assign(np.full_like(before, np.nan))
    results = [step([(BATCH, BATCH)], number, 0.1).numpy() for number in range(3)]
    assert step.state[0] == 1.0
    assert not np.isfinite(results[-1]).all()  # no loss scale helps against a weight of NaN
    weight.assign(before)
    assert np.isfinite(step([(BATCH, BATCH)], 3, 0.1).numpy()).all()


@pytest.mark.long
def test_float16_trains_on_two_replicas_as_on_one_device():
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    options = {"precision": "mixed_float16", "steps": 3}
    strategy = replicas(2)
    _, alone = train_steps([(BATCH, BATCH)], **options)
    _, on_replicas = train_steps([(BATCH, BATCH)], strategy=strategy, **options)
    np.testing.assert_allclose(alone, on_replicas, rtol=1e-2)
    assert alone.gradient_norm > 0


def test_averaged_checkpoints_are_the_mean_of_their_weights(tiny_config, tmp_path):
    run_dir = str(tmp_path / "run")
    assert train(tiny_config(), run_dir, NO_STRATEGY) == 0
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
    assert train(config, str(tmp_path / "run"), NO_STRATEGY) == 0
    lines = (tmp_path / "data" / "train.source").read_text(encoding="utf-8").splitlines()
    short = sum(len(line.split()) <= 3 for line in lines)
    assert 10 < short < 55
    output = capsys.readouterr().out
    assert f"{short} training pairs" in output
    assert f"{60 - short} pairs are left out: longer than data.max_source_length" in output


def test_the_clock_of_checkpoints_restarts_with_each(monkeypatch):
    now = 0.0
    monkeypatch.setattr("memattn.training.stopping.time", SimpleNamespace(monotonic=lambda: now))
    stopping, due = Stopping(NO_STRATEGY, checkpoint_minutes=1.0), []
    for step in range(6):
        now += 40.0
        due.append(bool(stopping.agree(step)))
        if due[-1]:
            stopping.saved()
    assert due == [False, True] * 3


def test_a_second_ctrl_c_ends_training_at_once():
    for first in (signal.SIGINT, signal.SIGTERM):
        stopping = Stopping(NO_STRATEGY, 1.0)
        stopping.on_signal(first, None)
        stopping.on_signal(signal.SIGTERM, None)  # schedulers repeat it
        with pytest.raises(KeyboardInterrupt):
            stopping.on_signal(signal.SIGINT, None)


def test_a_checkpoint_is_written_once_checkpoint_minutes_have_passed(tiny_config, tmp_path):
    config = tiny_config({"training.checkpoint_every": 1000, "training.checkpoint_minutes": 1e-6})
    run_dir = str(tmp_path / "run")
    assert train(config, run_dir, NO_STRATEGY) == 0
    state = tf.train.get_checkpoint_state(os.path.join(run_dir, CHECKPOINTS))
    assert [path.rpartition("-")[2] for path in state.all_model_checkpoint_paths] == ["4", "5", "6"]


def test_a_run_stopped_in_every_validation_equals_an_uninterrupted_one(tiny_config, tmp_path, monkeypatch, capsys):
    """A signal between two batches of a validation stops it there; the resumed run validates first."""
    config = tiny_config({"training.validate_every": 2})
    assert train(config, str(tmp_path / "uninterrupted"), NO_STRATEGY) == 0
    capsys.readouterr()
    search, trainers, searches = Searcher.__call__, [], 0

    def terminate_then_search(self, *arguments):
        nonlocal searches
        searches += 1
        if searches in (1, 4, 7):  # first of two batches; the resumed run searches both
            os.kill(os.getpid(), signal.SIGTERM)
            while not trainers[-1].stopping.received:
                time.sleep(0.001)
        return search(self, *arguments)

    monkeypatch.setattr("memattn.search.searcher.BATCHES_AT_ONCE", 1)
    monkeypatch.setattr(Searcher, "__call__", terminate_then_search)
    statuses = []
    while not statuses or statuses[-1]:
        trainers.append(Trainer(config, str(tmp_path / "interrupted"), NO_STRATEGY))
        statuses.append(trainers[-1].train())
        assert len(statuses) < 10
    assert statuses == [128 + signal.SIGTERM] * 3 + [0]
    assert "stopped by SIGTERM at step 2; the same command resumes it" in capsys.readouterr().out
    assert_same_run(tmp_path / "uninterrupted", tmp_path / "interrupted")


def test_each_accumulated_batch_and_each_step_draws_its_own_dropout():
    step = TrainingStep(make_model("memory", {}, dropout=0.5), TrainingConfig(jit_compile=False), NO_STRATEGY)

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
            step = TrainingStep(make_model("memory", {}, dropout=0.5), TrainingConfig(jit_compile=False), where)
        losses[name] = UpdateResult.read(step([(batch, batch)], 0, 0.0)).loss
    assert abs(losses["two"] - 2 * losses["one"]) > 1e-3
