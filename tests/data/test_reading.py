"""Files that may hold anything are read safely: damaged files are refused with a message of a single line."""

import gzip
import json
import os

import numpy as np
import pytest

from memattn import files, reading
from memattn.data import tokenizer as tokenizers
from memattn.data.preparation import chunks
from memattn.data.preparation.appender import Appender
from memattn.data.text_files import read_lines
from memattn.errors import DataError
from memattn.sweeps import runner

DEEP = "[" * 100_000 + "]" * 100_000

# id: (content, types of keys, what the message holds)
BAD_JSON = {
    "empty": ("", {}, "not JSON: Expecting value"),
    "cut off": ('{"a": [1, 2', {}, "not JSON: Expecting ',' delimiter"),
    "nested 100,000 deep": (DEEP, {}, "nested deeper than 100 levels"),
    "nested 200 deep": ('{"a":' * 200 + "1" + "}" * 200, {}, "nested deeper than 100 levels"),
    "number without end": ("9" * 5_000, {}, "not JSON: Exceeds the limit"),
    "half of a surrogate pair": ('{"a": "\\ud800"}', {}, "half of a surrogate pair: "),
    "list": ("[1]", {"a": int}, "expected a mapping, not [1]"),
    "no such key": ("{}", {"a": int}, "a is missing"),
    "another type": ('{"a": {"b": 1}}', {"a": str}, "a: expected str, not {'b': 1}"),
    "bool for an int": ('{"a": true}', {"a": int}, "a: expected int, not True"),
    "none of two types": ('{"a": []}', {"a": (int, type(None))}, "a: expected int or null, not []"),
    "another type below": ('{"a": {"b": 1}}', {("a", "b", "c"): str}, "a.b: expected a mapping, not 1"),
    "no such key below": ('{"a": {"b": {}}}', {("a", "b", "c"): str}, "a.b: c is missing"),
    "long value": (json.dumps({"a": "x" * 10_000}), {"a": int}, f"a: expected int, not '{'x' * 75} ..."),
}


@pytest.mark.parametrize("name", BAD_JSON)
def test_bad_json_is_refused_with_its_path(name, tmp_path):
    content, kinds, message = BAD_JSON[name]
    path = tmp_path / "facts.json"
    path.write_text(content)
    with pytest.raises(DataError) as refused:
        reading.json_file(str(path), kinds)
    assert str(refused.value).startswith(f"{path}: {message}")
    assert len(str(refused.value)) < 300
    assert "\n" not in str(refused.value)


def test_json_with_the_right_types_is_read(tmp_path):
    content = {"a": 1, "b": 2, "c": {"d": "e"}, "f": None, "g": "\u00e9"}
    (tmp_path / "facts.json").write_text(json.dumps(content))
    kinds = {"a": int, "b": float, ("c", "d"): str, "f": (int, type(None))}
    assert reading.json_file(str(tmp_path / "facts.json"), kinds) == content


def test_a_text_that_is_too_large_is_refused(tmp_path):
    path = str(tmp_path / "config.yaml")
    files.write(path, "a" * 100)
    assert reading.text(path, 100) == "a" * 100
    with pytest.raises(DataError, match="config.yaml: larger than 99 bytes"):
        reading.text(path, 99)


READERS = {
    "lines": read_lines,
    "lines of preparation": chunks.count_lines,
    "checksum": files.checksum,
    "settings": reading.text,
    "JSON": reading.json_file,
    "array": lambda path: reading.array(path, 1, "iu"),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["device", "link to a device", "pipe", "folder"])
def test_only_regular_files_are_read(name, kind, tmp_path):
    path = "/dev/zero" if kind == "device" else str(tmp_path / "odd")
    if kind == "link to a device":
        os.symlink("/dev/zero", path)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        os.mkdir(path)
    with pytest.raises((OSError, DataError), match="[Ii]s a directory" if kind == "folder" else "not a regular file"):
        READERS[name](path)


