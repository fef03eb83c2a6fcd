"""Runs the fake of S3, by the interpreter of moto's environment: it writes its port, and ends with its stdin.

``POST /-/faults`` sets the faults. Requests are counted from then on, from 0:

- ``{"fail": {"first": 3, "count": 1, "how": "lost"}}``: those requests take effect, and their connections are closed
  without an answer; ``"error"``: they take effect, and the answer is 500; ``"refused"``: 500, and no effect.
- ``{"kill": {"at": 3, "pid": 77, "after": true}}``: when that request comes the process is killed, before or after the
  request took effect.
- ``{"late": true}``: lists do not have what was written since.
- ``{"keep": true}``: nothing is removed, and removing is answered with 500.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import sys
import threading
from typing import Any
from urllib.parse import quote

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

FAILED = b"<?xml version='1.0'?><Error><Code>InternalError</Code><Message>injected</Message></Error>"


class FaultyS3:
    """A WSGI application in front of moto."""

    def __init__(self, bucket: str) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._bucket = bucket
        self._lock = threading.Lock()
        self._set_faults({})
        self._call("PUT", f"/{bucket}")

    def _set_faults(self, faults: dict[str, Any]) -> None:
        self._faults = faults
        self._requests: list[tuple[str, str, bool]] = []
        self._recent: set[str] = set()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        # Handle one request at a time, because requests are identified by their number.
        with self._lock:
            return self._answer(environ, start_response)

    def _answer(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path == "/-/faults":
            self._set_faults(json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))))
            return _answered(start_response, b"{}")
        if path == "/-/requests":
            return _answered(start_response, json.dumps(self._requests).encode())
        number = len(self._requests)
        self._requests.append((method, path, "HTTP_X_AMZ_COPY_SOURCE" in environ))
        fail, kill = self._faults.get("fail"), self._faults.get("kill")
        how = fail["how"] if fail and fail["first"] <= number < fail["first"] + fail["count"] else None
        if self._faults.get("keep") and (method == "DELETE" or "delete" in environ["QUERY_STRING"]):
            how = "refused"
        if kill and kill["at"] == number and not kill["after"]:
            os.kill(kill["pid"], signal.SIGKILL)
            return []
        if how == "refused":
            return _failed(start_response, method)
        status, headers, body = self._forward(environ)
        if kill and kill["at"] == number:
            os.kill(kill["pid"], signal.SIGKILL)
        if how == "error":
            return _failed(start_response, method)
        if how == "lost":
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        if method == "PUT":
            self._recent.add(path.removeprefix(f"/{self._bucket}/"))
        if self._faults.get("late") and method == "GET" and "list-type" in environ["QUERY_STRING"]:
            body = self._outdated(body)
            headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
        start_response(status, headers)
        return [body]

    def _outdated(self, body: bytes) -> bytes:
        """A list without the files that were written since."""
        text = body.decode()
        for key in map(quote, self._recent):
            text = re.sub(rf"<Contents>\s*<Key>{re.escape(key)}</Key>.*?</Contents>", "", text, flags=re.DOTALL)
            folder = re.escape(key.rpartition("/")[0])
            text = re.sub(rf"<CommonPrefixes>\s*<Prefix>{folder}/</Prefix>\s*</CommonPrefixes>", "", text)
        return text.encode()

    def _forward(self, environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
        found: list[Any] = []
        body = b"".join(self._moto(environ, lambda status, headers, *_: found.extend((status, headers))))
        return found[0], found[1], body

    def _call(self, method: str, path: str) -> None:
        from werkzeug.test import EnvironBuilder

        self._forward(EnvironBuilder(path=path, method=method, base_url="http://127.0.0.1").get_environ())


def _answered(start_response: Any, body: bytes) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "application/json")])
    return [body]


def _failed(start_response: Any, method: str) -> list[bytes]:
    start_response("500 Internal Server Error", [("Content-Type", "application/xml")])
    return [] if method == "HEAD" else [FAILED]


def main() -> None:
    # Killed clients are expected.
    logging.getLogger("werkzeug").disabled = True
    server = make_server("127.0.0.1", 0, FaultyS3(sys.argv[1]), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
