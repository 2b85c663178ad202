"""Files that may hold anything are read safely: damaged files are refused with a message of a single line."""

import json

import pytest

from memattn import files
from memattn.errors import DataError

# id: (content, types of keys, what the message holds)
BAD_JSON = {
    "cut off": ('{"a": [1, 2', {}, "not JSON: Expecting ',' delimiter"),
    "no such key": ('{"a": {}}', {"b": int}, "b is missing"),
    "no mapping": ("[1]", {"b": int}, "b is missing"),
    "another type": ('{"a": {"b": 1}}', {"a": str}, "a: expected str, not {'b': 1}"),
    "long value": (json.dumps({"a": "x" * 10_000}), {"a": int}, f"a: expected int, not '{'x' * 75} ..."),
}


@pytest.mark.parametrize("name", BAD_JSON)
def test_bad_json_is_refused_with_its_path(name, tmp_path):
    content, kinds, message = BAD_JSON[name]
    path = tmp_path / "facts.json"
    path.write_text(content)
    with pytest.raises(DataError) as refused:
        files.read_json(str(path), kinds)
    assert str(refused.value).startswith(f"{path}: {message}")
    assert len(str(refused.value)) < 300
    assert "\n" not in str(refused.value)


def test_json_with_the_right_types_is_read(tmp_path):
    content = {"a": 1, "b": [2], "c": {"d": "e"}, "g": "\u00e9"}
    (tmp_path / "facts.json").write_text(json.dumps(content))
    kinds = {"a": int, "b": list, "c": dict}
    assert files.read_json(str(tmp_path / "facts.json"), kinds) == content
