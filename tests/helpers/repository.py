"""The checkout under test, and functions that run its commands and check their errors."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {"eval", "export", "onnx", "prepare", "report", "sweep", "train", "translate"}  # modules with main()


def run_python(*arguments, folder=ROOT, timeout=300, **options):
    """Runs Python in a folder; returns the completed process with its output as str."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout, check=False, **options)


def run_command(module, *arguments, **options):
    """Runs `python -m module arguments` as `run_python` does."""
    return run_python("-m", module, *arguments, **options)


def assert_single_error(result, *fragments):
    """A command failed with a single line on standard error, which holds all fragments."""
    assert result.returncode in (1, 2)
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    for fragment in fragments:
        assert fragment in lines[0]
