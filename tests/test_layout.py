"""The house's rules: imports point down only."""

import ast

import pytest
from conftest import ROOT

# A module imports from the rows above its own only.
LEVELS = [
    [
        "__init__",
        "attention",
        "beam_search",
        "bridge",
        "dropout",
        "errors",
        "files",
        "metrics",
        "progress",
        "vocab",
    ],
    ["bpe", "cli", "corpus", "distribution", "download", "encoder", "reader", "schema", "visualize"],
    ["config", "data", "decoder", "text"],
    ["model"],
    ["copy_task", "ensemble", "floor", "paper", "parallel", "run", "schedule"],
    ["decoding", "prepare", "tables", "trained", "training_step"],
    ["benchmark", "eval", "preparation_flags", "translate", "validation"],
    ["train"],
    ["sweep"],
    ["paper_results"],
    ["open_questions"],
    ["reproduce"],
    ["estimates"],
]
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
WITHOUT_CONFIG = ["bridge", "decoder", "encoder", "ensemble", "model"]
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
    assert all(LEVEL[name or "__init__"] < LEVEL[path.stem] for name in ours(path))


def test_the_model_takes_arguments_and_the_search_any_step():
    for name in WITHOUT_CONFIG:
        assert "config" not in ours(ROOT / "memattn" / f"{name}.py")
    assert ours(ROOT / "memattn" / "beam_search.py") == set()
    assert ours(ROOT / "memattn" / "config.py") == {"errors", "schema"}


def test_attention_imports_only_itself():
    for path in (ROOT / "memattn" / "attention").glob("*.py"):
        assert ours(path) <= {"attention"}
