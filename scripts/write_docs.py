"""Writes the tables of docs/reference/configuration.md, results/summary.csv, and the pictures of the documents.

python scripts/write_docs.py
"""

from pathlib import Path

from studies.britz2017 import summary
from studies.pictures import PICTURES

from memattn import cli, files
from memattn.config import reference

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    page = ROOT / "docs/reference/configuration.md"
    files.write(str(page), reference.updated(page.read_text(encoding="utf-8")))
    files.write_csv(str(ROOT / "results" / "summary.csv"), summary.rows(str(ROOT / "results")))
    for path, draw in PICTURES.items():
        draw(str(ROOT / path))
    return 0


if __name__ == "__main__":
    cli.run(main, tensorflow=True)
