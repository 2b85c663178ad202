"""Writes tables of stored runs, tables in the pages, the lists of docs/reference/, and pictures of the documents.

python scripts/write_docs.py    # in the folder that holds configs/
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

from pathlib import Path

from memattn import files

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    from studies import reference, stored, tables_in_pages
    from studies.pictures import PICTURES

    for folder in stored.MADE:
        stored.write(folder)
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        files.write(str(page), tables_in_pages.filled(page.read_text(encoding="utf-8")))
    for name, updated in {"configuration": reference.configuration, "commands": reference.commands}.items():
        page = ROOT / "docs" / "reference" / f"{name}.md"
        files.write(str(page), updated(page.read_text(encoding="utf-8")))
    for path, draw in PICTURES.items():
        draw(str(ROOT / path))


if __name__ == "__main__":
    cli.run(main, tensorflow=True)
