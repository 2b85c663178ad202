"""The script that packs a trained run as a small archive."""

import math
import tarfile

import numpy as np
import pytest
from helpers.runs import NO_STRATEGY, evaluate

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
    status, printed, errors = command(tmp_path, "scripts.pack_model", *arguments)
    assert status == 0, errors
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
def test_what_cannot_be_packed_is_named_in_one_line(tmp_path, command, arguments, message):
    assert command(tmp_path, "scripts.pack_model", *arguments) == [2, "", f"error: {message}\n"]
    assert not list(tmp_path.iterdir())
