"""Training: updates equal NumPy, runs resume bit for bit and end in time, and a model learns to copy."""

import concurrent.futures
import os
import shutil
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from helpers.files import contents, cut, lines_of
from helpers.marks import slow
from helpers.models import BATCH, arrays, make_model
from helpers.runs import NO_STRATEGY, before_each_step, evaluate, latest, stopping_after

from memattn import config as configs
from memattn import xla
from memattn.config import TrainingConfig
from memattn.data.vocabulary import EOS, PAD
from memattn.errors import ConfigError, RunError
from memattn.files import read_csv, write_lines
from memattn.runs.run import BEST, VALIDATIONS, Run
from memattn.runs.trained import build_model
from memattn.search.searcher import Searcher
from memattn.training.step import TrainingStep, UpdateResult
from memattn.training.trainer import Trainer, train
from memattn.training.validation import Validation, _decoding

LEAN = {"model.attention": {"name": "none"}, "decoding.beam_size": 1}  # whose steps and searches are traced quickly


@pytest.mark.parametrize(
    ("name", "options", "changes", "smoothing", "jit_compile"),
    [
        ("memory", {"num_slots": 2}, {}, 0.0, False),
        slow("bahdanau", {"cache_keys": False}, {"tie_embeddings": "all"}, 0.6, True),
    ],
)
def test_the_first_update_is_that_of_adam_on_the_clipped_mean_gradient_without_padding(
    name, options, changes, smoothing, jit_compile
):
    """Label smoothing changes what is minimized, not the loss that is reported."""
    model = make_model(name, options, **changes)
    with tf.GradientTape() as tape:
        logits = model(tf.constant(BATCH), tf.constant(BATCH))
        log_probs = tf.nn.log_softmax(logits)
        real = [(b, t) for b in range(4) for t in range(4) if BATCH[b, t]]
        loss = -sum(log_probs[b, t, BATCH[b, t]] for b, t in real)
        uniform = -sum(tf.reduce_mean(log_probs[b, t]) for b, t in real)
        mean = ((1 - smoothing) * loss + smoothing * uniform) / len(real)
    gradients = [tf.convert_to_tensor(g).numpy() for g in tape.gradient(mean, model.trainable_variables)]
    norm = np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in gradients))
    before = arrays(model)
    options = {"learning_rate": 0.1, "clip_norm": norm / 2, "label_smoothing": smoothing, "jit_compile": jit_compile}
    config = TrainingConfig(batch_size=4, **options)
    result = UpdateResult.read(TrainingStep(model, config, NO_STRATEGY)([(BATCH, BATCH)], 0, 0.1))
    np.testing.assert_allclose(result.loss, loss, rtol=1e-5)
    assert result.tokens == len(real)
    np.testing.assert_allclose(result.gradient_norm, norm, rtol=1e-4)
    for weight, old, gradient in zip(model.trainable_variables, before, gradients, strict=True):
        clipped = gradient / 2
        moved = 0.1 * clipped / (np.abs(clipped) + 1e-7 / np.sqrt(0.001))  # Adam's first step, its epsilon unscaled
        np.testing.assert_allclose(tf.convert_to_tensor(weight), old - moved, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "float32"])
def test_auto_chooses_xla_by_the_precision_in_which_the_model_computes(precision, tiny_config):
    """Training and search take the same decision; the device is a CPU."""
    auto = {"training.jit_compile": "auto", "decoding.jit_compile": "auto"}
    config = tiny_config({**auto, "training.precision": precision})
    assert config.decoding.precision is None
    model = build_model(config, 9, {"max_source_length": 5})
    expected = precision == "float32" and xla.jit_compile("auto")
    assert Searcher(model, config.decoding).jit_compile is expected
    assert TrainingStep(model, config.training, NO_STRATEGY).jit_compile is expected


@pytest.mark.slow
def test_training_runs_in_any_thread_with_the_rates_of_the_schedule(tiny_config, tmp_path, monkeypatch):
    rates = []
    before_each_step(monkeypatch, lambda training_step, number, rate: rates.append(rate))
    config = tiny_config({"training.schedule": "linear"})
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(train, config, str(tmp_path / "run"), NO_STRATEGY).result() == 0
    np.testing.assert_allclose(rates, [config.training.learning_rate * (1 - i / 6) for i in range(6)])


