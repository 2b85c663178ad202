"""Ranges and tables as text."""


def extent(values: list[float], form: str) -> str:
    """The least and the greatest value, in a form such as ".2f"."""
    return f"{min(values):{form}}-{max(values):{form}}"


def markdown(rows: list[dict]) -> str:
    """Rows as a Markdown table, without the columns in which no row has a value."""
    columns = [column for column in rows[0] if any(str(row[column]) for row in rows)]
    widths = {column: max(len(column), *(len(str(row[column])) for row in rows)) for column in columns}
    lines = [
        "| " + " | ".join(column.ljust(widths[column]) for column in columns) + " |",
        "|" + "|".join("-" * (widths[column] + 2) for column in columns) + "|",
    ]
    lines += ["| " + " | ".join(str(row[column]).ljust(widths[column]) for column in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def pivot(rows: list[dict], index: str, columns: str, value: str) -> list[dict]:
    """Rows that have a value for each `index` and each of `columns`: a row for each index, a column for each other."""
    table = {}
    for row in rows:
        table.setdefault(row[index], {index: row[index]})[row[columns]] = row[value]
    return list(table.values())
