"""The layout: which modules import which, where scripts write, what is tracked, and the version."""

import ast
import re
import subprocess

import pytest
import yaml
from helpers.repository import COMMANDS, ROOT

from memattn import __version__

# The layers of memattn/, lowest first. A module imports from its layer and from those before it.
LAYERS = [
    "attention",
    "data",
    "models",
    "config",
    "runs",
    "search",
    "serving",
    "onnx_export",
    "evaluation",
    "training",
    "sweeps",
    "reports",
]
EVERYWHERE = {"console", "errors", "files", "options", "plain_values", "processes", "shipped", "xla"}
MODULES = sorted((ROOT / "memattn").rglob("*.py"))


def layer(path):
    """Returns the folder of memattn/ that holds a file, or the name of a module outside folders."""
    return path.relative_to(ROOT / "memattn").with_suffix("").parts[0]


def imports(path):
    """Returns the dotted names that a file imports."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def imported_layers(path):
    """Returns the layers of memattn, and the modules outside layers, from which a file imports."""
    return {name.split(".")[1] for name in imports(path) if name.startswith("memattn.")} - {"__version__"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT / "memattn")))
def test_a_module_imports_only_from_its_layer_and_those_below(path):
    name = layer(path)
    if name in LAYERS:
        # A config holds the options of search and of training, which stand in these folders.
        above = {"search", "training"} if name == "config" else set()
        assert imported_layers(path) <= {*LAYERS[: LAYERS.index(name) + 1], *EVERYWHERE, *above}
    elif name in EVERYWHERE:
        assert imported_layers(path) <= EVERYWHERE
    else:
        assert imported_layers(path) <= {*LAYERS, *EVERYWHERE, *COMMANDS, "cli", "api"}


def test_search_imports_no_model():
    search = ROOT / "memattn" / "search"
    assert imported_layers(search / "beam_search.py") == imported_layers(search / "sampling.py") == {"search"}
    assert imported_layers(search / "repeated_ngrams.py") == set()


def test_the_library_imports_no_study():
    for path in MODULES:
        assert not {name.partition(".")[0] for name in imports(path)} & {"studies", "benchmarks"}


def test_attention_imports_only_itself_and_the_checks_of_options():
    """TensorFlow is imported in one file, so that the layers run without it on other backends."""
    for path in (ROOT / "memattn" / "attention").glob("*.py"):
        assert imported_layers(path) <= {"attention", "options"}
        imports_tensorflow = any(name.partition(".")[0] == "tensorflow" for name in imports(path))
        assert imports_tensorflow == (path.name == "tensorflow_ops.py")


def test_no_test_module_imports_another():
    for path in (ROOT / "tests").rglob("*.py"):
        modules = {name.partition(".")[0] for name in imports(path)}
        assert not {name for name in modules if name == "conftest" or name.startswith("test_")}, path


def test_no_large_file_is_tracked():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for path in (ROOT / name for name in listed.stdout.split("\0") if name):
        assert not path.is_file() or path.stat().st_size < 1_000_000, path


def test_the_version_is_the_same_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version, date = re.search(r"^## (\S+) \((\S+)\)$", changes, flags=re.MULTILINE).groups()
    assert version == citation["version"] == __version__
    assert date == citation["date-released"].isoformat()
    assert f'version = "{version}"' in (ROOT / "docs/help/citing.md").read_text(encoding="utf-8")
