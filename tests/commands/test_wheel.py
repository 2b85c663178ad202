"""The wheel: what it holds, and that its commands work where there is no clone."""

import ast
import configparser
import importlib.metadata
import os
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from helpers.repository import COMMANDS, ROOT, run_python
from helpers.runs import TINY

import memattn
from memattn import shipped

pytestmark = pytest.mark.slow


def run(*arguments, folder, **variables):
    """Runs Python with further environment variables; returns the completed process."""
    return run_python(*arguments, folder=folder, env={**os.environ, **variables})


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The path of a wheel that was built from a copy, which holds no files of earlier builds."""
    source, wheels = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheels")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("memattn", "configs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels]
    run("-m", "pip", "wheel", *options, source, folder=source)
    (path,) = wheels.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """An empty folder, a function that runs a command of the installed wheel in it, and the folder of the wheel."""
    target, empty = tmp_path_factory.mktemp("target"), tmp_path_factory.mktemp("empty")
    run("-m", "pip", "install", "--quiet", "--no-deps", "--target", target, wheel, folder=empty)

    def command(name, *arguments):
        return run(target / "bin" / name, *arguments, folder=empty, PYTHONPATH=str(target))

    return empty, command, target


def test_the_wheel_holds_all_modules_the_configs_for_users_and_nothing_else(wheel):
    paths = [path.relative_to(ROOT) for path in (ROOT / "memattn").rglob("*.py")]
    with zipfile.ZipFile(wheel) as file:
        names = [name for name in file.namelist() if ".dist-info/" not in name]
    configs = {name.partition("/share/memattn/configs/")[2] for name in names if name.endswith(".yaml")}
    assert configs == {f"{name}.yaml" for name in shipped.names()}
    page = {f"memattn/reports/page.{ending}" for ending in ("html", "css", "js")}
    assert {name for name in names if not name.endswith(".yaml")} == {*map(str, paths), "memattn/py.typed", *page}
    assert wheel.name == f"memattn-{memattn.__version__}-py3-none-any.whl"


def test_the_wheel_requires_every_distribution_that_it_imports(wheel):
    distributions = importlib.metadata.packages_distributions()
    with zipfile.ZipFile(wheel) as file:
        texts = {name: file.read(name).decode("utf-8") for name in file.namelist()}
    (metadata,) = [text for name, text in texts.items() if name.endswith("METADATA")]
    required = {
        name.lower().replace("_", "-") for name in re.findall(r"^Requires-Dist: ([\w-]+)", metadata, flags=re.MULTILINE)
    }
    for path, text in texts.items():
        if not path.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            known = {"memattn", *sys.stdlib_module_names, "_typeshed"}  # _typeshed: of type checkers
            for top in {name.split(".")[0] for name in names} - known:
                providers = {name.lower().replace("_", "-") for name in distributions.get(top, [top])}
                assert providers & required, (path, top)


def test_the_commands_of_the_wheel_are_those_of_the_package(wheel):
    with zipfile.ZipFile(wheel) as file:
        (name,) = [name for name in file.namelist() if name.endswith("entry_points.txt")]
        entry_points = configparser.ConfigParser()
        entry_points.read_string(file.read(name).decode("utf-8"))
    assert dict(entry_points["console_scripts"]) == {f"memattn-{name}": f"memattn.{name}:main" for name in COMMANDS}


@pytest.mark.parametrize("option", ["--target", "--prefix"])  # a user's installation (--user) is laid out as a prefix
def test_an_installed_memattn_finds_its_configs(wheel, tmp_path, option):
    options = ["--quiet", "--no-deps", "--ignore-installed"]  # without the last, --prefix uninstalls the tested memattn
    run("-m", "pip", "install", *options, option, tmp_path, wheel, folder=tmp_path)
    (module,) = tmp_path.rglob("memattn/shipped.py")
    program = "from memattn import shipped; print(*shipped.names())"
    names = run("-c", program, folder=tmp_path, PYTHONPATH=str(module.parents[1])).stdout
    assert names.split() == shipped.names()


@pytest.mark.long
def test_an_installed_memattn_prepares_trains_and_evaluates(installed):
    folder, command, _ = installed
    sides = {"en": "a dog sees a house\n", "de": "ein Hund sieht ein Haus\n"}
    for language, line in sides.items():
        (folder / f"text.{language}").write_text(line * 20, encoding="utf-8")
    prefixes = ["--train=text", "--valid=text", "--source=en", "--target=de"]
    command("memattn-prepare", "parallel", *prefixes, "--bpe_units=20", "--workers=2", "--folder=data/text")
    (folder / "config.yaml").write_text(yaml.safe_dump({**TINY, "data": {"folder": "data/text"}}), encoding="utf-8")
    trained = command("memattn-train", "--config=config.yaml", "--run_dir=run", "--strategy=none")
    assert "finished: 6 steps" in trained.stdout
    evaluated = command("memattn-eval", "--run_dir=run", "--repeats=1")
    assert len(Path(folder / "run/eval/valid/hypotheses.txt").read_text(encoding="utf-8").splitlines()) == 20
    lines = (trained.stderr + evaluated.stderr).splitlines()
    assert not [
        line
        for line in lines
        if not re.match(r"I0000 .* (port|cudart_stub)\.cc:|WARNING: All log messages before absl", line)
    ]


@pytest.mark.long
def test_the_scripts_of_a_clone_run_with_the_installed_package(installed, tmp_path):
    """The Dockerfile installs the package in the same way, by `pip install .`."""
    target = installed[2]
    flags = ["table1", "--scale", "small", "--dry_run"]
    reproduce = [ROOT / "scripts" / "reproduce.py", *flags]
    assert "configs/studies/table1/small.yaml" in run(*reproduce, folder=ROOT, PYTHONPATH=str(target)).stdout
    benchmark = [ROOT / "scripts" / "benchmark.py", "decode", "--help"]
    assert "--beam_size" in run(*benchmark, folder=tmp_path, PYTHONPATH=str(target)).stdout
