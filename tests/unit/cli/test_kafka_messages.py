import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kio.schema.types import BrokerId
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

from esp.cli.kafka.brokers import call
from esp.model.errors import ErrorCode, OperatorError

REQUEST = UnregisterBrokerRequest(broker_id=BrokerId(7))


@contextmanager
def broker(answer: Callable[[bytes], bytes]) -> Iterator[str]:
    """The address of a broker that answers one request."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(30)

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as stream:
            connection.sendall(answer(stream.read(struct.unpack(">i", stream.read(4))[0])))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        thread.join()
        listener.close()


def test_request_and_answer_are_those_of_the_protocol() -> None:
    asked: list[bytes] = []

    def answer(frame: bytes) -> bytes:
        asked.append(frame)
        text = b"no such broker"
        content = (
            struct.pack(">iBih", 0, 0, 0, ErrorCode.broker_id_not_registered) + bytes([len(text) + 1]) + text + b"\0"
        )
        return struct.pack(">i", len(content)) + content

    with broker(answer) as address:
        told = call(address, REQUEST)
    assert asked == [struct.pack(">hhih3sBiB", 64, 0, 0, 3, b"esp", 0, 7, 0)]
    assert (told.error_code.value, told.error_message) == (ErrorCode.broker_id_not_registered, "no such broker")


@pytest.mark.parametrize("answer", [b"", b"\0\0\0\x20\0\0", struct.pack(">i", 2) + b"\0\0"])
def test_answer_that_ends_early_is_told_and_not_asked_for_again(answer: bytes) -> None:
    with broker(lambda _: answer) as address, pytest.raises(OperatorError, match="did not answer") as caught:
        call(address, REQUEST)
    assert "may have been carried out" in caught.value.remedy


def test_where_nobody_listens_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(OperatorError, match="no broker answers"):
        call(f"127.0.0.1:{port}", REQUEST)
