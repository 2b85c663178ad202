"""Distillation: a teacher's contexts pull the student's, and training begins with its encoder."""

import dataclasses
import shutil

import numpy as np
import pytest
import tensorflow as tf
from helpers.models import arrays, make_model
from helpers.runs import NO_STRATEGY, assert_same_run, stopping_after
from helpers.updates import BATCH

from memattn.config import TrainingConfig
from memattn.errors import ConfigError
from memattn.runs.checkpoints import named_weights
from memattn.runs.trained import load
from memattn.training.step import StepResult, TrainingStep
from memattn.training.trainer import Trainer, train

pytestmark = pytest.mark.slow


def updated(student, teacher, step=0, **changes):
    """The result of an update."""
    options = {"batch_size": 4, "jit_compile": False, "clip_norm": 1e9, "teacher_steps": 4, **changes}
    training = TrainingStep(student, TrainingConfig(**options), NO_STRATEGY, teacher)
    return StepResult.read(training([(BATCH, BATCH)], step, 0.01))


def contexts(model, source, target):
    """What each step reads, over the sum of its weights, from the mechanism's parts and the step-wise decoder."""
    encoded, found = model.encode(source), []
    shared, state = model.start(encoded, 1, model.token_table())
    shifted = np.pad(target[:, :-1], [(0, 0), (1, 0)], constant_values=1)
    for tokens in shifted.T:
        _, scores, state = model.step(tf.constant(tokens)[:, None], state, shared)
        weights = model.attention_weights(shared, scores)
        found.append((scores @ encoded.memory["values"] / tf.reduce_sum(weights, -1, keepdims=True))[:, 0])
    return tf.stack(found, 1)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(("step", "pull"), [(0, 0.3), (2, 0.15), (4, 0.0), (9, 0.0)])
def test_the_loss_adds_the_distance_from_what_the_teacher_reads(step, pull, jit_compile):
    student, teacher = make_model("memory", {"num_slots": 2}), make_model("bahdanau", {})
    source, real = tf.constant(BATCH), BATCH != 0
    goal = contexts(teacher, source, BATCH)
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(BATCH, student(source, source))
        distances = tf.reduce_mean((contexts(student, source, BATCH) - goal) ** 2, -1)
        objective = tf.reduce_sum(tf.where(real, losses + pull * distances, 0.0)) / real.sum()
    norm = tf.linalg.global_norm(
        [tf.convert_to_tensor(one) for one in tape.gradient(objective, student.trainable_variables)]
    )
    result = updated(student, teacher, step, teacher_weight=0.3, jit_compile=jit_compile)
    np.testing.assert_allclose(result.gradient_norm, norm, rtol=1e-3)
    np.testing.assert_allclose(
        result.loss, tf.reduce_sum(tf.where(real, losses, 0.0)), rtol=1e-4
    )  # cross-entropy alone


def test_the_teacher_is_not_trained():
    student, teacher = make_model("memory", {"num_slots": 2}), make_model("bahdanau", {})
    before = arrays(teacher)
    updated(student, teacher)
    for old, new in zip(before, arrays(teacher), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_student_with_the_contexts_of_its_teacher_has_no_distillation_loss():
    student, teacher = make_model("memory", {"num_slots": 2}), make_model("memory", {"num_slots": 2})
    taught = updated(student, teacher, teacher_weight=1000.0).gradient_norm
    np.testing.assert_allclose(taught, updated(make_model("memory", {"num_slots": 2}), None).gradient_norm, rtol=1e-3)


@pytest.fixture
def taught(tiny_config, tmp_path):
    """taught(changes) is the config of a student of a finished run with Bahdanau attention."""
    folder = str(tmp_path / "teacher")
    assert train(tiny_config({"model.attention.name": "bahdanau"}), folder, NO_STRATEGY) == 0
    return lambda changes=(): tiny_config({"training.teacher": folder, "training.teacher_steps": 4, **dict(changes)})


def test_training_begins_with_the_encoder_of_the_teacher(taught, tmp_path):
    config = taught()
    student = named_weights(Trainer(config, str(tmp_path / "run"), NO_STRATEGY).run.model)
    teacher = named_weights(load([config.training.teacher], [], None).model)
    for path, weight in student.items():
        same = path in teacher and weight.shape == teacher[path].shape
        values = tf.convert_to_tensor(weight).numpy()
        same = same and bool((values == tf.convert_to_tensor(teacher[path]).numpy()).all())
        assert same == path.startswith(("encoder/", "source_embedding/")) or not values.any(), path  # biases are 0


def test_an_interrupted_student_equals_an_uninterrupted_one(taught, tmp_path, monkeypatch):
    assert train(taught(), str(tmp_path / "whole"), NO_STRATEGY) == 0
    monkeypatch.setattr(Trainer, "save", stopping_after(Trainer.save, 2))
    assert train(taught(), str(tmp_path / "resumed"), NO_STRATEGY) != 0
    monkeypatch.undo()
    assert train(taught(), str(tmp_path / "resumed"), NO_STRATEGY) == 0
    assert_same_run(str(tmp_path / "whole"), str(tmp_path / "resumed"))


def test_a_teacher_is_not_needed_once_its_weight_is_0(taught, tmp_path):
    config = taught({"training.teacher_steps": 1})
    assert train(config, str(tmp_path / "run"), NO_STRATEGY) == 0
    shutil.rmtree(config.training.teacher)
    longer = dataclasses.replace(config.training, max_steps=config.training.max_steps + 2)
    assert train(dataclasses.replace(config, training=longer), str(tmp_path / "run"), NO_STRATEGY) == 0


def test_a_teacher_of_another_size_is_refused(taught, tmp_path):
    with pytest.raises(ConfigError, match=r"teacher .*model.units \(8 there, 16 here\)"):
        train(taught({"model.units": 16}), str(tmp_path / "run"), NO_STRATEGY)
    with pytest.raises(ConfigError, match=r"teacher .*model.encoder \(lstm there, gru here\)"):
        train(taught({"model.encoder": "gru"}), str(tmp_path / "run"), NO_STRATEGY)
    narrow = {"model.attention": {"name": "linear", "projection": 1}}
    with pytest.raises(ConfigError, match="training.teacher: .*16 wide"):
        train(taught(narrow), str(tmp_path / "run"), NO_STRATEGY)
    assert train(taught({**narrow, "training.teacher_weight": 0}), str(tmp_path / "run"), NO_STRATEGY) == 0
    with pytest.raises(ConfigError, match="training.teacher: .*training.init_from"):
        taught({"training.init_from": "anything"})
