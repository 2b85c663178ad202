"""Writes the tables of docs/reference/configuration.md and commands.md, and results/summary.csv.

python scripts/write_docs.py
"""

from pathlib import Path

import commands_page
from studies.britz2017 import summary

from memattn import cli, files
from memattn.config import reference

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    for name, updated in {"configuration": reference.updated, "commands": commands_page.updated}.items():
        page = ROOT / "docs" / "reference" / f"{name}.md"
        files.write(str(page), updated(page.read_text(encoding="utf-8")))
    files.write_csv(str(ROOT / "results" / "summary.csv"), summary.rows(str(ROOT / "results")))
    return 0


if __name__ == "__main__":
    cli.run(main, tensorflow=True)
