"""Writes the generated tables of docs/reference/, the pictures of the documents, and tables of stored runs.

python scripts/write_docs.py    # in the folder that holds configs/
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

from pathlib import Path

from memattn import files

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    from studies import reference, stored
    from studies.pictures import PICTURES

    for name, updated in {"configuration": reference.configuration, "commands": reference.commands}.items():
        page = ROOT / "docs" / "reference" / f"{name}.md"
        files.write(str(page), updated(page.read_text(encoding="utf-8")))
    for path, draw in PICTURES.items():
        draw(str(ROOT / path))
    for folder in stored.MADE:
        stored.write(folder)
    return 0


if __name__ == "__main__":
    cli.run(main, tensorflow=True)
