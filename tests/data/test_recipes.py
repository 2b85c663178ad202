"""The recipes in data/: downloads, archives and the removal of copies, which they share; WMT'17; two of speech.

A program stands for espeak-ng, which speaks the captions.
"""

import gc
import gzip
import hashlib
import json
import os
import types

import asterisk_prompts
import multi30k
import pytest
import recipes
import spoken_captions
import web
import wmt17
from helpers.files import lines_of, tar_gz
from helpers.repository import ROOT, run_python
from helpers.texts import sentences

from memattn.data import corpus
from memattn.errors import ConfigError, DataError, RunError

SHA256 = hashlib.sha256(b"text").hexdigest()


def test_a_file_that_is_there_is_used_and_another_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"text")
    for checksum in (SHA256, f"md5:{hashlib.md5(b'text').hexdigest()}", None):  # noqa: S324
        web.fetch({"file": checksum}, "https://nowhere.invalid", str(tmp_path))
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(DataError, match=f"file: its checksum is not {SHA256}; remove it"):
        web.fetch({"file": SHA256}, "https://nowhere.invalid", str(tmp_path))
    assert (tmp_path / "file").read_bytes() == b"mine"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # pooch does not close connections
@pytest.mark.parametrize(
    ("contents", "problem"), [({"file": b"other"}, "SHA256 hash of downloaded file"), ({}, "404 Client Error")]
)
def test_a_file_that_the_server_lacks_or_has_changed_is_named(serve, tmp_path, contents, problem):
    url = serve(contents)
    expected = f"^{url}/file: {problem}.*; try again, or first put into {tmp_path} what is missing: file, other$"
    with pytest.raises(DataError, match=expected):
        web.fetch({"file": SHA256, "other": SHA256}, url, str(tmp_path))
    assert os.listdir(tmp_path) == []
    gc.collect()


@pytest.mark.parametrize(
    "content",
    [tar_gz({"../outside": b"x"}), tar_gz({"a": b"x" * 999})[:60], b"no archive"],
    ids=["outside", "truncated", "no archive"],
)
def test_an_archive_that_is_damaged_or_leads_out_of_its_folder_is_refused(tmp_path, content):
    (tmp_path / "a.tgz").write_bytes(content)
    with pytest.raises(DataError, match="a.tgz: not a complete tar archive"):
        web.extract(str(tmp_path / "a.tgz"), str(tmp_path / "inside"))
    assert os.listdir(tmp_path) == ["a.tgz"]


def test_a_source_or_a_target_of_the_test_is_in_no_other_split():
    splits = {
        "train": [("a", "1"), ("b", "2"), ("c", "3"), ("c", "4")],
        "valid": [("d", "1"), ("e", "5")],
        "test": [("a", "6"), ("f", "2"), ("f", "7")],
    }
    distinct, left_out = recipes.without_copies(splits)
    assert distinct == {"train": [("c", "3")], "valid": [("d", "1"), ("e", "5")], "test": [("a", "6"), ("f", "2")]}
    assert left_out == {"duplicates": 4, "near_copies": 0}
    assert list(distinct) == ["train", "valid", "test"]


def test_nearly_the_same_source_is_left_out_of_training_unless_only_training_has_it():
    first, second = ([f"{letter}{number}" for number in range(20)] for letter in "ab")
    near, half = [*first[:15], "x"], [*first[:10], *second[:10]]
    splits = {
        "train": [(" ".join(words), str(number)) for number, words in enumerate([near, half, second, [*second, "x"]])],
        "valid": [("c", "c")],
        "test": [(" ".join(first), "first")],
    }
    distinct, left_out = recipes.without_copies(splits)
    assert [target for _, target in distinct["train"]] == ["1", "2", "3"]
    assert left_out == {"duplicates": 0, "near_copies": 1}


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


def test_a_number_of_pairs_that_differs_from_that_of_the_paper_is_reported():
    assert wmt17.problem("en-tr", 207_373) is wmt17.problem("en-de", 5_852_458) is None
    assert "and 207,373 in the paper" in wmt17.problem("en-tr", 207_372)
    assert "and about 5,900,000 in the paper" in wmt17.problem("en-de", 5_800_000)


