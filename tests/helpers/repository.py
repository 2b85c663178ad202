"""The checkout that is under test, and commands that are run from it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {"eval", "export", "prepare", "sweep", "train", "translate"}  # memattn.NAME, each with main()


def run_command(module, *arguments, timeout=120, **options):
    """Runs `python -m module arguments` in the checkout; its output is text."""
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )
