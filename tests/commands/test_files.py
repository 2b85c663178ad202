"""Files that may hold anything are read safely, and get any name that the file system takes.

Folders that cannot be written are refused before the work.
"""

import os

import pytest

from memattn import files
from memattn.errors import DataError

UNWRITABLE = "/proc"  # even for root


@pytest.mark.parametrize(
    ("content", "kinds", "message"),
    [
        ('{"a": [1, 2', {}, "not JSON: Expecting ',' delimiter"),
        ('{"a": {}}', {"b": int}, "b is missing"),
        ("[1]", {"b": int}, "b is missing"),
        (f'{{"a": "{"x" * 10_000}"}}', {"a": int}, f"a: expected int, not '{'x' * 75} ..."),
    ],
    ids=["cut off", "no such key", "no mapping", "another type"],
)
def test_bad_json_is_refused_with_its_path(content, kinds, message, tmp_path):
    path = tmp_path / "facts.json"
    path.write_text(content)
    with pytest.raises(DataError) as refused:
        files.read_json(str(path), kinds)
    assert str(refused.value).startswith(f"{path}: {message}")
    assert len(str(refused.value)) < 300
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["a", f"{'ü' * 127}a"])
def test_a_file_may_have_a_name_of_any_length(tmp_path, name):
    path = tmp_path / name
    for content in ("first", "second"):
        files.write(str(path), content)
        assert path.read_text() == content
    assert os.listdir(tmp_path) == [name]


def test_a_folder_is_made_or_refused_if_no_file_can_be_written_into_it(tmp_path, monkeypatch):
    files.make_folder(str(tmp_path / "a" / "b"))
    monkeypatch.chdir(tmp_path)
    files.make_folder("")
    assert [len(names) for _, *names in os.walk(tmp_path)] == [2, 2, 2]
    assert os.listdir(tmp_path / "a") == ["b"]
    assert not os.listdir(tmp_path / "a" / "b")
    (tmp_path / "file").touch()
    for path in (UNWRITABLE, f"{UNWRITABLE}/new", str(tmp_path / "file")):
        with pytest.raises(OSError) as caught:
            files.make_folder(path)
        assert caught.value.filename == path
