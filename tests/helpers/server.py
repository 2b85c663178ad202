"""A web server with faults, for tests of downloads."""

import http.server
import threading


class Server:
    """A web server with faults: serves `contents` by path, also ranges of bytes, and records `requests`.

    `cuts` lists, by path, numbers of bytes after which the next connections are closed; `statuses` lists errors to
    answer first. `tags` decides whether files have an ETag. `length` is the format of Content-Length; None leaves the
    header out. `hold` is called before each answer.
    """

    def __init__(self):
        self.contents, self.cuts, self.requests, self.statuses, self.tags = {}, {}, [], {}, True
        self.length, self.hold = "{}", lambda: None
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
        start = int(request.headers.get("Range", "bytes=0-")[6:-1])
        self.requests.append((request.path, start))
        self.hold()
        if self.statuses.get(request.path):
            request.send_error(self.statuses[request.path].pop(0))
            return
        if request.path not in self.contents:
            request.send_error(404)
            return
        content = self.contents[request.path]
        tag = f'"{hash(content)}"'
        if start and request.headers.get("If-Range") != tag:
            start = 0
        request.send_response(206 if start else 200)
        if self.length is not None:
            request.send_header("Content-Length", self.length.format(len(content) - start))
        if self.tags:
            request.send_header("ETag", tag)
        request.end_headers()
        end = len(content)
        if self.cuts.get(request.path):
            end = start + self.cuts[request.path].pop(0)
        request.wfile.write(content[start:end])
        if end < len(content):
            request.wfile.flush()
            request.connection.close()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
