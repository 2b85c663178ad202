"""Generated parts of the documents."""


def with_default(values: list[str], default: str) -> str:
    """Returns the values of an option as a list shows them, the default in bold type."""
    listed = values if default in values or not default else [*values, default]
    return ", ".join(f"**{value}**" if value == default else value for value in listed)


def filled(page: str, begin: str, end: str, lines: list[str]) -> str:
    """Returns a page with new lines between the markers `begin` and `end`."""
    before, rest = page.split(begin)
    return before + begin + "\n" + "\n".join(lines) + "\n" + end + rest.split(end)[1]
