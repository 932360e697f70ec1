"""A broker that leads one partition, behind a real socket: it answers as a script says, and remembers what it was asked."""

import contextlib
import datetime as dt
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any, Final, Self

import kio.schema.api_versions.v4.response as api_versions
import kio.schema.list_offsets.v11.response as list_offsets
import kio.schema.metadata.v13.response as metadata

from esp.consumer.messages import EARLIEST
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
    """

    def __init__(self, topic: str, batches: Sequence[bytes], script: Sequence[Step] = (), log_start: int = 0) -> None:
        self.topic = topic
        self.asked: list[FetchPartition] = []
        self.connections = 0
        self.batches_most = 1
        self.epoch = 5
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
        result = self._result(wanted, step if isinstance(step, int) else 0)
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
        return FetchResult(self.topic, 0, error, end, end, self._log_start, records)

    def _answer(self, key: int, version: int, body: bytes) -> Any:
        if key == ApiKey.API_VERSIONS:
            return api_versions.ApiVersionsResponse(error_code=ErrorCode.none, api_keys=(), throttle_time=NO_TIME)
        request = decode_request(key, version, body)
        return self._metadata() if key == ApiKey.METADATA else self._offsets(request)

    def _metadata(self) -> Any:
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
            topics=(
                metadata.MetadataResponseTopic(
                    error_code=ErrorCode.none, name=self.topic, topic_id=None, is_internal=False, partitions=(led,)
                ),
            ),
        )

    def _offsets(self, request: Any) -> Any:
        timestamp = request.topics[0].partitions[0].timestamp
        found = list_offsets.ListOffsetsPartitionResponse(
            partition_index=0,
            error_code=ErrorCode.none,
            timestamp=-1,
            offset=self._log_start if timestamp == EARLIEST else self.end_offset,
            leader_epoch=self.epoch,
        )
        topic = list_offsets.ListOffsetsTopicResponse(name=self.topic, partitions=(found,))
        return list_offsets.ListOffsetsResponse(throttle_time=NO_TIME, topics=(topic,))


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