def test_short_prompts_with_a_recording_are_split(tmp_path):
    numbers = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    lines = [f"digits/{word}: {word.title()}." for word in numbers]
    lines += ["; a comment", "beep: [a tone]", "press: Press 1.", "none: No recording.", "again: One!"]
    with gzip.open(tmp_path / "texts.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(lines))
    (tmp_path / "sounds" / "digits").mkdir(parents=True)
    for name in (*(f"digits/{word}" for word in numbers), "beep", "press", "again"):
        (tmp_path / "sounds" / f"{name}.wav").touch()
    folder, sounds = tmp_path / "manifests", str(tmp_path / "sounds")
    asterisk_prompts.write_manifests(str(tmp_path / "texts.gz"), sounds, str(folder))
    rows = {
        split: [json.loads(line) for line in (folder / f"{split}.jsonl").read_text().splitlines()]
        for split in ("test", "valid", "train")
    }
    assert [len(rows_of_split) for rows_of_split in rows.values()] == [5, 1, 4]
    for row in (row for rows_of_split in rows.values() for row in rows_of_split):
        assert row["audio"] == str(tmp_path / "sounds" / "digits" / f"{row['text']}.wav")
    assert sorted(row["text"] for rows_of_split in rows.values() for row in rows_of_split) == sorted(numbers)
    with pytest.raises(ConfigError, match="apt-get install asterisk-core-sounds-en-wav"):
        asterisk_prompts.write_manifests(str(tmp_path / "missing.gz"), sounds, str(folder))


# Writes its arguments in place of a recording.
FAKE = """#!/bin/sh
if [ "$1" = --version ]; then echo "eSpeak NG text-to-speech: 1.5  Data at: /nowhere"; exit; fi
if [ "$2" = broken ]; then echo "no such voice" >&2; exit 1; fi
echo "$1 $2 $3 $4 $7" > "$6"
"""
CAPTIONS = {
    "train.en.gz": ["A dog runs.", "A dog runs!", "Two men eat.", "Men at a bus-stop, outside.", "A man in 2 coats."],
    "val.en.gz": ["A cat isn't here.", "A man, who is old, stands in front of a house."],
    "test_2016_flickr.en.gz": ["Two men eat.", "A red car stops"],
}


@pytest.fixture
def speak(tmp_path, monkeypatch, program):
    """speak() speaks the captions into the folder `spoken` by a program that stands for espeak-ng."""
    captions = tmp_path / "captions"
    captions.mkdir()
    for name, lines in CAPTIONS.items():
        with gzip.open(captions / name, "wt", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
    program("espeak-ng", FAKE)
    monkeypatch.setattr(multi30k, "CHECKSUMS", dict.fromkeys(CAPTIONS))
    return lambda: spoken_captions.speak(str(captions), str(tmp_path / "spoken"))


def test_a_manifest_has_text_voice_and_rate_of_each_recording(speak, tmp_path):
    manifests = speak()
    assert manifests["unheard"] == str(tmp_path / "spoken" / "unheard.jsonl")
    rows = {split: list(map(json.loads, lines_of(path))) for split, path in manifests.items()}
    assert [row["text"] for row in rows["train"]] == ["a dog runs", "men at a bus stop outside"]  # the rest is in test
    assert [row["text"] for row in rows["valid"]] == ["a cat isn't here"]
    assert [row["text"] for row in rows["test"]] == ["two men eat", "a red car stops"]
    for split, rows_of_split in rows.items():
        for row in rows_of_split:
            spoken = (tmp_path / "spoken" / row["audio"]).read_text()
            assert spoken == f"-v {row['voice']} -s {row['rate']} {row['text']}\n"
            assert 130 <= row["rate"] <= 210
            assert (row["voice"] in spoken_captions.HEARD) == (split != "unheard")
    stored = json.loads((tmp_path / "spoken" / "synthesizer.json").read_text())
    assert stored["version"] == "eSpeak NG text-to-speech: 1.5"


def test_the_split_unheard_is_prepared_beside_a_folder_that_ends_in_a_slash(monkeypatch):
    prepared = []
    monkeypatch.setattr(spoken_captions.flags, "FLAGS", types.SimpleNamespace(folder="data/espeak/"))
    monkeypatch.setattr(spoken_captions, "speak", lambda *_: {"train": "train.jsonl", "unheard": "unheard.jsonl"})
    monkeypatch.setattr(spoken_captions, "prepare_speech", lambda _, folder, *__, **___: prepared.append(folder))
    spoken_captions.main()
    assert prepared == ["data/espeak", "data/espeak.unheard"]


def test_the_split_unheard_has_the_texts_and_rates_of_test():
    texts = [f"caption {i}" for i in range(50)]
    heard, unheard = (
        spoken_captions.utterances(texts, voices, "seed") for voices in (spoken_captions.HEARD, spoken_captions.UNHEARD)
    )
    assert [(row.text, row.rate) for row in heard] == [(row.text, row.rate) for row in unheard]
    assert len({row.rate for row in heard}) > 20
    assert {row.voice for row in heard}.isdisjoint({row.voice for row in unheard})
    assert heard == spoken_captions.utterances(texts, spoken_captions.HEARD, "seed")


def test_a_missing_or_failing_synthesizer_is_named(speak, tmp_path, monkeypatch):
    with pytest.raises(RunError, match="espeak-ng with the voice broken: no such voice"):
        spoken_captions.write_split(str(tmp_path), "test", [spoken_captions.Utterance("a dog", "broken", 150)])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="espeak-ng is missing; install it: apt-get install espeak-ng"):
        speak()
