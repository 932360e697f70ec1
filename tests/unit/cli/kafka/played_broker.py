"""A broker for tests of the tools: it answers ApiVersions and Metadata, more if a test gives it answers, or nothing at all."""

import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from kio.schema.metadata.v13.response import MetadataResponse, MetadataResponseBroker

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.apis.api_versions import api_versions_response
from esp.model.errors import ErrorCode
from esp.protocol.headers import read_request_header
from esp.protocol.messages import decode_request, encode_response
from esp.protocol.registry import ApiKey, ListenerKind


class PlayedBroker:
    """Listens on a port of the loopback address.

    Its node id is its place in ``brokers``, which is itself alone unless the test names others.

    Args:
        answers: False if it takes connections and is silent.
        answer: called with the key of an API other than ApiVersions and with the request, in the classes of the handlers; returns the
            response. Without it the broker answers Metadata, with no topic.
    """

    def __init__(self, *, answers: bool, answer: Callable[[int, Any], Any] | None = None) -> None:
        self.connections = 0
        self.brokers: Sequence[PlayedBroker] = [self]
        self._answers = answers
        self._answer_by = answer or self._metadata
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._taken: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        """End the connections."""
        for each in [self._server, *self._taken]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()

    def _start(self, run: Any, *arguments: Any) -> None:
        self._threads.append(threading.Thread(target=run, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                taken, _ = self._server.accept()
                self._taken.append(taken)
                self.connections += 1
                if self._answers:
                    self._start(self._serve, taken)

    def _serve(self, taken: socket.socket) -> None:
        with suppress(OSError, struct.error), taken.makefile("rb") as stream:
            while True:
                (size,) = struct.unpack(">i", stream.read(4))
                frame = memoryview(stream.read(size))
                header = read_request_header(frame)
                key, version = header.api_key, header.api_version
                if key == ApiKey.API_VERSIONS:
                    answer: Any = api_versions_response(ListenerKind.BROKER, version, {}, {}, 0, 0)
                else:
                    answer = self._answer_by(key, decode_request(key, version, frame[header.body_position :]))
                taken.sendall(encode_response(key, version, header.correlation_id, answer))

    def _metadata(self, key: int, _request: Any) -> Any:
        assert key == ApiKey.METADATA
        return MetadataResponse(
            throttle_time=NO_THROTTLE,
            brokers=tuple(
                MetadataResponseBroker(node_id=number, host="127.0.0.1", port=broker.port, rack=None)
                for number, broker in enumerate(self.brokers)
            ),
            cluster_id="played",
            controller_id=0,
            topics=(),
            error_code=ErrorCode.none,
        )
