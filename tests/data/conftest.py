"""A web server with faults, for tests of downloads."""

import http.server
import threading

import pytest


class Server:
    """A web server with faults: serves `contents` by path, and records the paths of `requests`.

    `cuts` lists, by path, numbers of bytes after which the next connections are closed.
    """

    def __init__(self):
        self.contents, self.cuts, self.requests = {}, {}, []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                server.answer(self)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, request):
        self.requests.append(request.path)
        if request.path not in self.contents:
            request.send_error(404)
            return
        content, cuts = self.contents[request.path], self.cuts.get(request.path)
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content[: cuts.pop(0) if cuts else None])
        request.close_connection = True

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server(monkeypatch):
    """A web server with faults, whose `contents` are empty. Failed downloads are repeated without a pause."""
    monkeypatch.setattr("pooch.core.time.sleep", lambda _: None)
    server = Server()
    yield server
    server.close()
