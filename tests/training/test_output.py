"""The progress that training shows: on a terminal, in a file, and in TensorBoard."""

import re

import numpy as np
import pytest
import tensorflow as tf
from helpers.runs import NO_STRATEGY, assert_same_run
from helpers.terminal import terminal

from memattn.config import TrainingConfig
from memattn.data.corpus import read_vocabulary
from memattn.evaluation import plots
from memattn.search.searcher import Translation
from memattn.training import reporting, trainer, validation
from memattn.training.progress import Progress
from memattn.training.trainer import Trainer, train
from memattn.training.validation import ValidationExample


def test_the_progress_line_leaves_out_unknown_numbers():
    training, progress = TrainingConfig(max_steps=2_000), Progress()
    progress.step = 1_200
    assert reporting.progress_parts(training, progress, {}) == ["step 1,200/2,000"]
    scalars = {"loss": 1.5, "tokens_per_second": 12_345.6, "steps_per_second": 8.0}
    parts = ["step 1,200/2,000", "loss 1.5000", "12,346 tokens/s", "1:40 left"]
    assert reporting.progress_parts(training, progress, scalars) == parts
    progress.best = [30.0, 12.0]
    assert reporting.progress_parts(training, progress, scalars) == [*parts, "best BLEU 30.00"]
    progress.validation_due = True
    assert reporting.progress_parts(training, progress, scalars) == ["step 1,200/2,000", "validating"]


def test_an_example_is_printed_in_three_lines():
    example = ValidationExample("Ein Satz", "A sentence", "")
    assert reporting.example_lines(example) == ["source       Ein Satz", "reference    A sentence", "translation"]


