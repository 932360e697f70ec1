"""What Produce requests of one client for one partition have in common, byte for byte, and the answer to them; from version 9 on.

Such requests differ in their size, their correlation id and their records; their answers in correlation id, offsets and time. Whoever has
decoded one, and answered it, need not decode and encode the rest of the others. Layout: :mod:`esp.protocol.produce_codec`, from whose own
answer the pieces are cut, and against which the tests hold both.
"""

import struct
from typing import Final

from esp.ports.network import Buffer
from esp.protocol.primitives import TopicRef, pack_compact_topic
from esp.protocol.produce_codec import ProduceResult, encode_produce_response

COMMON_OFFSET: Final = 12
"""Where the common bytes begin in a frame, its length included: behind that, API key and version, and correlation id."""

NO_TAGS: Final[Buffer] = b"\0\0\0"
"""What follows the records of a request's only partition: the tagged fields of partition, topic and request."""

_CLIENT_ID_LENGTH: Final = struct.Struct(">h")
_ACKS_TIMEOUT: Final = struct.Struct(">xxhiB")
"""No tagged fields in the header, no transactional id, acks, timeout, one topic."""

_PARTITION: Final = struct.Struct(">Bi")
_NUMBERS_SIZE: Final = 24
_TAIL_SIZE: Final = 9
"""Behind base offset, log append time and log start offset: no errors of records, no message, no tags, no throttle time."""


def pack_client(client_id: str | None, acks: int, timeout_ms: int) -> bytes:
    """The common bytes up to the topic: rest of the header, no transaction, ``acks``, ``timeout_ms``, one topic."""
    name = b"" if client_id is None else client_id.encode()
    length = _CLIENT_ID_LENGTH.pack(-1 if client_id is None else len(name))
    return length + name + _ACKS_TIMEOUT.pack(acks, timeout_ms, 2)


def pack_partition(topic: TopicRef, partition: int) -> bytes:
    """The common bytes from the topic to the partition's number; the size of the records follows, and the records."""
    return pack_compact_topic(topic) + _PARTITION.pack(2, partition)


class RepeatedAnswer:
    """The answer for one partition that took the records.

    Args:
        version: of the request.
        topic: as the request names it.
        partition: its number.
    """

    __slots__ = ("_middle", "_pack", "_size", "_tail")

    def __init__(self, version: int, topic: TopicRef, partition: int) -> None:
        frame = encode_produce_response(version, 0, [ProduceResult(topic, partition, 0, 0)])
        numbers = len(frame) - _TAIL_SIZE - _NUMBERS_SIZE
        self._size = frame[:4]
        self._middle = frame[8:numbers]
        self._tail = frame[-_TAIL_SIZE:]
        self._pack = struct.Struct(f">4si{numbers - 8}sqqq{_TAIL_SIZE}s").pack

    def encode(self, correlation_id: int, base_offset: int, log_append_time_ms: int, log_start_offset: int) -> bytes:
        """The whole frame, length included: what ``encode_produce_response`` makes of the same numbers."""
        return self._pack(
            self._size, correlation_id, self._middle, base_offset, log_append_time_ms, log_start_offset, self._tail
        )
