"""A mechanism outside the package can be trained, evaluated, exported and tested for conformance."""

import json
import os

import pytest
from helpers import outside_mechanism as outside
from helpers.repository import run_command

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
    result = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert result["config"]["model"]["attention"]["sharpness"] == 0.5
    assert (tmp_path / "exported" / "saved_model.pb").exists()
    status, _, errors = command(tmp_path / "data", "memattn.eval", "--run_dir", "../run", "--split", "valid")
    assert status == 2
    assert "outside_package.looks:Uniform: module outside_package.looks cannot be imported" in errors


def test_the_conformance_tests_run_on_an_outside_mechanism(tmp_path):
    outside.write(tmp_path)
    conformance = "tests/attention/test_conformance.py"
    arguments = ["-n", "0", "-q", "-p", "no:cacheprovider", conformance, "-k", "from_its_config or greedy"]
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    arguments += ["--mechanism", "outside_package.looks:Uniform"]
    result = run_command("pytest", *arguments, env={**os.environ, "PYTHONPATH": path})
    assert result.returncode == 0, result.stdout
    assert "2 passed" in result.stdout
