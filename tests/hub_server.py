"""A Hub in memory: the part of the Hub's HTTP API by which the real client libraries create, push and load.

It knows users by their tokens, repositories with branches and commits, large files (LFS, one or several parts, checked
by their SHA-256) that are served from a second address as the Hub's CDN does, private and gated repositories. It can be
told to fail. Xet is not offered.
"""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from hub_api import GIT_ATTRIBUTES, LARGE_FILES, ROUTES, File, RefusedError, Repository, Request


class HubServer:
    """The Hub: what it holds, what it was asked, and how it is told to fail."""

    def __init__(self):
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.objects: dict[str, bytes] = {}
        self.parts: dict[tuple[str, int], bytes] = {}
        self.part_size: int | None = None
        self.requests: list[tuple[str, str, str | None]] = []
        self.lock = threading.RLock()
        self._failures: list[tuple] = []
        self._stopped = threading.Event()
        handler = type("Handler", (_Handler,), {"hub": self})
        self._servers = [_Server(("127.0.0.1", 0), handler) for _ in range(2)]
        self.port = self._servers[0].server_port
        self.url, self.cdn = (f"http://127.0.0.1:{server.server_port}" for server in self._servers)

    def __enter__(self):
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._stopped.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def create(self, repo_id, kind="model", files=None, **settings):
        """Make a repository, with files."""
        repository = Repository(kind, repo_id, **settings)
        repository.commit("main", "initial commit", {".gitattributes": File(GIT_ATTRIBUTES, False)})
        self.repositories[kind, repo_id] = repository
        if files:
            self.add(repo_id, files, kind)
        return repository

    def add(self, repo_id, files, kind="model"):
        """Commit files, given as bytes by path."""
        repository = self.repositories[kind, repo_id]
        added = {path: File(data, path.endswith(LARGE_FILES)) for path, data in files.items()}
        self.objects |= {file.oid: file.data for file in added.values() if file.is_large}
        return repository.commit("main", "Upload", repository.find("main").files | added)

    def files(self, repo_id, revision="main", kind="model"):
        """The files of a revision, as bytes by path."""
        commit = self.repositories[kind, repo_id].find(revision)
        return {path: file.data for path, file in commit.files.items() if path != ".gitattributes"}

    def fail(self, path, what, *, times=1, method="", **headers):
        """Let the next requests of a path (a regular expression) fail.

        ``what`` is a status, "drop" (no answer), "cut" (half of it) or "hang" (none, but the connection stays).
        """
        answer = what if isinstance(what, str) else (what, {k.replace("_", "-"): v for k, v in headers.items()})
        self._failures += [(method, path, answer)] * times

    def recover(self):
        """Answer again."""
        self._failures.clear()

    def next_failure(self, method, path):
        """What is to go wrong with this request, if anything."""
        with self.lock:
            for failure in self._failures:
                if failure[0] in ("", method) and re.search(failure[1], path):
                    self._failures.remove(failure)
                    return failure[2]
        return None

    def wait(self):
        self._stopped.wait(30)

    def asked(self, part="", method=""):
        """Paths of the requests that contain a part."""
        return [path for asked, path, _ in self.requests if part in path and method in ("", asked)]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        """A client that went away is none of the server's errors."""


class _Handler(BaseHTTPRequestHandler):
    """Answers requests by the table of routes."""

    protocol_version = "HTTP/1.1"
    hub: HubServer

    def log_message(self, *_):
        """Keep quiet."""

    def _answer(self):
        path, self.cut = urlsplit(self.path).path, False
        body = self._read()
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
        with self.hub.lock:
            self.hub.requests.append((self.command, path, token))
        failure = self.hub.next_failure(self.command, path)
        if failure == "hang":
            self.hub.wait()
        if failure in ("drop", "hang"):
            self.close_connection = True
        elif isinstance(failure, tuple):
            status, headers = failure
            self._send(status, {"error": "told to fail"}, headers)
        else:
            self.cut = failure == "cut"
            self._send(*self._respond(path, token, body))

    def _respond(self, path, token, body):
        request = Request(self.hub, token, body, parse_qs(urlsplit(self.path).query))
        try:
            with self.hub.lock:
                for methods, pattern, respond in ROUTES:
                    match = re.fullmatch(pattern, path)
                    if match and self.command in methods.split():
                        return respond(request, *(unquote(group or "") for group in match.groups()))
            raise RefusedError(404, "NotFound", f"no such route: {self.command} {path}")
        except RefusedError as refusal:
            code = {"X-Error-Code": refusal.code} if refusal.code else {}
            headers = {"X-Error-Message": str(refusal)} | code | refusal.headers
            return refusal.status, {"error": str(refusal)}, headers

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

    def _read(self):
        """Read the body, of known length or in chunks."""
        if "chunked" not in (self.headers.get("Transfer-Encoding") or ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _send(self, status, content, headers):
        """Send JSON, or bytes, of which a range may be asked for."""
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        headers = dict(headers)
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if wanted and status == 200 and isinstance(content, bytes):
            start, end = int(wanted[1]), min(int(wanted[2] or len(data) - 1), len(data) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
            status, data = 206, data[start : end + 1]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if self.cut else data)
        self.close_connection = self.close_connection or self.cut
