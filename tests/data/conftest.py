"""A web server for tests of downloads."""

import pytest
from helpers.server import Server


@pytest.fixture
def server(monkeypatch):
    """A web server with faults, whose `contents` are empty. Failed downloads are repeated without a pause."""
    monkeypatch.setattr("pooch.core.time.sleep", lambda _: None)
    server = Server()
    yield server
    server.close()
