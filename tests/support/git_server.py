"""A real git server over HTTP: `git http-backend` behind Python's own, which notes what it is asked
for, and can fail or say nothing.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from kinds import FORMAT


class GitServer:
    """Serves the bare repositories below a directory. `requests` are the paths asked for, with
    their query; while `status` is set, every answer is that error; `release` ends a silence.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.requests: list[str] = []
        self.status = 0
        self.release = threading.Event()
        self.release.set()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    def url(self, name: str) -> str:
        """The URL of a repository."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/{name}"

    def create(self, name: str) -> Path:
        """Make an empty bare repository that everybody can push to."""
        path = self.root / name
        kind = f"--object-format={FORMAT.name}"
        subprocess.run(["git", "init", "--quiet", "--bare", kind, path], check=True)
        return path

    def pushes(self) -> int:
        """How many pushes arrived."""
        return sum(path.endswith("/git-receive-pack") for path in self.requests)

    def stop(self) -> None:
        """Stop serving."""
        self.release.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@contextmanager
def serving(root: Path) -> Iterator[GitServer]:
    """A server for the repositories below a directory, until the block ends."""
    server = GitServer(root)
    try:
        yield server
    finally:
        server.stop()


def _handler(server: GitServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers each request of the server with what git answers."""

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self._body())

        def log_message(self, *_: object) -> None:
            pass

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _answer(self, body: bytes) -> None:
            server.requests.append(self.path)
            server.release.wait()
            if server.status:
                self.send_error(server.status)
                return
            done = subprocess.run(
                ["git", "http-backend"],
                input=body,
                env={**os.environ, **self._variables(body)},
                capture_output=True,
                check=False,
            )
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            lines = [line.partition(": ") for line in head.decode().split("\r\n") if line]
            headers = {name: value for name, _, value in lines}
            self.send_response(int(headers.pop("Status", "200").split()[0]))
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _variables(self, body: bytes) -> dict[str, str]:
            path, _, query = self.path.partition("?")
            return {
                "GIT_PROJECT_ROOT": str(server.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REMOTE_USER": "somebody",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }

    return Handler
