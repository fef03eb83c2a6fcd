"""A schema registry in this process, with the parts of Confluent's HTTP API that clients use."""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import unquote


class SchemaRegistry:
    """Schemas by id, and versions of subjects. ``authorization`` is the header that requests must have, if any.

    ``body`` replaces the body of responses.
    """

    def __init__(self, context: ssl.SSLContext | None = None, authorization: str | None = None) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.failures = 0
        self.body: bytes | None = None
        self.authorization = authorization
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.handle_one()

            def do_POST(self) -> None:
                self.handle_one()

            def handle_one(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.requests.append(f"{self.command} {self.path}")
                status, found = outer.answer(self.command, self.path, self.headers.get("Authorization"), body)
                data = json.dumps(found).encode() if outer.body is None else outer.body
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Don't log to the terminal."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> SchemaRegistry:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def register(self, subject: str, schema: Any, references: list[dict[str, Any]] | None = None) -> int:
        """Add a version to a subject; returns the id of the schema."""
        text = json.dumps(schema)
        entry: dict[str, Any] = {"schema": text, **({"references": references} if references else {})}
        if entry not in self.schemas:
            self.schemas.append(entry)
        number = self.schemas.index(entry) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def answer(self, method: str, path: str, authorization: str | None, body: bytes) -> tuple[int, Any]:
        """Return the status and the body of a response."""
        if self.failures:
            self.failures -= 1
            return 503, {"error_code": 50301, "message": "not now"}
        if self.authorization not in (None, authorization):
            return 401, {"error_code": 40101, "message": "User cannot access"}
        parts = [unquote(part) for part in path.split("/")[1:]]
        if method == "GET" and parts[:2] == ["schemas", "ids"]:
            number = int(parts[2])
            if not 0 < number <= len(self.schemas):
                return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
            return 200, self.schemas[number - 1]
        subject = parts[1]
        if method == "POST":
            schema = json.loads(json.loads(body)["schema"])
            known = [number for number in self.subjects.get(subject, []) if self._is(number, schema)]
            if parts[2:] == ["versions"]:
                return 200, {"id": self.register(subject, schema)}
            return (200, {"id": known[0]}) if known else (404, {"error_code": 40403, "message": "Schema not found"})
        versions = self.subjects.get(subject)
        if versions is None:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        version = len(versions) if parts[3] == "latest" else int(parts[3])
        if version > len(versions):
            return 404, {"error_code": 40402, "message": f"Version {version} not found."}
        number = versions[version - 1]
        return 200, {"id": number, "subject": subject, "version": version, **self.schemas[number - 1]}

    def _is(self, number: int, schema: Any) -> bool:
        return bool(json.loads(self.schemas[number - 1]["schema"]) == schema)
