"""What bad input gets: Kafka's error code, or a closed connection for garbage; other connections do not notice."""

import contextlib
import datetime as dt
import random
import socket
import struct
import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from crc32c import crc32c
from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kio.schema.api_versions.v0.response import ApiVersionsResponse as ApiVersionsResponse0
from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11.request import FetchRequest as FetchRequest11
from kio.serial import entity_reader

from esp.records.batch_header import ATTRIBUTES_OFFSET, CRC_OFFSET, HEADER_SIZE, MAGIC_OFFSET, pack_header, read_header
from esp.records.builder import NewRecord, build_batch
from esp.testing.node_process import HOST, NodeProcess
from esp.testing.pytest_plugin import NodeFactory
from tests.integration import messages
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.messages import fetch_one, send_batch
from tests.integration.wire import Wire, frame, raw_frame

FRAME_MAX_BYTES = 104_857_600
"""Kafka's default ``socket.request.max.bytes``."""

NOW_MS = time.time_ns() // 1_000_000


def batch_of(*values: bytes, **settings: object) -> bytes:
    return build_batch([NewRecord(value) for value in values], timestamp_ms=NOW_MS, **settings)


@pytest.fixture(autouse=True)
def bystander(node: NodeProcess) -> Iterator[Wire]:
    """A connection from before the test, which is served as if nothing had happened after it."""
    with Wire(node) as wire:
        wire.call(messages.api_versions())
        yield wire
        assert wire.call(messages.metadata()).cluster_id


@pytest.fixture
def wire(node: NodeProcess) -> Iterator[Wire]:
    """A connection that will behave badly."""
    with Wire(node) as wire:
        yield wire


GARBAGE = {
    "a frame that is too large": struct.pack(">i", FRAME_MAX_BYTES + 1),
    "a frame of 2^31-1 bytes": b"\x7f\xff\xff\xff",
    "a frame of negative length": b"\xff\xff\xff\xff" + bytes(100),
    "a frame of the least length": b"\x80\x00\x00\x00" + bytes(100),
    "an empty frame": bytes(4),
    "a header that is cut": struct.pack(">ihh", 4, 18, 3),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
    "a TLS handshake": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "noise": random.Random(1).randbytes(4000),
    "zeroes": bytes(4000),
    "an unknown API": raw_frame(9999, 0),
    "an API with a negative key": raw_frame(-1, 0),
    "an API of brokers among themselves": raw_frame(27, 1),
    "a version above the known ones": raw_frame(3, 99),
    "a negative version": raw_frame(3, -1),
    "Produce 0": raw_frame(0, 0, bytes(100)),
    "Produce 2": raw_frame(0, 2, bytes(100)),
    "Fetch 3": raw_frame(1, 3, bytes(100)),
    "a request without its body": raw_frame(3, 4),
    "an array of 2^31-1 elements": raw_frame(3, 4, b"\x7f\xff\xff\xff"),
    "a string that is longer than the frame": raw_frame(3, 4, b"\0\0\0\1\x7f\xff" + b"x" * 10),
    "a client id that is longer than the frame": struct.pack(">ihhih", 12, 3, 4, 1, 30_000) + b"ab",
}


@pytest.mark.parametrize("garbage", GARBAGE)
def test_connection_that_sends_garbage_is_closed(wire: Wire, garbage: str) -> None:
    wire.socket.sendall(GARBAGE[garbage])
    assert wire.is_closed_by_node()


def test_a_fetch_session_does_not_name_a_topic_for_which_an_older_version_has_no_room(wire: Wire) -> None:
    longest = "\N{EURO SIGN}" * 8_191
    begun = wire.call(messages.fetch(longest, 0, session=(0, 0)))
    further = FetchRequest11(
        max_wait=dt.timedelta(0),
        min_bytes=0,
        isolation_level=0,
        session_id=begun.session_id,
        session_epoch=1,
        topics=(),
        forgotten_topics_data=(),
    )
    assert [topic.topic for topic in wire.call(further).responses] == [longest]
    wire.socket.sendall(frame(messages.fetch("t" * 40_000, 0, session=(0, 0)), 8))
    assert wire.is_closed_by_node()


