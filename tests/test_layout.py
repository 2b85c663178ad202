"""The house's rules: imports point down only, every module says its one job, the project speaks of itself alone."""

import ast
import subprocess

import pytest
from conftest import ROOT

BOTTOM = {"__init__", "vocab", "schema", "beam_search", "dropout", "metrics"}
ALLOWED = {
    **{name: set() for name in BOTTOM},
    "config": {"schema"},
    "data": {"vocab"},
    "copy_task": {"config", "vocab"},
    "encoder": {"dropout"},
    "bridge": set(),
    "decoder": {"attention", "dropout"},
    "model": {"attention", "bridge", "decoder", "dropout", "encoder", "vocab"},
    "paper": {"config"},
    "visualize": set(),
    "run": {"", "attention", "config", "data", "model", "vocab"},
    "decoding": {"beam_search", "config", "data", "model", "run", "vocab"},
    "cli": {"config", "data", "run"},
    "training_step": {"", "config", "model", "run", "vocab"},
    "train": {"attention", "cli", "config", "copy_task", "data", "decoding", "metrics", "run", "training_step"},
    "eval": {
        "attention",
        "cli",
        "config",
        "data",
        "decoding",
        "metrics",
        "model",
        "run",
        "visualize",
        "vocab",
    },
    "sweep": {"attention", "cli", "config", "eval", "paper", "run", "visualize"},
}
MODULES = sorted((ROOT / "memattn").glob("*.py"))


def ours(path):
    """Names of our own modules that a file imports; "" is the package itself."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "memattn":
            names = [f"memattn.{alias.name}" if not alias.name.startswith("__") else "memattn" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
        else:
            continue
        found |= {name.partition(".")[2].partition(".")[0] for name in names if name.split(".")[0] == "memattn"}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_imports_point_down(path):
    assert ours(path) <= ALLOWED[path.stem]


def test_attention_imports_only_itself():
    for path in (ROOT / "memattn" / "attention").glob("*.py"):
        assert ours(path) <= {"attention"}


def test_the_allowed_imports_have_no_cycle():
    order = []
    remaining = {name: set(imports) - {"", "attention"} for name, imports in ALLOWED.items()}
    while remaining:
        free = [name for name, imports in remaining.items() if imports <= set(order)]
        assert free, remaining
        order += free
        for name in free:
            del remaining[name]


def tracked_files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_python_files_open_with_one_sentence():
    for path in tracked_files():
        if path.suffix == ".py":
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
            assert docstring, path
            assert docstring.split("\n\n")[0].endswith((".", ":")), path


def test_files_are_short():
    for path in tracked_files():
        if path.suffix == ".py" and path.is_relative_to(ROOT / "memattn"):
            assert len(path.read_text(encoding="utf-8").splitlines()) <= 300, path


def test_no_large_file_is_tracked():
    for path in tracked_files():
        assert path.stat().st_size < 1_000_000, path
