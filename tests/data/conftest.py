"""A web server for tests of downloads, and programs in place of those that recipes call."""

import functools
import http.server
import os
import threading

import pytest


@pytest.fixture
def serve(tmp_path_factory, monkeypatch):
    """serve(contents) lets a web server have files by their paths; returns its address.

    Failed downloads are repeated without a pause.
    """
    monkeypatch.setattr("pooch.core.time.sleep", lambda _: None)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    folder = tmp_path_factory.mktemp("served")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()

        def write(contents):
            for name, content in contents.items():
                path = folder / name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)
            return f"http://127.0.0.1:{server.server_port}"

        yield write
        server.shutdown()


@pytest.fixture
def program(tmp_path_factory, monkeypatch):
    """program(name, text) puts an executable file with this text in place of a program; returns its path."""
    folder = tmp_path_factory.mktemp("programs")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def write(name, text):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
        return folder / name

    return write
