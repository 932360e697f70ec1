"""A blocking client of few parts: one socket, requests made beforehand, answers into one buffer.

It is the same for both brokers and costs little beside them. Its answers are looked at closely enough to know that the work was done.
"""

import socket
import struct
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from kio.schema.create_topics.v7 import request as create_topics
from kio.schema.delete_topics.v6 import request as delete_topics
from kio.schema.list_offsets.v11 import request as list_offsets
from kio.schema.metadata.v13 import request as metadata
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

from esp.model.errors import ErrorCode
from esp.protocol.headers import read_response_header
from esp.protocol.messages import decode_response, encode_request
from esp.protocol.registry import ApiKey

CLIENT_ID: Final = "benchmark"
RECEIVE_BUFFER_SIZE: Final = 64 << 10
"""More than any answer but those to Fetch."""

TIMEOUT_S: Final = 60.0
POLL_INTERVAL_S: Final = 0.005

ADMIN_TIMEOUT: Final = timedelta(seconds=30)
METADATA_VERSION: Final = 13
CREATE_TOPICS_VERSION: Final = 7
DELETE_TOPICS_VERSION: Final = 6
LIST_OFFSETS_VERSION: Final = 11
LATEST: Final = i64(-1)

_LENGTH: Final = struct.Struct(">i")
_TIMEVAL: Final = struct.Struct("@ll")


class UnexpectedAnswerError(Exception):
    """A broker answered a request of the benchmark with an error."""


class Client:
    """A connection to a broker; a context manager.

    Args:
        port: of the broker on the loopback address.
        receive_buffer_size: of the largest answer.

    Raises:
        OSError: no process listens on the port.
    """

    def __init__(self, port: int, receive_buffer_size: int = RECEIVE_BUFFER_SIZE) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        # the kernel's own time limit: Python's would ask poll() before each call
        self.socket.settimeout(None)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL.pack(int(TIMEOUT_S), 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(receive_buffer_size))

    def receive(self) -> memoryview:
        """Return the next answer without its length; it is overwritten by the one after it.

        Raises:
            UnexpectedAnswerError: the broker closed the connection.
            BlockingIOError: it did not answer within ``TIMEOUT_S``.
        """
        size: int = _LENGTH.unpack(self._receive_exactly(4))[0]
        return self._receive_exactly(size)

    def _receive_exactly(self, size: int) -> memoryview:
        view = self._buffer[:size]
        assert len(view) == size, "the answer is larger than the receive buffer"
        if self.socket.recv_into(view, size, socket.MSG_WAITALL) != size:
            raise UnexpectedAnswerError("the broker closed the connection")
        return view

    def ask(self, api_key: ApiKey, version: int, message: Any) -> Any:
        """Send a request and return its decoded answer."""
        self.socket.sendall(encode_request(api_key, version, 0, CLIENT_ID, message))
        answer = self.receive()
        return decode_response(api_key, version, answer[read_response_header(answer, api_key, version)[1] :])

    def close(self) -> None:
        """End the connection."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def check(error_code: int, what: str) -> None:
    """Raise UnexpectedAnswerError, which says ``what`` failed, for an error code other than that of success."""
    if error_code:
        raise UnexpectedAnswerError(f"{what}: {ErrorCode(error_code).name}")


OpenClient = Callable[..., Client]
"""Makes a connection to a port, with the arguments of :class:`Client`: that class itself, or the door of a guarded broker."""


def create_topic(port: int, name: str, partitions: int, open_client: OpenClient = Client) -> None:
    """Create a topic with one replica and default settings, and return once all its partitions are served."""
    with open_client(port) as client:
        answer = client.ask(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, create_topic_request(name, partitions))
    for result in answer.topics:
        check(result.error_code, f"creating topic {name}")
    wait_until_served(port, {name: partitions}, open_client=open_client)


def create_topic_request(name: str, partitions: int) -> create_topics.CreateTopicsRequest:
    """The request that creates a topic with one replica and default settings."""
    topic = create_topics.CreatableTopic(
        name=TopicName(name), num_partitions=i32(partitions), replication_factor=i16(1), assignments=(), configs=()
    )
    return create_topics.CreateTopicsRequest(topics=(topic,))


def list_offsets_request(name: str, partitions: int) -> list_offsets.ListOffsetsRequest:
    """The request for the log ends of all partitions of a topic."""
    asked = [
        list_offsets.ListOffsetsPartition(partition_index=i32(number), timestamp=LATEST) for number in range(partitions)
    ]
    return list_offsets.ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(0),
        topics=(list_offsets.ListOffsetsTopic(name=TopicName(name), partitions=tuple(asked)),),
        timeout=i32Timedelta.parse(ADMIN_TIMEOUT),
    )


def delete_topic(port: int, name: str, open_client: OpenClient = Client) -> None:
    """Delete a topic; its files go a moment later."""
    request = delete_topics.DeleteTopicsRequest(
        topics=(delete_topics.DeleteTopicState(name=TopicName(name), topic_id=None),),
        timeout=i32Timedelta.parse(ADMIN_TIMEOUT),
    )
    with open_client(port) as client:
        answer = client.ask(ApiKey.DELETE_TOPICS, DELETE_TOPICS_VERSION, request)
    for result in answer.responses:
        check(result.error_code, f"deleting topic {name}")


def wait_until_served(
    port: int, topics: dict[str, int], timeout_s: float = TIMEOUT_S, open_client: OpenClient = Client
) -> None:
    """Return once the broker takes requests for all partitions of ``topics`` (partition counts by name).

    It answers Metadata with itself and their leaders, and ListOffsets for each: Kafka tells of a leader a moment before that serves.

    Raises:
        UnexpectedAnswerError: it does not within the time.
    """
    deadline = time.monotonic() + timeout_s
    while not _is_served(port, topics, open_client):
        if time.monotonic() > deadline:
            raise UnexpectedAnswerError(f"the broker on port {port} does not serve {topics or 'anything'}")
        time.sleep(POLL_INTERVAL_S)


def _is_served(port: int, topics: dict[str, int], open_client: OpenClient) -> bool:
    try:
        with open_client(port) as client:
            return _has_leaders(client, topics) and all(map(partial(_has_offsets, client), topics.items()))
    except (OSError, UnexpectedAnswerError):
        return False


def _has_leaders(client: Client, topics: dict[str, int]) -> bool:
    asked = [metadata.MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in topics]
    request = metadata.MetadataRequest(
        topics=tuple(asked), allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    answer = client.ask(ApiKey.METADATA, METADATA_VERSION, request)
    return bool(answer.brokers) and all(
        [partition.leader_id >= 0 for partition in topic.partitions] == [True] * topics[topic.name]
        for topic in answer.topics
    )


def _has_offsets(client: Client, topic: tuple[str, int]) -> bool:
    answer = client.ask(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, list_offsets_request(*topic))
    return not any(partition.error_code for answered in answer.topics for partition in answered.partitions)
