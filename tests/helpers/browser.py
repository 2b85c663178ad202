"""The browser in which pages are tested."""

import shutil

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def browser():
    """The path of a browser; without one, the test is skipped."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not path:
        pytest.skip(f"needs one of {', '.join(BROWSERS)}")
    return path
