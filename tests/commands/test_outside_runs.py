"""A mechanism outside the package can be trained, evaluated and exported."""

import json

import pytest
from helpers import outside_mechanism as outside

pytestmark = pytest.mark.slow


def test_commands_find_an_outside_mechanism_in_the_working_directory_alone(command, write_config, tmp_path):
    outside.write(tmp_path)
    path = write_config({"model.attention": {"name": "outside_package.looks:Uniform", "sharpness": 0.5}})
    for module, *arguments in (
        ("memattn.train", "--config", path),
        ("memattn.eval", "--split", "valid"),
        ("memattn.export", "--output", "exported"),
    ):
        status, _, errors = command(tmp_path, module, "--run_dir", "run", *arguments)
        assert status == 0, errors
    result = json.loads((tmp_path / "run/eval/valid/result.json").read_text(encoding="utf-8"))
    assert result["config"]["model"]["attention"]["sharpness"] == 0.5
    assert (tmp_path / "exported" / "saved_model.pb").exists()
    status, _, errors = command(tmp_path / "data", "memattn.eval", "--run_dir", "../run", "--split", "valid")
    assert status == 2
    assert "outside_package.looks:Uniform: module outside_package.looks cannot be imported" in errors
