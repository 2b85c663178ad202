"""The checkout under test, and functions that run its commands."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {"eval", "export", "onnx", "prepare", "report", "sweep", "train", "translate"}  # modules with main()


def run_python(*arguments, folder=ROOT, timeout=300, may_fail=False, **options):
    """Runs Python in a folder; returns the completed process with its output as str.

    Its exit status must be 0, unless it may fail.
    """
    options = {"cwd": folder, "capture_output": True, "text": True, "timeout": timeout, "check": False, **options}
    result = subprocess.run([sys.executable, *map(str, arguments)], **options)
    assert may_fail or result.returncode == 0, f"status {result.returncode}: {result.stderr[-3000:]}"
    return result