WRITERS = {
    "an array": lambda path: Appender(path, np.int32),
    "an array that grows": lambda path: Appender(path, np.int32, 1),
    "a log": lambda path: runner.command("this", "run", os.path.dirname(path), [], runner.Processes()),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("kind", ["link to a device", "pipe", "folder"])
def test_only_regular_files_are_written_in_place(name, kind, tmp_path):
    path = str(tmp_path / runner.LOG)
    if kind == "link to a device":
        os.symlink("/dev/full", path)
    else:
        (os.mkfifo if kind == "pipe" else os.mkdir)(path)
    with pytest.raises(OSError, match="[Ii]s a directory" if kind == "folder" else "not a regular file"):
        WRITERS[name](path)


def test_a_pipe_is_read_where_pipes_are_allowed(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    assert read_lines(path, pipes=True) == []  # nobody writes into it
    reading_end, writing_end = os.pipe()
    with os.fdopen(writing_end, "wb") as file:
        file.write(b"a b\nc\n")
    try:
        assert read_lines(f"/dev/fd/{reading_end}", pipes=True) == ["a b", "c"]
    finally:
        os.close(reading_end)
    with pytest.raises(DataError, match="/dev/zero: not a regular file"):
        read_lines("/dev/zero", pipes=True)


@pytest.mark.parametrize("name", ["long.txt", "bomb.gz"])
def test_a_line_that_is_too_long_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LONGEST_LINE", 1 << 16)
    path = str(tmp_path / name)
    with gzip.open(path, "wb") if name.endswith("gz") else open(path, "wb") as file:
        file.write(b"short\n" + b"x" * ((1 << 16) + 1))
    with pytest.raises(DataError) as refused:
        read_lines(path)
    assert str(refused.value) == f"{path}:2: a line of more than 65,536 bytes"
    files.write(path, b"short\n" + b"x" * ((1 << 16) - 1) + b"\n")
    if not name.endswith("gz"):
        assert len(read_lines(path)[1]) == (1 << 16) - 1


@pytest.mark.parametrize("ending", ["txt", "gz"])
def test_line_ends_of_old_macs_are_refused(ending, tmp_path):
    path = str(tmp_path / f"mac.{ending}")
    with gzip.open(path, "wb") if ending == "gz" else open(path, "wb") as file:
        file.write(b"a b\rc\rd\r")
    message = r"mac.*:1: lines end with a carriage return alone, as on old Macs; convert: tr '\\r' '\\n'"
    with pytest.raises(DataError, match=message):
        read_lines(path)
    with pytest.raises(DataError, match=message):
        chunks.count_lines(path)


@pytest.mark.parametrize("content", [b"a b\r\nc\r\n", b"a b\r\nc\r", b"a b\nc"])
def test_other_line_ends_are_read(content, tmp_path):
    (tmp_path / "text").write_bytes(content)
    assert read_lines(str(tmp_path / "text")) == ["a b", "c"]


CODES = "#version: 0.2\na b\n"
# id: (text.json, bpe.codes, what the message holds)
BAD_TEXTS = {
    "language of another type": (
        '{"form": "raw", "source_language": {"a": 1}, "target_language": "de"}',
        CODES,
        "text.json: source_language: expected str, not {'a': 1}",
    ),
    "nested deep": (DEEP, CODES, "text.json: nested deeper than 100 levels"),
    "a key too many": (
        '{"form": "raw", "source_language": "en", "target_language": "de", "x": 1}',
        CODES,
        "text.json: 'x' is no setting of a text",
    ),
    "another form": (
        '{"form": "cooked", "source_language": "en", "target_language": "de"}',
        CODES,
        "text.json: form: 'cooked' is none of raw, tokenized, truecased, untokenized",
    ),
    "no text.json": (None, CODES, "text.json: unreadable (No such file or directory)"),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_bad_settings_of_a_text_are_refused(name, tmp_path):
    settings, codes, message = BAD_TEXTS[name]
    if settings is not None:
        (tmp_path / "text.json").write_text(settings)
    (tmp_path / "bpe.codes").write_text(codes)
    with pytest.raises(DataError) as refused:
        tokenizers.read(str(tmp_path))
    assert str(refused.value) == f"{tmp_path}/{message}"
