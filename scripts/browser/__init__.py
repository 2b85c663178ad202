"""The page that translates in the browser: its files, and the graphs that only it needs."""
