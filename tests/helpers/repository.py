"""The checkout under test, and a function that runs its commands."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {"eval", "export", "prepare", "sweep", "train", "translate"}  # memattn.NAME, each with main()


def run_command(module, *arguments, timeout=120, **options):
    """Runs `python -m module arguments` in the checkout; returns the completed process with its output as str."""
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )
