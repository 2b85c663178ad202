"""Configs are printed with every key's description, and shipped configs are found by name."""

import re

import pytest
import yaml
from helpers.repository import ROOT

from memattn import config as configs
from memattn import shipped
from memattn.config.commented import commented
from memattn.errors import ConfigError


@pytest.mark.parametrize("name", ["multi30k/seeds", "copy/demo", "studies/addition/small"])
def test_a_printed_config_loads_as_the_same_config(name, tmp_path):
    config = configs.load(name, ["decoding.max_length=9"])
    path = tmp_path / "printed.yaml"
    path.write_text(commented(config), encoding="utf-8")
    assert configs.load(str(path), []) == config


def test_every_printed_value_has_its_description_above():
    config = configs.load("copy/small", ["data.copy=null", "data.folder=x", "decoding.sample={}"])
    lines = commented(config).splitlines()
    values = [number for number, line in enumerate(lines) if re.search(r"^ +[a-z_]+: .", line)]
    assert len(values) > 70
    for number in values:
        assert lines[number - 1].strip().startswith("# "), lines[number]
    assert "    # K, the number of slots." in lines
    assert max(map(len, lines)) <= 120


@pytest.mark.slow
def test_the_command_prints_the_config_with_its_overrides_and_trains_nothing(command, tmp_path):
    arguments = ["--config", "copy/small", "--set", "model.units=64", "--print_config"]
    result = command(tmp_path, "memattn.train", *arguments)
    assert result.stderr == ""
    assert yaml.safe_load(result.stdout)["model"]["units"] == 64
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_preferred_to_a_shipped_config_of_the_same_name(tmp_path, monkeypatch):
    assert configs.load("copy/small", []) == configs.load(str(ROOT / "configs/copy/small.yaml"), [])
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "small").write_text("{data: {folder: mine}}", encoding="utf-8")
    for path, base in ((tmp_path / "beside.yaml", "copy/small"), (tmp_path / "shipped.yaml", "own_text/small")):
        path.write_text(f"base: {base}\n")
    assert configs.load(str(tmp_path / "beside.yaml"), []).data.folder == "mine"
    from_shipped = configs.load(str(tmp_path / "shipped.yaml"), ["data.folder=mine"])
    assert from_shipped == configs.load("own_text/small", ["data.folder=mine"])
    monkeypatch.chdir(tmp_path)
    assert configs.load("copy/small", []).data.folder == "mine"


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
