"""Writes the generated tables of docs/reference/, and the pictures of the documents.

python scripts/write_docs.py
"""

from pathlib import Path

import commands_page
from studies.pictures import PICTURES

from memattn import cli, files
from memattn.config import reference

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    for name, updated in {"configuration": reference.updated, "commands": commands_page.updated}.items():
        page = ROOT / "docs" / "reference" / f"{name}.md"
        files.write(str(page), updated(page.read_text(encoding="utf-8")))
    for path, draw in PICTURES.items():
        draw(str(ROOT / path))
    return 0


if __name__ == "__main__":
    cli.run(main, tensorflow=True)