@pytest.mark.slow
def test_a_resumed_run_adds_its_time_to_the_time_before(tiny_config, tmp_path, monkeypatch):
    now, save = [1_000.0], Trainer.save

    def save_later(trainer):
        now[0] += 100
        save(trainer)

    monkeypatch.setattr("memattn.training.trainer.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(Trainer, "save", stopping_after(save_later, 4))
    assert train(tiny_config(), str(tmp_path / "run"), NO_STRATEGY) == 128 + signal.SIGTERM
    spent = now[0] - 1_000
    assert spent >= 200
    now[0] += 10_000  # while the run is stopped
    monkeypatch.setattr(Trainer, "save", save)
    assert train(tiny_config(), str(tmp_path / "run"), NO_STRATEGY) == 0
    seconds = {row["step"]: float(row["seconds"]) for row in read_csv(str(tmp_path / "run" / VALIDATIONS))}
    assert seconds == {"3": 100, "6": spent}


@pytest.mark.slow
def test_an_interrupted_run_saves_a_checkpoint_though_nothing_can_be_printed(tiny_config, tmp_path, monkeypatch):
    config = tiny_config({"training.checkpoint_every": 1000})
    before_each_step(monkeypatch, signalling_at(signal.SIGINT, 2))
    with open("/dev/full", "w", encoding="utf-8") as stdout, monkeypatch.context() as patched:
        patched.setattr("sys.stdout", stdout)
        assert train(config, str(tmp_path / "run"), NO_STRATEGY) == 130
    assert latest(tmp_path / "run").endswith("step-3")


def test_updates_whose_gradients_are_not_finite_are_skipped(tiny_config, tmp_path, monkeypatch, capsys):
    """A weight is NaN during steps 2 and 3 and restored after each."""
    step, weights_before_and_after = TrainingStep.__call__, []

    def step_with_nan(self, batches, number, learning_rate):
        if number not in (1, 2):
            return step(self, batches, number, learning_rate)
        weight = self.model.trainable_variables[0]
        before = [variable.numpy() for variable in self.model.trainable_variables]
        weight.assign(weight * np.nan)
        results = step(self, batches, number, learning_rate)
        weight.assign(before[0])
        after = [variable.numpy() for variable in self.model.trainable_variables]
        weights_before_and_after.extend(zip(before, after, strict=True))
        return results

    monkeypatch.setattr(TrainingStep, "__call__", step_with_nan)
    assert train(tiny_config({**LEAN, "training.max_bad_steps": 2}), str(tmp_path / "run"), NO_STRATEGY) == 0
    assert len(weights_before_and_after) > 20
    assert all((before == after).all() for before, after in weights_before_and_after)
    output = capsys.readouterr().out
    assert "step 2: updates skipped, as loss or gradient was not finite: 1" in output
    assert "step 4: updates skipped, as loss or gradient was not finite: 1" in output
    with pytest.raises(RunError, match="not finite at step 3, .*bad_step-3.npz"):
        train(tiny_config({**LEAN, "training.max_bad_steps": 1}), str(tmp_path / "strict"), NO_STRATEGY)


@pytest.mark.slow
def test_a_diverged_run_ends_with_an_error_also_where_it_is_resumed(tiny_config, tmp_path, capsys):
    config, run_dir = tiny_config({"training.learning_rate": 1e15}), str(tmp_path / "run")
    reason = (
        r"run: diverged: the loss per token ended at .*e\+\d+, where equal probabilities for all tokens give 2.079; "
    )
    for _ in range(2):
        with pytest.raises(RunError, match=reason):
            train(config, run_dir, NO_STRATEGY)
    assert "already finished: 6 steps" in capsys.readouterr().out


def test_a_second_training_of_a_run_is_refused_and_leaves_its_config(tiny_config, tmp_path):
    config, run_dir = tiny_config(LEAN), str(tmp_path / "run")
    outdated = Trainer(config, run_dir, NO_STRATEGY)
    refused = pytest.raises(RunError, match=f"run: process {os.getpid()} on .*training")
    with Run(run_dir).locked(), refused:
        train(tiny_config({**LEAN, "training.max_steps": 40}), run_dir, NO_STRATEGY)
    assert Run(run_dir).config == config
    assert train(config, run_dir, NO_STRATEGY) == 0
    with pytest.raises(RunError, match="run: another training"):
        outdated.train()


def signalling_at(number, when):
    """Returns a function for `before_each_step` that sends a signal to this process before step `when`."""
    return lambda training_step, step, rate: step == when and os.kill(os.getpid(), number)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*checkpoint skipped")
def test_a_run_whose_last_checkpoint_is_damaged_can_be_stopped_again(tiny_config, tmp_path, monkeypatch):
    config, run_dir = tiny_config({"training.checkpoint_every": 3}), str(tmp_path / "run")
    for last in (5, 4):  # the second time, the damaged checkpoint is newer than the last one
        with monkeypatch.context() as patched:
            before_each_step(patched, signalling_at(signal.SIGTERM, last - 1))
            assert train(config, run_dir, NO_STRATEGY) == 128 + signal.SIGTERM
        assert latest(run_dir).endswith(f"step-{last}")
        if last == 5:
            cut(f"{latest(run_dir)}.index")
    assert train(config, run_dir, NO_STRATEGY) == 0


def test_files_of_another_corpus_in_the_run_folder_are_not_overwritten(tiny_config, tmp_path):
    (tmp_path / "run").mkdir()
    vocabulary = tmp_path / "run" / "vocab.txt"
    vocabulary.write_text("other words\n")
    with pytest.raises(ConfigError, match="vocab.txt: of another run or corpus, .*; use another --run_dir"):
        train(tiny_config(), str(tmp_path / "run"), NO_STRATEGY)
    assert vocabulary.read_text() == "other words\n"


def test_the_best_checkpoint_is_that_of_the_best_validation(tiny_config, tmp_path, made_up_scores, capsys):
    """A finished run that is started again changes no file."""
    made_up_scores(bleu=[10.0, 30.0, 20.0])
    config, run_dir = tiny_config({**LEAN, "training.max_steps": 9}), tmp_path / "run"
    assert train(config, str(run_dir), NO_STRATEGY) == 0
    assert "finished: 9 steps; best validation BLEU 30.00" in capsys.readouterr().out
    assert tf.train.latest_checkpoint(str(run_dir / BEST)).endswith("step-6")
    before = contents(run_dir)
    assert train(config, str(run_dir), NO_STRATEGY) == 0
    assert "already finished: 9 steps" in capsys.readouterr().out
    assert contents(run_dir) == before


def test_a_run_whose_checkpoints_are_deleted_keeps_its_best_weights(tiny_config, tmp_path):
    config, run_dir = tiny_config({**LEAN, "training.max_steps": 6}), tmp_path / "run"
    assert train(config, str(run_dir), NO_STRATEGY) == 0
    shutil.rmtree(run_dir / "checkpoints")
    before = contents(run_dir)
    with pytest.raises(RunError, match="checkpoints: missing, though .*best has weights, .*; put it back"):
        train(config, str(run_dir), NO_STRATEGY)
    assert contents(run_dir) == before


def test_a_run_whose_data_changed_is_refused(tiny_config, tmp_path):
    config, run_dir, path = tiny_config(LEAN), tmp_path / "run", tmp_path / "data/train.target"
    Trainer(config, str(run_dir), NO_STRATEGY)  # makes the run folder
    before = contents(run_dir)
    write_lines(str(path), reversed(lines_of(path)))  # all counts stay the same
    with pytest.raises(ConfigError, match="corpus.json: .*changed"):
        train(config, str(run_dir), NO_STRATEGY)
    assert contents(run_dir) == before


@pytest.mark.long
def test_a_model_learns_to_copy(tmp_path):
    """With the shipped config for the copy task, for a smaller task and model."""
    task = "{max_length: 6, num_symbols: 6, train_examples: 4000, valid_examples: 100}"
    changes = [f"data.folder={tmp_path / 'data'}", f"data.copy={task}", "data.num_buckets=1", "model.units=64"]
    changes += ["training.batch_size=64", "training.validate_every=100", "training.stop_at=97"]
    assert train(configs.load("copy/small", changes), str(tmp_path / "run"), NO_STRATEGY) == 0
    result = evaluate(tmp_path / "run")
    assert result["bleu"] >= 95
    assert result["exact_match"] >= 85


def test_a_validation_scores_the_current_weights(tiny_config, tmp_path):
    config = tiny_config()
    run = Trainer(config, str(tmp_path / "run"), NO_STRATEGY).run
    run.validation.scores()
    untrained = run.validation.example.translation
    for weight in run.model.trainable_variables:
        weight.assign(tf.random.normal(weight.shape))
    run.validation.scores()
    fresh = Validation(config, run.model, run.validation._vocabulary, run.validation._tokenizer)
    fresh.scores()
    assert run.validation.example.translation == fresh.example.translation != untrained


def test_a_validation_searches_by_its_own_beam_size_and_never_samples(tiny_config):
    options = {"decoding.beam_size": 6, "decoding.batch_size": 4, "decoding.n_best": 2, "decoding.sample": {}}
    search = _decoding(tiny_config({**options, "training.validation_beam_size": 3}), None)
    assert (search.beam_size, search.batch_size, search.n_best, search.sample) == (3, 8, 1, None)


def test_the_accuracy_counts_real_targets_alone():
    model = make_model("memory", {"num_slots": 2})
    step, bias = TrainingStep(model, TrainingConfig(jit_compile=False), NO_STRATEGY), model.output_layer.bias
    for token, correct in ((EOS, 4), (PAD, 0)):
        bias.assign(99.0 * tf.one_hot(token, model.vocabulary_size))
        number = 2**31 + 5  # beyond int32
        assert UpdateResult.read(step([(BATCH, BATCH)], number, 0.0)).correct == correct
