"""The report of runs: a page for a browser, in one file."""
