"""The recipes of speech: prompts of Asterisk, and captions spoken by espeak-ng or by a program that stands for it."""

import gzip
import json

import asterisk_prompts
import multi30k
import pytest
import spoken_captions
from helpers.files import lines_of

from memattn.errors import ConfigError, RunError


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