@pytest.mark.parametrize("size", [32_768, 20_000_000])
def test_a_name_that_is_longer_than_a_name_can_be_ends_the_connection(
    node: NodeProcess, wire: Wire, bystander: Wire, size: int
) -> None:
    entity = EntityData(entity_type="client-id", entity_name="c" * size)
    rate = OpData(key="producer_byte_rate", value=1e9, remove=False)
    wire.socket.sendall(
        frame(AlterClientQuotasRequest(entries=(EntryData(entity=(entity,), ops=(rate,)),), validate_only=False), 7)
    )
    assert wire.is_closed_by_node()
    assert not bystander.call(DescribeClientQuotasRequest(components=(), strict=False)).entries


def test_requests_before_the_garbage_are_answered(wire: Wire) -> None:
    wire.socket.sendall(frame(messages.api_versions(), 1) + frame(messages.metadata(), 2) + raw_frame(9999, 0))
    assert [wire.read().correlation_id for _ in range(2)] == [1, 2]
    assert wire.is_closed_by_node()


def test_api_versions_of_an_unknown_version_is_told_the_known_ones(wire: Wire) -> None:
    wire.socket.sendall(raw_frame(18, 99, b"\0\5later\0\0", correlation_id=7))
    answer = wire.read()
    assert answer.correlation_id == 7
    response, _ = entity_reader(ApiVersionsResponse0)(answer.rest, 0)
    assert response.error_code == ErrorCode.unsupported_version
    assert {(api.api_key, api.min_version, api.max_version) for api in response.api_keys} >= {(18, 0, 4)}
    assert wire.call(messages.api_versions()).error_code == ErrorCode.none


def test_client_that_leaves_in_the_middle_of_a_frame_does_no_harm(node: NodeProcess, bystander: Wire) -> None:
    whole = frame(messages.metadata(), 1)
    for length in (0, 1, 3, 4, 5, len(whole) - 1):
        with Wire(node) as wire:
            wire.socket.sendall(whole[:length])
    with Wire(node) as wire:  # the same with a reset in place of an orderly end
        wire.socket.sendall(whole[:-1])
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert bystander.call(messages.metadata()).cluster_id


def test_request_that_comes_byte_by_byte_is_answered(wire: Wire, bystander: Wire) -> None:
    for byte in frame(messages.metadata(), 5):
        wire.socket.sendall(bytes([byte]))
        time.sleep(0.0005)  # so that each byte is a read of its own
    assert bystander.call(messages.metadata()).cluster_id
    assert wire.read().correlation_id == 5


def test_many_requests_in_one_write_are_answered_in_order(wire: Wire) -> None:
    wire.socket.sendall(b"".join(frame(messages.api_versions(), i) for i in range(500)))
    assert [wire.read().correlation_id for _ in range(500)] == list(range(500))


def test_answers_wait_for_an_earlier_request_that_waits(wire: Wire, make_topic: MakeTopic) -> None:
    topic = make_topic()
    assert send_batch(wire, topic, batch_of(b"v")) == (ErrorCode.none, 0)  # the topic has a leader from here on
    waiting = messages.fetch(topic, 1, max_wait_ms=300, min_bytes=1)
    start = time.monotonic()
    wire.socket.sendall(frame(waiting, 1) + frame(messages.api_versions(), 2))
    assert [wire.read().correlation_id for _ in range(2)] == [1, 2]
    assert time.monotonic() - start >= 0.25


def test_flood_of_connections_is_served(node: NodeProcess) -> None:
    wires = [Wire(node) for _ in range(300)]
    try:
        for wire in wires:
            wire.socket.sendall(frame(messages.api_versions(), 3))
        assert {wire.read().correlation_id for wire in wires} == {3}
    finally:
        for wire in wires:
            wire.socket.close()


def test_connections_over_the_limit_are_ended_and_the_others_are_not(fresh_node: NodeFactory) -> None:
    node = fresh_node({"max.connections.per.ip": "5"})
    wires = [Wire(node) for _ in range(10)]
    served = [wire for wire in wires if is_served(wire)]
    assert 1 <= len(served) <= 5
    assert all(is_served(wire) for wire in served)
    served.pop().socket.close()

    def is_newcomer_served() -> bool:
        with Wire(node) as newcomer:
            return is_served(newcomer)

    eventually(is_newcomer_served)  # the node may not have seen yet that a place is free
    for wire in wires:
        wire.socket.close()


def is_served(wire: Wire) -> bool:
    try:
        return wire.call(messages.api_versions()).error_code == ErrorCode.none
    except (EOFError, ConnectionError):
        return False


