"""Scripts for run folders: one packs a run as a small archive, one converts configs of versions up to 0.3."""

import math
import tarfile

import numpy as np
import pytest
import yaml
from convert_old_runs import convert, main
from helpers.runs import NO_STRATEGY, evaluate
from studies.mechanisms import MEMORY_VARIANT, NESTED_MEMORY

from memattn import config as configs
from memattn.errors import ConfigError
from memattn.plain_values import Loader
from memattn.runs.trained import load
from memattn.training.trainer import train


@pytest.mark.long
def test_an_unpacked_archive_is_a_run_with_the_scores_of_its_card_and_rounded_weights(
    tiny_config, tmp_path, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lexicon.tsv").write_text("1\t1\n")
    lexicon = {"decoding.lexicon": "lexicon.tsv"}  # which the archive leaves out
    assert train(tiny_config({"training.max_steps": 60, **lexicon}), "run", NO_STRATEGY) == 0
    arguments = ["--run_dir=run", "--output=packed/small.tar.xz", "--split=valid"]
    printed = command(tmp_path, "scripts.pack_model", *arguments).stdout
    with tarfile.open("packed/small.tar.xz") as archive:
        assert {member.uname for member in archive} == {""}
        archive.extractall(".", filter="data")
    (tmp_path / "lexicon.tsv").unlink()
    card = (tmp_path / "small/model_card.md").read_text(encoding="utf-8")
    bleu = evaluate("small")["bleu"]
    assert f": {bleu:.2f}\n" in card
    assert f"BLEU {bleu:.2f} on valid" in printed
    assert "memattn-translate --run_dir small" in card
    without_lexicon = ["decoding.lexicon=null"]
    for packed, trained in zip(
        load(["small"], [], None).model.weights, load(["run"], without_lexicon, None).model.weights, strict=True
    ):
        packed, trained = np.asarray(packed), np.asarray(trained)
        step = 2.0 ** math.ceil(math.log2(np.abs(trained).max() / 127)) if trained.any() else 1.0
        np.testing.assert_array_equal(packed / step, np.round(packed / step))
        np.testing.assert_allclose(packed, trained, atol=step / 2)
        assert np.abs(packed / step).max() <= 127


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--run_dir=nowhere", "--output=small.tar.gz"], "--output: small.tar.gz does not end in NAME.tar.xz"),
        (["--run_dir=nowhere", "--output=small.tar.xz"], "nowhere: no such folder; memattn-train makes run folders"),
    ],
)
@pytest.mark.slow
def test_a_wrong_name_or_run_is_reported_in_one_line(tmp_path, command, arguments, message):
    result = command(tmp_path, "scripts.pack_model", *arguments, may_fail=True)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"error: {message}\n")
    assert not list(tmp_path.iterdir())


# `model.attention` as version 0.2 wrote it into a run folder, with all default values.
FORMER = {"name": "memory", "num_slots": 4, "encoder_scoring": "softmax", "decoder_scoring": "softmax"}
FORMER |= {"encoder_normalize": "none", "vote_scale": 1.0, "read": "address", "read_units": 64, "nested": False}
FORMER |= {"position_windows": False, "position_encoding": False, "renormalize": "sum"}
OVER_TIME = {"encoder_scoring": "softmax_time", "position_windows": True}


def converted(**changes):
    tree = {"data": {"copy": {}}, "model": {"attention": FORMER}, "training": {}, **changes}
    return configs.from_dict(convert(tree))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"position_encoding": True, "renormalize": "mean"}, {"name": "memory", "position_encoding": True}),
        ({"read_units": 128}, {"name": "memory"}),  # without additive reading it has no effect
        ({"nested": True, "decoder_scoring": "sigmoid"}, {"name": NESTED_MEMORY, "decoder_scoring": "sigmoid"}),
        (OVER_TIME, {"name": "windowed_memory", "read": "address"}),
        ({**OVER_TIME, "read": "additive"}, {"name": "windowed_memory", "read": "additive", "read_units": 64}),
        ({"encoder_scoring": "softmax_time"}, {"name": MEMORY_VARIANT, "encoder_scoring": "softmax_time"}),
        ({**OVER_TIME, "vote_scale": 2.0}, {"name": MEMORY_VARIANT, "vote_scale": 2.0, "position_windows": True}),
        ({"read": "additive"}, {"name": MEMORY_VARIANT, "read": "additive", "read_units": 64}),
    ],
    ids=str,
)
def test_former_options_of_memory_become_the_mechanism_that_has_them_now(changes, expected):
    attention = converted(model={"attention": {**FORMER, **changes}}).model.attention
    assert {name: attention[name] for name in expected} == expected


@pytest.mark.parametrize("changes", [{"read": "additive"}, {"encoder_scoring": "softmax_time"}], ids=str)
def test_a_former_memory_that_no_mechanism_is_now_stays_as_it_is(changes, tmp_path):
    path, attention = tmp_path / "config.yaml", {**FORMER, **changes, "position_encoding": True}
    text = yaml.safe_dump({"data": {}, "model": {"attention": attention}, "training": {}})
    path.write_text(text)
    with pytest.raises(ConfigError, match=f"^{path}: model.attention: no mechanism has position_encoding beside "):
        main(str(tmp_path))
    assert path.read_text() == text


def test_keys_of_other_kinds_of_models_go_and_stop_at_bleu_becomes_stop_at():
    model = {"kind": "extended", "bridge": "auto", "mix": True, "attention": {"name": "none"}, "width": 4}
    config = converted(model=model, training={"stop_at_bleu": 99.5, "stop_at": None})
    assert (config.model.kind, config.training.stop_at) == ("extended", 99.5)
    assert converted(decoding={"beam_size": 3, "num_slots": None}).decoding.beam_size == 3
    assert converted(model={"width": 4, "cell": "cgru", "attention": FORMER}).model.kind == "seq2seq"


@pytest.mark.parametrize(("former", "name"), [("nested_memory", NESTED_MEMORY), ("memory_variant", MEMORY_VARIANT)])
def test_mechanisms_that_moved_to_the_studies_have_their_references(former, name):
    attention = {"name": former, "num_slots": 4, "encoder_scoring": "softmax"}
    assert converted(model={"attention": attention}).model.attention["name"] == name


def test_a_folder_whose_name_looks_like_a_number_stays_a_str(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("data: {folder: '1e5'}\ntraining: {stop_at_bleu: 99}\n")
    main(str(tmp_path))
    assert yaml.load(path.read_text(), Loader) == {"data": {"folder": "1e5"}, "training": {"stop_at": 99}}
