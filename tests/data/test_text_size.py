"""Choices by the number of training pairs: the BPE units that preparation learns, and the config that it names."""

import json
import re

import pytest

from memattn.data import corpus
from memattn.data.preparation import advice


def test_more_text_has_more_bpe_units_and_a_larger_config_if_there_is_a_gpu():
    pairs = [0, 99_999, 100_000, 200_001, 1_000_000]
    assert list(map(advice.default_units, pairs)) == [4_000, 4_000, 8_000, 8_000, 16_000]
    names = [advice.own_text_config(number, gpu=True) for number in pairs]
    assert names == ["own_text/small"] * 3 + ["own_text/base"] * 2
    assert advice.own_text_config(10**8, gpu=False) == "own_text/small"


def test_the_time_of_training_is_estimated_from_the_tokens_of_its_steps():
    """tests/docs/test_docs.py compares the times of larger texts with those of the tutorial."""
    line = advice.training_time("own_text/small", 40, 80, None)
    assert line == "training takes at most about 0.2 hours of one CPU core, less if BLEU stops rising"
    assert advice.training_time("own_text/small", 300_000, 80, None).endswith("; for a GPU, take own_text/base")
    assert advice.training_time("own_text/base", 300_000, 80, None) is None


@pytest.mark.parametrize(
    ("config", "pairs", "steps"),
    [("small", 29_000, None), ("small", 200_000, 3_125), ("small", 10**8, 4_000), ("base", 10**8, None)],
)
def test_a_validation_of_a_larger_text_comes_once_an_epoch_or_five_times(config, pairs, steps):
    changes = advice.validation_changes(f"own_text/{config}", pairs)
    assert changes == ([f"training.validate_every={steps}", f"training.checkpoint_every={steps}"] if steps else [])


@pytest.mark.slow
def test_units_are_chosen_by_the_training_pairs_unless_another_corpus_gives_them(command, tmp_path):
    for split in ("train", "valid"):
        for language in ("en", "de"):
            (tmp_path / f"{split}.{language}").write_text("".join(f"haus {line % 10}\n" for line in range(40)))
    arguments = ["--train=train", "--valid=valid", "--source=en", "--target=de", "--workers=1"]
    for name, options, units in (("first", [], 4_000), ("second", ["--vocabulary_of=first"], None)):
        flags = [*arguments, f"--folder={name}", *options]
        stdout = command(tmp_path, "memattn.prepare", "parallel", *flags).stdout
        assert (", at most 4,000 BPE units\n" in stdout) == (units is not None)
        advice = r"training takes at most about .* hours .*\nto train on it: memattn-train --config own_text/small "
        assert re.search(advice, stdout)
        manifest = json.loads((tmp_path / name / corpus.MANIFEST).read_text())
        assert manifest["settings"]["bpe_units"] == units
