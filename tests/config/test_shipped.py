"""Configs that come with memattn, by name."""

import pytest

from memattn import config as configs
from memattn import shipped
from memattn.errors import ConfigError


def test_a_base_may_be_a_shipped_config(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("base: own_text/small\ndata: {folder: mine}\n")
    assert configs.load(str(path), []) == configs.load("own_text/small", ["data.folder=mine"])


def test_a_file_beside_a_config_comes_before_a_shipped_config_of_its_name(tmp_path):
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "small").write_text("data: {folder: here}\n")
    path = tmp_path / "mine.yaml"
    path.write_text("base: copy/small\n")
    assert configs.load(str(path), []).data.folder == "here"


def test_another_package_may_have_a_folder_of_configs(tmp_path, monkeypatch):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/theirs.yaml").touch()
    monkeypatch.setattr(shipped, "_FOLDERS", (tmp_path / "configs", *shipped._FOLDERS))
    assert "copy/demo" in shipped.names() and "theirs" not in shipped.names()
    assert shipped.path_of("theirs") is None


def test_the_nearest_shipped_config_is_proposed(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("base: own_text/smal\n")
    for name in ("own_text/smal", str(path)):
        with pytest.raises(ConfigError, match=r"; did you mean own_text/small\?$"):
            configs.load(name, [])