@pytest.mark.slow
def test_a_terminal_shows_one_line_on_progress_and_training_computes_the_same(
    tiny_config, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(trainer, "_PROGRESS_SECONDS", 0.0)
    config = tiny_config()
    assert train(config, str(tmp_path / "file"), NO_STRATEGY) == 0
    lines = capsys.readouterr().out.splitlines()
    with terminal(monkeypatch, columns=80) as output:
        assert train(config, str(tmp_path / "terminal"), NO_STRATEGY) == 0
    assert_same_run(tmp_path / "file", tmp_path / "terminal")

    def comparable(lines):
        return [
            re.sub(r"\(.* s\)", "", line.replace(str(tmp_path / "file"), str(tmp_path / "terminal"))) for line in lines
        ]

    without_steps = [line for line in lines if not line.startswith("step ")]
    assert len(lines) - len(without_steps) == 3
    assert comparable(output.screen) == [*comparable(without_steps), ""]
    for step in (3, 6):
        (place,) = [i for i, line in enumerate(lines) if line.startswith(f"validation at step {step}: ")]
        assert [line.split()[0] for line in lines[place + 1 : place + 4]] == ["source", "reference", "translation"]
        assert f"\rstep {step}/6  validating\r" in output.written
    drawn = [text.strip() for text in re.split("[\r\n]", output.written) if text.startswith("step ")]
    assert "step 1/6" in drawn
    assert any(
        re.fullmatch(r"step 4/6  loss \d\.\d{4}  .* tokens/s  0:\d\d left  best BLEU 0.00", text) for text in drawn
    )
    assert max(map(len, drawn)) < 80


def test_the_example_has_median_length_and_its_picture_the_attention_weights(tiny_config, tmp_path, monkeypatch):
    run = Trainer(tiny_config({"data.num_buckets": 2}), str(tmp_path / "run"), NO_STRATEGY).run
    assert run.validation.draw_example() is None
    sources, targets = (
        [line.split() for line in (tmp_path / "data" / f"valid.{side}").read_text("utf-8").splitlines()]
        for side in ("source", "target")
    )
    translations = [Translation([[token for token in source[::-1] for _ in "12"]], [0.0]) for source in sources]
    monkeypatch.setattr(validation, "decode", lambda *_: (translations, 0.0))
    run.validation.scores()
    index = next(i for i, source in enumerate(sources) if " ".join(source) == run.validation.example.source)
    assert sum(len(source) < len(sources[index]) for source in sources) <= len(sources) / 2
    assert sum(len(source) > len(sources[index]) for source in sources) <= len(sources) / 2
    assert run.validation.example.reference == " ".join(targets[index])
    assert run.validation.example.translation == " ".join(translations[index].best)

    drawn, draw = [], plots.alignment_figure
    monkeypatch.setattr(
        plots, "alignment_figure", lambda *args, slots: drawn.append((*args, slots)) or draw(*args, slots)
    )
    assert run.validation.draw_example().startswith(b"\x89PNG")
    ((source, target, weights, slots),) = drawn
    assert source == [*sources[index], "</s>"]
    assert target == [*translations[index].best, "</s>"]
    tokens = read_vocabulary(str(tmp_path / "data" / "vocab.txt")).tokens
    ids = ([[tokens.index(token) for token in sentence]] for sentence in (source, target))
    expected = run.model.alignments(*map(tf.constant, ids))
    np.testing.assert_allclose(weights, expected[0], rtol=1e-5, atol=1e-7)
    assert slots.shape == (0, len(target), len(source))


def recorded(run_dir):
    """Returns the steps at which each tag was recorded, and the last text of `validation/example`."""
    (path,) = (run_dir / "events").iterdir()
    steps, text = {}, None
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        event = tf.compat.v1.Event.FromString(record)
        for value in event.summary.value:
            steps.setdefault(value.tag, []).append(event.step)
            if value.tag == "validation/example":
                text = tf.make_ndarray(value.tensor).item().decode("utf-8")
    return steps, text


@pytest.mark.long
@pytest.mark.parametrize(("mechanism", "pictures"), [("memory", [3, 6]), ("none", None)])
def test_tensorboard_gets_numbers_texts_and_pictures_which_change_no_weight(
    tiny_config, tmp_path, monkeypatch, mechanism, pictures
):
    monkeypatch.setattr(trainer, "_PICTURE_SECONDS", 0.0)
    decode = validation.decode

    def translations(*arguments):
        results, seconds = decode(*arguments)
        return [Translation([["1", "3"]], [0.0]) for _ in results], seconds

    monkeypatch.setattr(validation, "decode", translations)
    config = tiny_config({"model.attention": {"name": mechanism}, "training.metric": "chrf"})
    assert train(config, str(tmp_path / "run"), NO_STRATEGY) == 0
    steps, text = recorded(tmp_path / "run")
    numbers = ["loss", "accuracy", "gradient_norm", "learning_rate", "steps_per_second", "tokens_per_second"]
    for name in numbers:
        assert steps.pop(f"train/{name}") == [2, 4, 6]
    for name in ("bleu", "exact_match", "chrf", "example"):
        assert steps.pop(f"validation/{name}") == [3, 6]
    assert steps.pop("validation/alignment", None) == pictures
    assert not steps
    assert text.splitlines()[2] == "    translation  1 3"
    monkeypatch.setattr(validation.Validation, "draw_example", lambda _: None)
    assert train(config, str(tmp_path / "without"), NO_STRATEGY) == 0
    assert_same_run(tmp_path / "run", tmp_path / "without")


def test_pictures_are_not_drawn_at_each_validation_of_a_short_training(tiny_config, tmp_path, monkeypatch):
    monkeypatch.setattr(validation.Validation, "draw_example", lambda _: pytest.fail("a picture takes long"))
    run = Trainer(tiny_config({"training.max_steps": 1}), str(tmp_path / "run"), NO_STRATEGY)
    run.validate()
    assert run.run.progress.validations


def test_a_text_or_a_picture_that_cannot_be_written_is_a_failure_that_training_raises(monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    for name, record in (
        ("text", lambda writer: writer.record_text("a", ["b"], 1)),
        ("image", lambda writer: writer.record_picture("a", tf.io.encode_png(np.zeros([1, 1, 3], np.uint8)), 1)),
    ):
        writer = reporting.Events()
        monkeypatch.setattr(tf.summary, name, fail)
        record(writer)
        assert writer.failure.errno == 28