def test_idle_connection_is_closed(fresh_node: NodeFactory) -> None:
    node = fresh_node({"connections.max.idle.ms": "1000"})
    with Wire(node) as idle, Wire(node) as half_open:
        idle.call(messages.api_versions())
        half_open.socket.sendall(b"\0\0")
        assert idle.is_closed_by_node()
        assert half_open.is_closed_by_node()


def test_client_that_takes_no_answers_fills_neither_the_node_nor_others_time(
    node: NodeProcess, wire: Wire, make_topic: MakeTopic, bystander: Wire
) -> None:
    topic = make_topic()
    assert send_batch(wire, topic, batch_of(b"x" * 1_000_000)) == (ErrorCode.none, 0)
    before = node.rss_bytes()
    wire.socket.settimeout(0.5)
    requests = b"".join(frame(messages.fetch(topic, 0, partition_max_bytes=1_100_000), i) for i in range(1000))
    with contextlib.suppress(TimeoutError):  # the node reads no further: just what it should do
        wire.socket.sendall(requests)
    start = time.monotonic()
    for _ in range(20):
        bystander.call(messages.metadata())
    assert time.monotonic() - start < 2
    assert node.rss_bytes() - before < 300_000_000


def resealed(batch: bytes, **fields: int) -> bytes:
    """The batch with other header fields and a checksum that is right."""
    header = bytearray(pack_header(read_header(batch)._replace(**fields)))
    checksum = crc32c(bytes(header[ATTRIBUTES_OFFSET:]) + batch[HEADER_SIZE:])
    struct.pack_into(">I", header, CRC_OFFSET, checksum)
    return bytes(header) + batch[HEADER_SIZE:]


BAD_BATCHES = {
    "a wrong checksum": (ErrorCode.corrupt_message, lambda b: b[:CRC_OFFSET] + b"\0\0\0\0" + b[ATTRIBUTES_OFFSET:]),
    "a flipped bit in a record": (ErrorCode.corrupt_message, lambda b: b[:-3] + bytes([b[-3] ^ 1]) + b[-2:]),
    "a length that is too small": (ErrorCode.corrupt_message, lambda b: b[:8] + struct.pack(">i", 10) + b[12:]),
    "a cut batch": (ErrorCode.invalid_record, lambda b: b[:-1]),
    "two batches": (ErrorCode.invalid_record, lambda b: b + b),
    "nothing": (ErrorCode.invalid_record, lambda b: b""),
    "the format before last": (ErrorCode.invalid_record, lambda b: b[:MAGIC_OFFSET] + b"\1" + b[MAGIC_OFFSET + 1 :]),
    "an unknown format": (ErrorCode.corrupt_message, lambda b: b[:MAGIC_OFFSET] + b"\7" + b[MAGIC_OFFSET + 1 :]),
    "a control batch": (
        ErrorCode.invalid_record,
        lambda b: batch_of(b"v", control=True, producer_id=1, producer_epoch=0),
    ),
    "a transactional batch": (
        # Kafka asks its authorizer about the missing transactional id first
        ErrorCode.transactional_id_authorization_failed,
        lambda b: batch_of(b"v", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0),
    ),
    "more than the limit": (ErrorCode.message_too_large, lambda b: batch_of(b"x" * 1_048_588)),
    "a base offset": (ErrorCode.invalid_record, lambda b: resealed(b, base_offset=17)),
    "no records": (ErrorCode.invalid_record, lambda b: resealed(b, record_count=0)),
    "fewer records than offsets": (ErrorCode.invalid_record, lambda b: resealed(b, record_count=1)),
    "more records than offsets": (ErrorCode.invalid_record, lambda b: resealed(b, record_count=3)),
    "a negative number of records": (ErrorCode.invalid_record, lambda b: resealed(b, record_count=-1)),
    "offsets that go back": (ErrorCode.invalid_record, lambda b: resealed(b, last_offset_delta=-1)),
    "a producer without a sequence": (
        ErrorCode.invalid_record,
        lambda b: resealed(b, producer_id=1, producer_epoch=0, base_sequence=-1),
    ),
    "a timestamp of tomorrow": (
        ErrorCode.invalid_timestamp,
        lambda b: build_batch([NewRecord(b"v")], timestamp_ms=NOW_MS + 86_400_000),
    ),
}


