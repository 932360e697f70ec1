"""Sends a broker a request that kafka-python does not know, on a connection of its own."""

import io
import socket
import struct
from typing import Any, Final

from kio.index import load_response_from_request
from kio.serial import entity_reader, entity_writer

from esp.cli.kafka_client import CONNECT_TIMEOUT_S, check_bootstrap
from esp.model.errors import OperatorError
from esp.protocol.errors import DecodeError
from esp.protocol.headers import pack_request_header, read_response_header

ANSWER_TIMEOUT_S: Final = 60.0
_CLIENT_ID: Final = "esp"
_LENGTH: Final = struct.Struct(">i")


def call(servers: str, request: Any) -> Any:
    """Send one of kio's requests to the first broker that takes connections, and return its answer; nothing is sent twice.

    Raises:
        OperatorError: none listens, or it does not answer.
    """
    check_bootstrap(servers)
    refused: OSError | None = None
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            connection = socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S)
        except OSError as error:
            refused = error
            continue
        with connection:
            connection.settimeout(ANSWER_TIMEOUT_S)
            try:
                return _exchange(connection, request)
            except (OSError, EOFError, DecodeError) as error:
                raise OperatorError(
                    f"the broker at {server} did not answer: {str(error) or 'it ended the connection'}",
                    "What was asked for may have been done: look, and ask again.",
                ) from error
    raise OperatorError(f"no broker answers at {servers}: {refused}", "Name another with --bootstrap-server HOST:PORT.")


def _exchange(connection: socket.socket, request: Any) -> Any:
    api_key, version = request.__api_key__, request.__version__
    body = io.BytesIO()
    entity_writer(type(request))(body, request)
    content = pack_request_header(api_key, version, 0, _CLIENT_ID) + body.getvalue()
    connection.sendall(_LENGTH.pack(len(content)) + content)
    with connection.makefile("rb") as stream:
        answer = _read(stream, _LENGTH.unpack(_read(stream, _LENGTH.size))[0])
    _, position = read_response_header(answer, api_key, version)
    response, _ = entity_reader(load_response_from_request(type(request)))(answer, position)
    return response


def _read(stream: io.BufferedReader, size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        raise EOFError
    return found
