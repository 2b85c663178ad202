"""Writes the tables of docs/configuration.md anew, from the dataclasses and the attention mechanisms.

python scripts/write_configuration.py
"""

from pathlib import Path

from memattn import cli, files
from memattn.config import reference

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"


def main() -> int:
    files.write(str(PAGE), reference.updated(PAGE.read_text(encoding="utf-8")))
    return 0


if __name__ == "__main__":
    cli.run(main, tensorflow=True)
