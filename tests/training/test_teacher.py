"""Distillation: the student's contexts approach those of a teacher, whose encoder it begins with."""

import dataclasses
import shutil

import numpy as np
import pytest
import tensorflow as tf
from helpers.models import BATCH, arrays, make_model, padded
from helpers.runs import NO_STRATEGY, assert_same_run, replicas, stopping_after, tiny, untrained

from memattn.config import TrainingConfig
from memattn.data.vocabulary import EOS
from memattn.errors import ConfigError
from memattn.runs.checkpoints import named_weights
from memattn.runs.trained import load
from memattn.training.step import TrainingStep, UpdateResult
from memattn.training.trainer import Trainer, train

pytestmark = pytest.mark.slow

PARALLEL = {"model.input_feeding": False}  # so that steps are traced and compiled quickly


def contexts(model, source, target):
    """Returns the context of each decoder step divided by the sum of its attention weights, [B, T, D].

    They are computed without the loss under test: by the step-wise decoder and the parts of the mechanism.
    """
    encoded, contexts_by_step = model.encode(source), []
    shared, state = model.start(encoded, 1, model.token_table())
    shifted = np.pad(target[:, :-1], [(0, 0), (1, 0)], constant_values=1)
    for tokens in shifted.T:
        _, scores, state = model.step(tf.constant(tokens)[:, None], state, shared)
        weights = model.attention_weights(shared, scores)
        context = scores @ encoded.memory["values"] / tf.reduce_sum(weights, -1, keepdims=True)  # [B, 1, D]
        contexts_by_step.append(context[:, 0])
    return tf.stack(contexts_by_step, 1)


@pytest.mark.parametrize(("step", "weight"), [(2, 0.15), (9, 0.0)])
def test_the_loss_adds_the_distance_from_the_contexts_of_the_teacher(step, weight):
    student, teacher = make_model("memory", {"num_slots": 2}), make_model("bahdanau", {})
    source, real, teacher_weights = tf.constant(BATCH), BATCH != 0, arrays(teacher)
    goal = contexts(teacher, source, BATCH)
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(BATCH, student(source, source))
        distances = tf.reduce_mean((contexts(student, source, BATCH) - goal) ** 2, -1)
        objective = tf.reduce_sum(tf.where(real, losses + weight * distances, 0.0)) / real.sum()
    gradients = tape.gradient(objective, student.trainable_variables)
    norm = tf.linalg.global_norm([tf.convert_to_tensor(gradient) for gradient in gradients])
    options = {"teacher_weight": 0.3, "teacher_steps": 4, "clip_norm": 1e9, "jit_compile": False}
    training = TrainingStep(student, TrainingConfig(batch_size=4, **options), NO_STRATEGY, teacher)
    result = UpdateResult.read(training([(BATCH, BATCH)], step, 0.01))
    np.testing.assert_allclose(result.gradient_norm, norm, rtol=1e-3)
    cross_entropy = tf.reduce_sum(tf.where(real, losses, 0.0))  # what is reported leaves the distance out
    np.testing.assert_allclose(result.loss, cross_entropy, rtol=1e-4)
    np.testing.assert_equal(arrays(teacher), teacher_weights)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """The folder of a run with Bahdanau attention and random weights."""
    folder = tmp_path_factory.mktemp("teacher")
    changes = {**PARALLEL, "model.attention": {"name": "bahdanau"}, "data.folder": str(folder / "data")}
    return untrained(tiny(changes), folder / "run")


@pytest.fixture
def student_config(tiny_config, teacher):
    """student_config(changes) returns a config with this teacher."""
    distilling = {**PARALLEL, "training.teacher": teacher, "training.teacher_steps": 4}
    return lambda changes=(): tiny_config({**distilling, **dict(changes)})


def test_training_begins_with_the_encoder_of_the_teacher(student_config, tmp_path):
    config = student_config()
    student = named_weights(Trainer(config, str(tmp_path / "run"), NO_STRATEGY).run.model)
    teacher = named_weights(load([config.training.teacher], [], None).model)
    for path, weight in student.items():
        values = tf.convert_to_tensor(weight).numpy()
        has_counterpart = path in teacher and weight.shape == teacher[path].shape
        is_equal = has_counterpart and bool((values == tf.convert_to_tensor(teacher[path]).numpy()).all())
        is_of_encoder = path.startswith(("encoder/", "source_embedding/"))
        assert is_equal == is_of_encoder or not values.any(), path  # biases are 0 everywhere


def test_an_update_on_two_replicas_compiled_by_xla_equals_one_on_one_device_without(student_config, tmp_path):
    """XLA refuses variables of another device, so each needs the teacher's weights."""
    batch, results, weights = padded([[4, 5, 6, EOS], [7, 4, EOS], [5, EOS], [6, 6, 7, EOS]]).numpy(), [], []
    for strategy, jit_compile in ((NO_STRATEGY, False), (replicas(2), True)):
        config = student_config({"model.dropout": 0.0, "training.jit_compile": jit_compile})
        run = Trainer(config, str(tmp_path / str(jit_compile)), strategy).run
        results.append(UpdateResult.read(run.training_step([(batch, batch)], 0, 0.01)))
        weights.append(arrays(run.model))
    np.testing.assert_allclose(*results, rtol=1e-4)
    for on_one_device, on_replicas in zip(*weights, strict=True):
        np.testing.assert_allclose(on_replicas, on_one_device, rtol=1e-3, atol=1e-4)


def test_an_interrupted_student_equals_an_uninterrupted_one_and_needs_its_teacher_until_its_weight_is_0(
    student_config, teacher, tmp_path, monkeypatch
):
    copied, run_dir = str(shutil.copytree(teacher, tmp_path / "teacher")), str(tmp_path / "resumed")
    config = student_config({"training.teacher": copied, "training.keep_checkpoints": 1})
    assert train(config, str(tmp_path / "uninterrupted"), NO_STRATEGY) == 0
    monkeypatch.setattr(Trainer, "save", stopping_after(Trainer.save, 2))
    assert train(config, run_dir, NO_STRATEGY) != 0
    monkeypatch.undo()
    assert train(config, run_dir, NO_STRATEGY) == 0
    assert_same_run(str(tmp_path / "uninterrupted"), run_dir)
    shutil.rmtree(copied)
    longer = dataclasses.replace(config.training, max_steps=config.training.max_steps + 2)
    assert train(dataclasses.replace(config, training=longer), run_dir, NO_STRATEGY) == 0


def test_a_teacher_whose_encoder_or_contexts_do_not_fit_is_refused(student_config, tmp_path):
    with pytest.raises(ConfigError, match=r"training.teacher: its contexts are 16 wide, and those of this model 32"):
        train(student_config({"model.units": 16}), str(tmp_path / "run"), NO_STRATEGY)
    with pytest.raises(ConfigError, match=r"training.teacher: another model: "):
        train(student_config({"model.encoder": "gru"}), str(tmp_path / "run"), NO_STRATEGY)
    narrow = {"model.attention": {"name": "linear", "projection": 1}}
    with pytest.raises(ConfigError, match="training.teacher: .*16 wide"):
        train(student_config(narrow), str(tmp_path / "run"), NO_STRATEGY)
    with pytest.raises(ConfigError, match="training.teacher: .*training.init_from"):
        student_config({"training.init_from": "anything"})
