"""A schema registry of one process, as far as it is asked: schemas by id, and the newest of a subject."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class TestRegistry:
    """The registry's contents, and what it was asked.

    Attributes:
        schemas: by id what is answered.
        newest: by subject the id of its newest schema.
        failures: statuses with which the next questions are answered.
        log_in: the header that questions must have, if any.
        asked: paths of questions.
    """

    __test__ = False

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.newest: dict[str, int] = {}
        self.failures: list[int] = []
        self.log_in: str | None = None
        self.asked: list[str] = []
        self.url = ""

    def add(self, schema: Any, subject: str = "s", **more: Any) -> int:
        """Register a schema as the newest of a subject; return its id."""
        number = len(self.schemas) + 1
        self.schemas[number] = {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}
        self.newest[subject] = number
        return number

    def answer(self, path: str, log_in: str | None) -> tuple[int, Any]:
        self.asked.append(path)
        if self.failures:
            return self.failures.pop(0), {}
        if self.log_in is not None and log_in != self.log_in:
            return 401, {}
        parts = path.strip("/").split("/")
        number = int(parts[2]) if parts[:2] == ["schemas", "ids"] else self.newest.get(parts[1], 0)
        found = self.schemas.get(number)
        return (404, {"error_code": 40403}) if found is None else (200, found)


@contextmanager
def running_registry() -> Iterator[TestRegistry]:
    """A registry that answers."""
    registry = TestRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = registry.answer(self.path, self.headers.get("Authorization"))
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: object) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
