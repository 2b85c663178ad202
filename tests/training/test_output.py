"""The progress that training shows: on a terminal, in a file, and in TensorBoard."""

import re
import shlex
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from helpers.files import lines_of
from helpers.runs import NO_STRATEGY, assert_same_run
from helpers.terminal import terminal

from memattn import config as configs
from memattn.config import TrainingConfig
from memattn.data.corpus import read_vocabulary
from memattn.evaluation import plots
from memattn.search.translation import Translation
from memattn.training import log as training_log
from memattn.training import validation
from memattn.training.distribution import Workers
from memattn.training.log import Log
from memattn.training.progress import Progress
from memattn.training.step import UpdateResult
from memattn.training.trainer import Trainer, train


def reported(results, monkeypatch, capsys):
    """Returns what is printed, and what is recorded, on training steps with these results that took two seconds."""
    recorded = []
    monkeypatch.setattr(training_log, "time", SimpleNamespace(monotonic=lambda: 10.0))
    monkeypatch.setattr(training_log, "record", lambda group, scalars, step: recorded.append(scalars))
    progress, training = Progress(), TrainingConfig(max_steps=2_000, learning_rate=0.5)
    progress.step = 1_200
    config = SimpleNamespace(training=training)
    log = Log(SimpleNamespace(config=config, progress=progress, workers=Workers(NO_STRATEGY)))
    log.results, log.logged_at = list(results), 8.0
    log.write_steps()
    assert (log.results, log.logged_at) == ([], 10.0)
    return capsys.readouterr().out.splitlines(), recorded


def test_steps_are_reported_per_token_and_second(monkeypatch, capsys):
    results = UpdateResult(8.0, 1.0, 4.0, 3.0), UpdateResult(2.0, 5.0, 6.0, 5.0)
    ((line,), (scalars,)) = reported(results, monkeypatch, capsys)
    assert line == (
        "step 1,200/2,000  loss 1.0000  perplexity 2.718  accuracy 60.00%  1.00 steps/s  5 target tokens/s  13:20 left"
    )
    numbers = {"loss": 1.0, "accuracy": 0.6, "gradient_norm": 4.0, "learning_rate": 0.5}
    assert scalars == pytest.approx({**numbers, "steps_per_second": 1.0, "tokens_per_second": 5.0})


def test_skipped_updates_are_reported_on_a_line_of_their_own(monkeypatch, capsys):
    skipped = UpdateResult(np.nan, 0.0, 4.0, 1.0)
    results = skipped, UpdateResult(8.0, 1.0, 4.0, np.inf), UpdateResult(8.0, 1.0, 4.0, 3.0)
    (warning, line), (scalars,) = reported(results, monkeypatch, capsys)
    assert warning == "step 1,200: updates skipped, as loss or gradient was not finite: 2"
    assert line.startswith("step 1,200/2,000  loss 2.0000  ")
    assert (scalars["loss"], scalars["tokens_per_second"]) == (2.0, 2.0)
    all_skipped = ["step 1,200: updates skipped, as loss or gradient was not finite: 1"]
    assert reported([skipped], monkeypatch, capsys) == (all_skipped, [])


@pytest.mark.parametrize(
    ("pairs", "rate", "has_note"), [(29_000, 1e-4, True), (5_900_000, 1e-4, False), (29_000, 0.002, False)]
)
def test_a_small_text_with_the_papers_learning_rate_is_remarked_upon(pairs, rate, has_note):
    config = configs.from_dict({"data": {"folder": "text"}, "training": {"learning_rate": rate}})
    note = training_log.note_on_settings(config, pairs)
    assert (note is not None and "own_text/small" in note) == has_note


@pytest.mark.slow
def test_a_terminal_shows_a_progress_bar_and_training_computes_the_same(finished, tiny_config, tmp_path, monkeypatch):
    lines = lines_of(finished.parent / "output.txt")
    with terminal(monkeypatch) as output:
        assert train(tiny_config(), str(tmp_path / "terminal"), NO_STRATEGY) == 0
    assert_same_run(finished, tmp_path / "terminal")

    def comparable(lines):
        for name in (shlex.quote(str(finished)), str(finished)):
            lines = [line.replace(name, str(tmp_path / "terminal")) for line in lines]
        return [re.sub(r"\(.* s\)", "", line) for line in lines]

    without_steps = [line for line in lines if not line.startswith("step ")]
    assert len(lines) - len(without_steps) == 3
    assert comparable(output.screen) == [*comparable(without_steps), ""]
    for step in (3, 6):
        (place,) = [i for i, line in enumerate(lines) if line.startswith(f"validation at step {step}: ")]
        assert [line.split()[0] for line in lines[place + 1 : place + 4]] == ["source", "reference", "translation"]
        assert re.search(rf"\rvalidating: .* {step}/6 \[", output.getvalue())
    assert re.search(r"\r 67%.* 4/6 \[.*step.*, loss \d\.\d{4}, .* tokens/s\]", output.getvalue())


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
    monkeypatch.setattr(plots, "alignment_figure", lambda alignment: drawn.append(alignment) or draw(alignment))
    assert run.validation.draw_example().startswith(b"\x89PNG")
    ((source, target, weights, slots),) = drawn
    assert source == [*sources[index], "</s>"]
    assert target == [*translations[index].best, "</s>"]
    tokens = read_vocabulary(str(tmp_path / "data")).tokens
    ids = ([[tokens.index(token) for token in sentence]] for sentence in (source, target))
    expected = run.model.alignments(*map(tf.constant, ids))
    np.testing.assert_allclose(weights, expected[0], rtol=1e-5, atol=1e-7)
    assert slots.shape == (3, len(target), len(source))


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
    monkeypatch.setattr(training_log, "_PICTURE_SECONDS", 0.0)
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


@pytest.mark.slow
def test_pictures_are_not_drawn_at_each_validation_of_a_short_training(tiny_config, tmp_path, monkeypatch):
    monkeypatch.setattr(training_log, "_PICTURE_SECONDS", 3600.0)
    monkeypatch.setattr(validation.Validation, "draw_example", lambda _: pytest.fail("a picture takes long"))
    run = Trainer(tiny_config({"training.max_steps": 1}), str(tmp_path / "run"), NO_STRATEGY)
    run.validate()
    assert run.run.progress.validations
