"""Formats ranges and tables as text."""

from collections.abc import Sequence


def extent(values: Sequence[float], form: str) -> str:
    """Returns the least and the greatest value as text, such as 1.50-2.25 in the format ".2f"."""
    return f"{min(values):{form}}-{max(values):{form}}"


def markdown(rows: list[dict]) -> str:
    """Returns rows as a Markdown table, without columns that are empty in all rows.

    A row that lacks a column has an empty cell there, as in `files.write_csv`.
    """
    every_column = dict.fromkeys(column for row in rows for column in row)
    columns = [column for column in every_column if any(str(row.get(column, "")) for row in rows)]
    cells = [columns, *([str(row.get(column, "")) for column in columns] for row in rows)]
    cells = [[cell.replace("|", "\\|") for cell in line] for line in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines) + "\n"