@pytest.mark.parametrize("bad", BAD_BATCHES)
def test_bad_batch_is_refused_and_leaves_no_trace(wire: Wire, make_topic: MakeTopic, bad: str) -> None:
    topic = make_topic()
    code, spoil = BAD_BATCHES[bad]
    assert send_batch(wire, topic, spoil(batch_of(b"a", b"b"))) == (code, -1)
    assert send_batch(wire, topic, batch_of(b"good")) == (ErrorCode.none, 0)
    assert fetch_one(wire, messages.fetch(topic, 0)).high_watermark == 1


def test_bad_batch_without_acks_closes_the_connection(wire: Wire, make_topic: MakeTopic) -> None:
    topic = make_topic()
    wire.socket.sendall(frame(messages.produce(topic, b"garbage" * 20, acks=0), 1))
    assert wire.is_closed_by_node()


def test_acks_that_do_not_exist_are_refused(wire: Wire, make_topic: MakeTopic) -> None:
    topic = make_topic()
    response = wire.call(messages.produce(topic, batch_of(b"v"), acks=5))
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.invalid_required_acks
    assert fetch_one(wire, messages.fetch(topic, 0)).high_watermark == 0


@pytest.mark.parametrize(("name", "partition"), [("no-such-topic", 0), (None, 1), (None, -1), (None, 2**31 - 1)])
def test_unknown_topics_and_partitions_are_unknown_to_every_api(
    wire: Wire, make_topic: MakeTopic, name: str | None, partition: int
) -> None:
    topic = name or make_topic()
    unknown = ErrorCode.unknown_topic_or_partition
    assert send_batch(wire, topic, batch_of(b"v"), partition=partition) == (unknown, -1)
    assert fetch_one(wire, messages.fetch(topic, 0, partition=partition)).error_code == unknown
    listed = wire.call(messages.list_offsets(topic, -1, partition=partition)).topics[0].partitions[0]
    assert listed.error_code == unknown


def test_unknown_topic_id_is_unknown(wire: Wire) -> None:
    assert fetch_one(wire, messages.fetch_by_id(uuid.uuid4())).error_code == ErrorCode.unknown_topic_id


def test_name_that_no_topic_can_have_is_invalid(wire: Wire) -> None:
    for name in ("no/slashes", "..", "x" * 250, ""):
        [answer] = wire.call(messages.metadata(name, create=True)).topics
        assert answer.error_code == ErrorCode.invalid_topic_exception


@pytest.mark.parametrize("offset", [-1, -(2**63), 2, 2**63 - 1])
def test_offset_outside_the_log_is_out_of_range(wire: Wire, make_topic: MakeTopic, offset: int) -> None:
    topic = make_topic()
    send_batch(wire, topic, batch_of(b"v"))
    answer = fetch_one(wire, messages.fetch(topic, offset, max_wait_ms=5000, min_bytes=1))
    assert answer.error_code == ErrorCode.offset_out_of_range


def test_epochs_that_are_not_the_leaders_are_refused(wire: Wire, make_topic: MakeTopic) -> None:
    topic = make_topic()
    send_batch(wire, topic, batch_of(b"v"))
    assert fetch_one(wire, messages.fetch(topic, 0, leader_epoch=0)).error_code == ErrorCode.none
    assert fetch_one(wire, messages.fetch(topic, 0, leader_epoch=1)).error_code == ErrorCode.unknown_leader_epoch


def test_fetch_sessions_that_do_not_exist_are_refused(wire: Wire, make_topic: MakeTopic) -> None:
    topic = make_topic()
    assert wire.call(messages.fetch(topic, 0, session=(12345, 1))).error_code == ErrorCode.fetch_session_id_not_found
    opened = wire.call(messages.fetch(topic, 0, session=(0, 0)))
    assert opened.session_id > 0
    wrong = wire.call(messages.fetch(topic, 0, session=(opened.session_id, 5)))
    assert wrong.error_code == ErrorCode.invalid_fetch_session_epoch


def test_node_serves_a_producer_while_others_misbehave(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    stopping = threading.Event()

    def misbehave(seed: int) -> None:
        rng = random.Random(seed)
        while not stopping.is_set():
            with Wire(node) as wire:
                wire.socket.sendall(rng.choice(list(GARBAGE.values())))

    threads = [threading.Thread(target=misbehave, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        with Wire(node) as good:
            assert [send_batch(good, topic, batch_of(b"v")) for _ in range(300)] == [
                (ErrorCode.none, offset) for offset in range(300)
            ]
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


def test_connect_and_leave_does_no_harm(node: NodeProcess) -> None:
    for _ in range(200):
        socket.create_connection((HOST, node.port)).close()
