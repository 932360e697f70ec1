"""An identity provider on loopback, over https: its keys, and tokens for clients' names and passwords."""

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

from tests.models.access_tokens import Provider, wall_ms
from tests.models.certificates import Authority

CLIENTS = {"alice": "alice-client-secret", "broker": "broker-client-secret", "carol": "carol-client-secret"}


class IdentityProvider:
    """Serves ``/keys`` and ``/token``.

    Args:
        authority: issues its certificate.
        directory: for the certificate.
        providers: whose keys are in the list; the first one signs tokens.
    """

    def __init__(self, authority: Authority, directory: Path, *providers: Provider) -> None:
        self.providers = providers or (Provider(),)
        self.life_s = 300
        self.claims: dict[str, dict[str, Any]] = {}
        """Claims of a user's tokens beside the usual ones."""
        self.is_away = False
        self.redirects_to: str | None = None
        self.asked: list[str] = []
        """The paths of requests."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.issue("CN=login").write_pem(directory / "login.pem"))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.server_address[1]}"

    def token(self, user: str = "alice", **changes: Any) -> str:
        now_ms = wall_ms()
        claims = {"sub": user, "exp": now_ms // 1000 + self.life_s, **self.claims.get(user, {}), **changes}
        return self.providers[0].token(now_ms, **claims)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                provider.asked.append(self.path)
                first, *others = provider.providers
                self._answer(200 if self.path == "/keys" else 404, first.key_set(*others))

            def do_POST(self) -> None:
                provider.asked.append(self.path)
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                credentials = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
                user, _, secret = credentials.partition(":")
                if form["grant_type"] != ["client_credentials"] or CLIENTS.get(user) != secret:
                    self._answer(401, b'{"error": "invalid_client"}')
                    return
                content = {"access_token": provider.token(user), "token_type": "Bearer", "expires_in": provider.life_s}
                self._answer(200, json.dumps(content).encode())

            def _answer(self, status: int, body: bytes) -> None:
                if provider.is_away:
                    status, body = 503, b"away"
                if provider.redirects_to is not None:
                    status = 302
                self.send_response(status)
                if provider.redirects_to is not None:
                    self.send_header("Location", provider.redirects_to)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Write nothing."""

        return Handler
