"""Prompts of Asterisk become manifests."""

import gzip
import json

import asterisk_prompts
import pytest

from memattn.errors import ConfigError


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
