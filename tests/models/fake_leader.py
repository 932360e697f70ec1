"""A broker that leads one partition, behind a real socket: it answers as a script says, and remembers what it was asked."""

import contextlib
import datetime as dt
import socket
import struct
import threading
import uuid
from collections.abc import Sequence
from typing import Any, Final, Self

import kio.schema.api_versions.v4.response as api_versions
import kio.schema.list_offsets.v11.response as list_offsets
import kio.schema.metadata.v13.response as metadata
from kio.static.primitive import i16

from esp.consumer.messages import EARLIEST, LATEST
from esp.model.errors import ErrorCode
from esp.protocol.fetch_codec import FetchPartition, FetchResult, decode_fetch, encode_fetch_response
from esp.protocol.headers import read_request_header
from esp.protocol.messages import decode_request, encode_response
from esp.protocol.registry import ApiKey
from esp.records.batch_header import read_header, read_size

HOST: Final = "127.0.0.1"
CUT: Final = "cut"
"""Half of an answer is sent, and the connection ends."""
CLOSE: Final = "close"
"""The connection ends instead of an answer."""
SILENCE: Final = "silence"
"""No answer comes."""

NO_TIME: Final = dt.timedelta(0)

Step = int | str | None
"""An error code, a fault, or None for records."""


class FakeLeader:
    """Serves the batches of one partition. A context manager.

    Args:
        topic: the topic, of one partition.
        batches: the batches of its log, one behind the other.
        script: what becomes of the Fetch requests one after the other; all after the last get records.
        log_start: the first offset.

    Attributes:
        asked: the fetches, in order.
        connections: the number of connections on which records were asked for.
        batches_most: the number of batches of an answer.
        topic_id: the id of the topic; if there is one, fetches by ids are served.
        hidden: for so many answers to Metadata the broker does not know the topic.
        behind: for so many answers to Metadata it knows the topic, and not its partition.
        arriving: batches that are written as soon as the end was asked for.
    """

    def __init__(self, topic: str, batches: Sequence[bytes], script: Sequence[Step] = (), log_start: int = 0) -> None:
        self.topic = topic
        self.asked: list[FetchPartition] = []
        self.connections = 0
        self.batches_most = 1
        self.epoch = 5
        self.topic_id: uuid.UUID | None = None
        self.hidden = 0
        self.behind = 0
        self.arriving: list[bytes] = []
        self._batches = list(batches)
        self._script = list(script)
        self._log_start = log_start
        self._listener = socket.create_server((HOST, 0))
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._sockets:
            _end(one)
        for thread in self._threads:
            thread.join(10)

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return max((read_header(batch).next_offset for batch in self._batches), default=self._log_start)

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(accepted)
            thread = threading.Thread(target=self._serve, args=(accepted,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        fetches = 0
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as incoming:
            while len(size := incoming.read(4)) == 4:
                frame = incoming.read(struct.unpack(">i", size)[0])
                header = read_request_header(frame)
                body = frame[header.body_position :]
                key, version, number = header[:3]
                if key == ApiKey.FETCH:
                    fetches += 1
                    self.connections += fetches == 1
                    if not self._answer_fetch(connection, version, number, body):
                        return
                else:
                    connection.sendall(encode_response(key, version, number, self._answer(key, version, body)))

    def _answer_fetch(self, connection: socket.socket, version: int, number: int, body: bytes) -> bool:
        """Answer as the script says; True if the connection goes on."""
        [wanted] = decode_fetch(memoryview(body), version).partitions
        self.asked.append(wanted)
        step = self._script.pop(0) if self._script else None
        if step == SILENCE:
            return True
        if step == CLOSE:
            return False
        error = step if isinstance(step, int) else 0
        if not isinstance(wanted.topic, str) and (self.topic_id is None or wanted.topic != self.topic_id.bytes):
            error = ErrorCode.unknown_topic_id.value
        result = self._result(wanted, error)
        answer = b"".join(encode_fetch_response(version, number, [result]))
        connection.sendall(answer[: len(answer) // 2] if step == CUT else answer)
        return step != CUT

    def _result(self, wanted: FetchPartition, error: int) -> FetchResult:
        if not error and not self._log_start <= wanted.fetch_offset <= self.end_offset:
            error = ErrorCode.offset_out_of_range.value
        records = b""
        if not error:
            later = [batch for batch in self._batches if read_header(batch).next_offset > wanted.fetch_offset]
            records = b"".join(later[: self.batches_most])
            assert not records or read_size(records) <= len(records)
        end = self.end_offset
        return FetchResult(wanted.topic, 0, error, end, end, self._log_start, records)

    def _answer(self, key: int, version: int, body: bytes) -> Any:
        if key == ApiKey.API_VERSIONS:
            return api_versions.ApiVersionsResponse(
                error_code=ErrorCode.none, api_keys=self._versions(), throttle_time=NO_TIME
            )
        request = decode_request(key, version, body)
        return self._metadata(request) if key == ApiKey.METADATA else self._offsets(request)

    def _versions(self) -> tuple[api_versions.ApiVersion, ...]:
        """All of the three APIs where fetches by ids are served, else none, which is said of all."""
        served = (ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA) if self.topic_id is not None else ()
        return tuple(
            api_versions.ApiVersion(api_key=i16(key), min_version=i16(0), max_version=i16(13)) for key in served
        )

    def _metadata(self, request: Any) -> Any:
        is_known = self.hidden <= 0
        self.hidden -= 1
        is_behind = self.behind > 0
        self.behind -= 1
        led = metadata.MetadataResponsePartition(
            error_code=ErrorCode.none,
            partition_index=0,
            leader_id=1,
            leader_epoch=self.epoch,
            replica_nodes=(1,),
            isr_nodes=(1,),
            offline_replicas=(),
        )
        return metadata.MetadataResponse(
            error_code=ErrorCode.none,
            throttle_time=NO_TIME,
            brokers=(metadata.MetadataResponseBroker(node_id=1, host=HOST, port=self.port, rack=None),),
            cluster_id="fake",
            controller_id=1,
            topics=()
            if request.topics is None and not is_known
            else (
                metadata.MetadataResponseTopic(
                    error_code=ErrorCode.none if is_known else ErrorCode.unknown_topic_or_partition,
                    name=self.topic,
                    topic_id=self.topic_id if is_known else None,
                    is_internal=False,
                    partitions=(led,) if is_known and not is_behind else (),
                ),
            ),
        )

    def _offsets(self, request: Any) -> Any:
        timestamp = request.topics[0].partitions[0].timestamp
        offset = self._log_start if timestamp == EARLIEST else self.end_offset
        if timestamp >= 0:
            offset = int(read_header(self._batches[-1]).base_offset)
        if timestamp == LATEST:
            self._batches += self.arriving
            self.arriving = []
        found = list_offsets.ListOffsetsPartitionResponse(
            partition_index=0,
            error_code=ErrorCode.none,
            timestamp=-1,
            offset=offset,
            leader_epoch=self.epoch,
        )
        topic = list_offsets.ListOffsetsTopicResponse(name=self.topic, partitions=(found,))
        return list_offsets.ListOffsetsResponse(throttle_time=NO_TIME, topics=(topic,))


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
