"""The recipe of WMT'17, from a local server in place of the release's."""

import gzip
import json

import pytest
import wmt17
from helpers.files import lines_of, tar_gz
from helpers.repository import ROOT, run_python
from helpers.texts import sentences

from memattn.data import corpus
from memattn.errors import DataError

ENGLISH, FOREIGN = (sentences(600, seed) for seed in (1, 2))


def text(lines):
    return "".join(f"{line}\n" for line in lines).encode()


def release(language):
    """Files of a language pair by path: 500 training pairs, of which one is empty, 50 validation and 50 test pairs."""
    dev = {}
    for name, start in ((wmt17.VALIDATION[f"en-{language}"], 500), ("newstest2016", 550)):
        dev[f"dev/{name}.tc.en"] = text(ENGLISH[start : start + 50])
        dev[f"dev/{name}.tc.{language}"] = text(FOREIGN[start : start + 50])
    folder = f"{language}-en"
    return {
        f"{folder}/corpus.tc.en.gz": gzip.compress(text([*ENGLISH[:249], "", *ENGLISH[250:500]])),
        f"{folder}/corpus.tc.{language}.gz": gzip.compress(text(FOREIGN[:500])),
        f"{folder}/dev.tgz": tar_gz(dev),
    }


@pytest.mark.slow
def test_a_language_pair_is_downloaded_and_prepared(serve, tmp_path):
    folder = "data/wmt17.en-tr"
    flags = ["--pair", "en-tr", "--base_url", serve(release("tr")), "--bpe_units", "100", "--workers", "1"]
    result = run_python(ROOT / "data/wmt17.py", *flags, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "499 training pairs of 500 (1 empty and 0 of more than 200 units dropped)" in result.stdout
    advice = f"to train on it: memattn-train --config wmt17/en-tr --set data.folder={folder} --run_dir "
    assert result.stdout.splitlines()[-1] == f"{advice}runs/wmt17.en-tr"
    assert result.stderr.startswith("warning: en-tr has 500 training pairs, and 207,373 in the paper: ")
    assert len(lines_of(tmp_path / folder / "test.reference")) == 50
    manifest = json.loads((tmp_path / folder / corpus.MANIFEST).read_text())
    assert manifest["settings"]["text"]["form"] == "truecased"
    assert manifest["sources"]["train"][0]["path"] == "data/downloads/wmt17/tr-en/corpus.tc.en.gz"


@pytest.mark.parametrize("names", [["dev/x"], ["a/newstest2015.tc.en", "b/newstest2015.tc.en"]])
def test_a_file_of_the_archive_that_is_missing_or_there_twice_is_named(serve, tmp_path, names):
    url = serve({**release("de"), "de-en/dev.tgz": tar_gz(dict.fromkeys(names, b"a\n"))})
    with pytest.raises(DataError, match="de-en/dev: holds [02] files newstest2015.tc.en, not one"):
        wmt17.fetch("en-de", url, str(tmp_path))


def test_a_number_of_pairs_unlike_the_papers_is_reported():
    assert wmt17.problem("en-tr", 207_373) is wmt17.problem("en-de", 5_852_458) is None
    assert "and 207,373 in the paper" in wmt17.problem("en-tr", 207_372)
    assert "and about 5,900,000 in the paper" in wmt17.problem("en-de", 5_800_000)
