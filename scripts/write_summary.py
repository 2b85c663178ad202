"""Writes results/summary.csv, the README's table, from the other committed results.

python scripts/write_summary.py
"""

from pathlib import Path

from studies.britz2017 import summary

from memattn import cli, files

RESULTS = Path(__file__).resolve().parent.parent / "results"


def main() -> int:
    files.write_csv(str(RESULTS / "summary.csv"), summary.rows(str(RESULTS)))
    return 0


if __name__ == "__main__":
    cli.run(main)
