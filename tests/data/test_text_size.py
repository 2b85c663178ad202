"""Choices by the number of training pairs: the BPE units that preparation learns, and the config that it names."""

import gzip
import json
import subprocess
import sys

import pytest

from memattn import config as configs
from memattn.data import corpus
from memattn.data.preparation import advice
from memattn.data.preparation.learning import default_units


@pytest.mark.parametrize(
    ("pairs", "units"),
    [
        (0, 4_000),
        (29_000, 4_000),
        (99_999, 4_000),
        (100_000, 8_000),
        (999_999, 8_000),
        (1_000_000, 16_000),
        (52_000_000, 16_000),
    ],
)
def test_more_text_has_more_bpe_units(pairs, units):
    assert default_units(pairs) == units


@pytest.mark.parametrize(("pairs", "name"), [(1, "small"), (200_000, "small"), (200_001, "base"), (10**8, "base")])
def test_more_text_has_a_larger_config(pairs, name):
    assert advice.own_text_config(pairs) == f"own_text/{name}"
    assert configs.load(f"own_text/{name}", []).data.folder


@pytest.mark.parametrize(("pairs", "steps"), [(1, None), (29_000, None), (200_000, 3_125), (10**8, None)])
def test_a_validation_of_a_larger_text_comes_once_an_epoch(pairs, steps):
    changes = advice.validation_changes(advice.own_text_config(pairs), pairs)
    assert changes == ([f"training.validate_every={steps}", f"training.checkpoint_every={steps}"] if steps else [])


def test_the_choice_does_not_import_tensorflow():
    code = "from memattn.data.preparation import advice; advice.validation_changes('own_text/small', 200_000)"
    code += "; import sys; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("pairs", "options", "units", "printed"),
    [
        (40, [], 4_000, ", 4,000 BPE units\n"),
        pytest.param(100_000, ["--form=untokenized"], 8_000, ", 8,000 BPE units\n", marks=pytest.mark.slow),
        (40, ["--bpe_units=30"], 30, ", 30 BPE units\n"),
        (40, ["--vocabulary_of=here"], None, " target tokens\n"),
    ],
)
def test_units_are_chosen_by_the_training_pairs_unless_they_are_given(
    command, tmp_path, pairs, options, units, printed
):
    for language in ("en", "de"):
        for split, number in (("train", pairs), ("valid", 40)):
            with gzip.open(tmp_path / f"{split}.{language}.gz", "wt", encoding="utf-8") as file:
                file.writelines(f"haus {line % 10}\n" for line in range(number))
    arguments = ["memattn.prepare", "parallel", "--train=train", "--valid=valid", "--source=en", "--target=de"]
    arguments.append("--workers=1")
    if units is None:
        command(tmp_path, *arguments, "--folder=here")
    status, stdout, stderr = command(tmp_path, *arguments, "--folder=out", *options)
    assert status == 0, stderr
    assert printed in stdout
    assert "memattn-train --config own_text/small " in stdout
    manifest = json.loads((tmp_path / "out" / corpus.MANIFEST).read_text())
    assert manifest["settings"]["bpe_units"] == units
