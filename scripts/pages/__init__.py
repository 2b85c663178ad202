"""Generated parts of the documents."""


def filled(page: str, begin: str, end: str, lines: list[str]) -> str:
    """Returns a page with new lines between the markers `begin` and `end`."""
    before, rest = page.split(begin)
    return before + begin + "\n" + "\n".join(lines) + "\n" + end + rest.split(end)[1]
