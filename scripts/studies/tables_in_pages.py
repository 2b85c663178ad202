"""Fills the tables of the documents that show rows of result files."""

import re

from benchmarks.tables import measured_rows, pivot

from memattn import files
from memattn.evaluation.formatting import markdown

END = "<!-- end of table -->"
_CONTENT = r"table|table of (?P<chosen>[^\n]*)|(?P<cells>[^\n]*) by (?P<rows>\w+)(?: and (?P<columns>\w+))?"
TABLE = re.compile(
    rf"(?P<mark><!-- (?:{_CONTENT}): (?P<path>\S+\.csv)(?:, (?P<measurement>\w+))? -->\n).*?{END}", re.DOTALL
)


def filled(page: str) -> str:
    """Returns a page with the tables between each mark and END made anew from the files that the marks name.

    A mark is `table: FILE`, `table of COLUMN | COLUMN: FILE` or `CELLS by ROWS and COLUMNS: FILE`, by default with a
    column for each system. `CELLS | OTHERS` adds the values of a second column in parentheses. After FILE may stand a
    comma and the name of a measurement.
    """
    return TABLE.sub(_table, page)


def _table(found: re.Match) -> str:
    path, measurement = found["path"], found["measurement"]
    rows = measured_rows(path, measurement) if measurement else files.read_csv(path)
    if found["cells"]:
        header = found["columns"] or "system"
        rows = pivot([_with_cell(row, header, found["cells"]) for row in rows], found["rows"], header, "cell")
    elif found["chosen"]:
        rows = [{column: row[column] for column in found["chosen"].split(" | ")} for row in rows]
    return found["mark"] + markdown(rows) + END


def _with_cell(row: dict, header: str, cells: str) -> dict:
    """Returns a row with the text of its table cell as `cell`, and in the column `header` that above the cell."""
    value, *others = (row[name] for name in cells.split(" | "))
    above = f"L = {row['L']}" if header == "L" else row[header]
    return {**row, header: above, "cell": " ".join([value, *(f"({other})" for other in others)])}
