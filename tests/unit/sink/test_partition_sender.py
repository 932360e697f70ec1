"""The answers of leaders to batches, and what becomes of them."""

import struct
from collections.abc import Generator, Iterable

import pyarrow as pa
import pytest

from esp.consumer.cluster import Address, LedPartition
from esp.consumer.errors import ConnectionLostError, ConsumerError
from esp.consumer.messages import Api, Broker, Partition
from esp.protocol.primitives import pack_nullable_text, pack_uvarint
from esp.records.batch_header import read_header
from esp.sink.errors import BeginAnewError
from esp.sink.order import WriteTerms
from esp.sink.partition_sender import PartitionSender
from esp.sink.producer_messages import Owner, ProducerId

PARTITION = Partition("t", 3)
ROWS = pa.RecordBatch.from_pydict({"value": [b"a", b"b", b"c"]})
LOST = -99


class FakeCluster:
    """A leader that answers with error codes in turn, then with none; keeps the sequences of the batches that it got."""

    def __init__(self, *codes: int) -> None:
        self._codes = list(codes)
        self.sequences: list[int] = []
        self.looked = 0

    def find_leaders(self, partitions: list[Partition]) -> dict[Partition, LedPartition]:
        self.looked += 1
        return {partition: LedPartition(Broker(1, "h", 9), 0) for partition in partitions}

    def call_each(
        self, server: Address, _api: Api, bodies: Iterable[bytes], _most: int
    ) -> Generator[memoryview, None, None]:
        assert server == Address("h", 9)
        for body in bodies:
            self.sequences.append(_sequence_of(body))
            code = self._codes.pop(0) if self._codes else 0
            if code == LOST:
                raise ConnectionLostError("h:9: the broker ended the connection")
            text = pack_nullable_text("t", flexible=True)
            part = (
                struct.pack(">ihqqq", 3, code, 0, -1, 0)
                + pack_uvarint(1)
                + pack_nullable_text("why", flexible=True)
                + b"\0"
            )
            yield memoryview(pack_uvarint(2) + text + pack_uvarint(2) + part + b"\0" + bytes(4) + b"\0")


def _sequence_of(body: bytes) -> int:
    """The base sequence of the one batch in a request."""
    start = body.index(b"\0\0\0\3") + 4
    while body[start] & 0x80:
        start += 1
    return read_header(memoryview(body), start + 1).base_sequence


def sender(cluster: FakeCluster, **terms: int) -> PartitionSender:
    return PartitionSender(cluster, PARTITION, WriteTerms(**terms))  # type: ignore[arg-type]


def owner(epoch: int = 0) -> Owner:
    return Owner("id", ProducerId(5, epoch))


def test_sequences_go_on_in_an_epoch_and_begin_anew_in_the_next() -> None:
    cluster = FakeCluster()
    one = sender(cluster)
    for epoch in (0, 0, 0, 1, 1):
        one.send([ROWS, ROWS], owner(epoch))
    assert cluster.sequences == [0, 3, 6, 9, 12, 15, 0, 3, 6, 9]
    assert cluster.looked == 1


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (19, "it has fewer in-sync replicas than its min.insync.replicas (NOT_ENOUGH_REPLICAS): start the brokers"),
        (20, "it has fewer in-sync replicas than its min.insync.replicas (NOT_ENOUGH_REPLICAS): start the brokers"),
        (6, "its leader moves (NOT_LEADER_OR_FOLLOWER)"),
        (47, "another producer has its transactional id (INVALID_PRODUCER_EPOCH)"),
        (LOST, "h:9: the broker ended the connection"),
    ],
)
def test_an_attempt_is_given_up_for_another_one_that_looks_for_the_leader(code: int, words: str) -> None:
    cluster = FakeCluster(code)
    one = sender(cluster)
    with pytest.raises(BeginAnewError) as caught:
        one.send([ROWS], owner())
    assert str(caught.value).startswith(f"partition 3 of topic t: {words}")
    one.send([ROWS], owner(1))
    assert cluster.looked == 2


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (29, "this user may not write to it (TOPIC_AUTHORIZATION_FAILED): grant WRITE and DESCRIBE on the topic"),
        (87, "its leader refuses a row (why): if the topic is compacted, give each row a key"),
    ],
)
def test_what_no_other_attempt_can_write_is_told(code: int, words: str) -> None:
    with pytest.raises(ConsumerError) as caught:
        sender(FakeCluster(code)).send([ROWS], owner())
    assert str(caught.value) == f"partition 3 of topic t: {words}"


def test_batches_become_smaller_until_the_topic_takes_them() -> None:
    cluster = FakeCluster(10, 10)
    one = sender(cluster, batch_bytes=200)
    for _ in range(2):
        with pytest.raises(BeginAnewError, match=r"a batch of \d+ bytes is too large"):
            one.send([ROWS], owner())
    cluster.sequences.clear()
    one.send([ROWS], owner(1))
    assert len(cluster.sequences) > 1


def test_one_record_that_is_too_large_is_told_with_its_size() -> None:
    rows = pa.RecordBatch.from_pydict({"value": [bytes(5000)]})
    with pytest.raises(
        ConsumerError, match=r"partition 3 of topic t: a record makes a batch of 5,0\d\d bytes, and the topic takes no"
    ):
        sender(FakeCluster(10)).send([rows], owner())
