"""Files that may hold anything are read safely: damaged files are refused with a message of a single line."""

import json

import pytest

from memattn import reading
from memattn.data import tokenizer as tokenizers
from memattn.data.text_files import read_lines
from memattn.errors import DataError

# id: (content, types of keys, what the message holds)
BAD_JSON = {
    "empty": ("", {}, "not JSON: Expecting value"),
    "cut off": ('{"a": [1, 2', {}, "not JSON: Expecting ',' delimiter"),
    "no such key": ("{}", {"a": int}, "a is missing"),
    "another type": ('{"a": {"b": 1}}', {"a": str}, "a: expected str, not {'b': 1}"),
    "bool for an int": ('{"a": true}', {"a": int}, "a: expected int, not True"),
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
    content = {"a": 1, "b": [2], "c": {"d": "e"}, "g": "\u00e9"}
    (tmp_path / "facts.json").write_text(json.dumps(content))
    kinds = {"a": int, "b": list, ("c", "d"): str}
    assert reading.json_file(str(tmp_path / "facts.json"), kinds) == content


@pytest.mark.parametrize("content", [b"a b\r\nc\r\n", b"a b\r\nc\r", b"a b\nc"])
def test_other_line_ends_are_read(content, tmp_path):
    (tmp_path / "text").write_bytes(content)
    assert read_lines(str(tmp_path / "text")) == ["a b", "c"]


def test_bad_settings_of_a_text_are_refused(tmp_path):
    (tmp_path / "text.json").write_text('{"form": "raw", "source_language": {"a": 1}, "target_language": "de"}')
    (tmp_path / "bpe.codes").write_text("#version: 0.2\na b\n")
    with pytest.raises(DataError, match="text.json: source_language: expected str, not"):
        tokenizers.read(str(tmp_path))
