"""The wheel: what it holds, and that its commands work where there is no clone."""

import ast
import configparser
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from helpers.repository import COMMANDS, ROOT
from helpers.runs import TINY

import memattn

pytestmark = pytest.mark.slow


def run(*command, folder, **variables):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, which has no leftovers of other builds."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "memattn", source / "memattn", ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", built]
    run(sys.executable, "-m", "pip", "wheel", *options, source, folder=source)
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The wheel in a folder of its own: run(command, arguments...) runs one of its commands in an empty folder."""
    target, empty = tmp_path_factory.mktemp("target"), tmp_path_factory.mktemp("empty")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, wheel]
    run(*pip, folder=empty)

    def command(name, *arguments):
        return run(target / "bin" / name, *arguments, folder=empty, PYTHONPATH=str(target))

    return empty, command, target


def test_the_wheel_holds_the_package(wheel):
    package = ROOT / "memattn"
    paths = [path.relative_to(ROOT) for path in package.rglob("*.py")]
    expected = {path.as_posix() for path in paths} | {"memattn/py.typed"}
    with zipfile.ZipFile(wheel) as file:
        names = {name for name in file.namelist() if ".dist-info/" not in name}
    assert names == expected
    assert wheel.name == f"memattn-{memattn.__version__}-py3-none-any.whl"


def test_the_wheel_requires_all_that_it_imports(wheel):
    distributions = importlib.metadata.packages_distributions()
    with zipfile.ZipFile(wheel) as file:
        texts = {name: file.read(name).decode("utf-8") for name in file.namelist()}
    (metadata,) = [text for name, text in texts.items() if name.endswith("METADATA")]
    required = {name.lower() for name in re.findall(r"^Requires-Dist: ([\w-]+)", metadata, flags=re.MULTILINE)}
    for path, text in texts.items():
        if not path.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            for top in {name.split(".")[0] for name in names} - {"memattn", *sys.stdlib_module_names}:
                found = {name.lower() for name in distributions.get(top, [top.replace("_", "-")])}
                assert found & required, (path, top)


def test_every_module_of_the_wheel_can_be_imported(wheel, tmp_path):
    code = (
        "import importlib, pkgutil, memattn\n"
        "for module in pkgutil.walk_packages(memattn.__path__, 'memattn.'):\n"
        "    if module.name != 'memattn.attention.addons':  # needs the extra\n"
        "        importlib.import_module(module.name)\n"
        "print(memattn.__file__)"
    )
    done = run(sys.executable, "-c", code, folder=tmp_path, PYTHONPATH=str(wheel))
    assert done.stdout.startswith(str(wheel))


def test_the_commands_of_the_wheel_are_those_of_the_package(wheel):
    with zipfile.ZipFile(wheel) as file:
        (name,) = [name for name in file.namelist() if name.endswith("entry_points.txt")]
        entry_points = configparser.ConfigParser()
        entry_points.read_string(file.read(name).decode("utf-8"))
    assert dict(entry_points["console_scripts"]) == {f"memattn-{name}": f"memattn.{name}:main" for name in COMMANDS}


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_is_printed_without_warnings(installed, command):
    done = installed[1](f"memattn-{command}", "--help")
    assert done.stdout.startswith(__import__(f"memattn.{command}", fromlist=["__doc__"]).__doc__.strip())
    assert done.stderr == ""


def test_an_installed_memattn_prepares_trains_and_evaluates(installed):
    folder, command, _ = installed
    sides = {"en": "a dog sees a house\n", "de": "ein Hund sieht ein Haus\n"}
    for language, line in sides.items():
        (folder / f"text.{language}").write_text(line * 20, encoding="utf-8")
    prefixes = ["--train=text", "--valid=text", "--source=en", "--target=de"]
    command("memattn-prepare", "parallel", *prefixes, "--bpe_units=20", "--workers=2", "--folder=data/own")
    (folder / "config.yaml").write_text(yaml.safe_dump({**TINY, "data": {"folder": "data/own"}}), encoding="utf-8")
    trained = command("memattn-train", "--config=config.yaml", "--run_dir=run", "--strategy=none")
    assert "finished: 6 steps" in trained.stdout
    evaluated = command("memattn-eval", "--run_dir=run", "--repeats=1")
    assert len(Path(folder / "run" / "hypotheses.txt").read_text(encoding="utf-8").splitlines()) == 20
    assert trained.stderr + evaluated.stderr == ""


def test_the_scripts_of_a_clone_run_with_the_installed_package(installed, tmp_path):
    """As in the container, where `pip install .` copies the package."""
    target = installed[2]
    flags = ["table1", "--scale", "small", "--dry_run", "--gigaflops", "100"]
    reproduce = [sys.executable, ROOT / "scripts" / "reproduce.py", *flags]
    assert "configs/studies/table1/small.yaml" in run(*reproduce, folder=ROOT, PYTHONPATH=str(target)).stdout
    benchmark = [sys.executable, ROOT / "scripts" / "benchmark.py", "decode", "--help"]
    assert "--beam_size" in run(*benchmark, folder=tmp_path, PYTHONPATH=str(target)).stdout
