"""A web server for tests of downloads."""

import pytest
from helpers.server import Server


@pytest.fixture
def server():
    """A web server with faults, whose `contents` are empty."""
    server = Server()
    yield server
    server.close()
