"""Fills the tables of the documents that show rows of result files."""

import re

from benchmarks.tables import measured_rows, pivot

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


def _table(match: re.Match) -> str:
    rows = measured_rows(match["path"], match["measurement"])
    if match["cells"]:
        columns = match["columns"] or "system"
        first, *others = match["cells"].split(" | ")
        rows = pivot(
            rows,
            match["rows"],
            lambda row: f"L = {row['L']}" if columns == "L" else row[columns],
            lambda row: " ".join([row[first], *(f"({row[other]})" for other in others)]),
        )
    elif match["chosen"]:
        rows = [{column: row[column] for column in match["chosen"].split(" | ")} for row in rows]
    return match["mark"] + markdown(rows) + END
