"""Coordinators that move, start and refuse, under a transactional producer."""

import struct

import pytest

from esp.consumer import group_messages
from esp.consumer.cluster import Address
from esp.consumer.connection import Deadline
from esp.consumer.errors import ConnectionLostError, ConsumerError
from esp.consumer.messages import Api, Partition
from esp.protocol.primitives import pack_nullable_text, pack_uvarint
from esp.sink import producer_messages
from esp.sink.errors import BeginAnewError, FencedError
from esp.sink.producer_messages import Owner, ProducerId
from esp.sink.transactional_producer import TransactionalProducer

LOST = -99


def text(value: str) -> bytes:
    return pack_nullable_text(value, flexible=True)


class FakeCluster:
    """Answers with error codes in turn, then with none.

    Attributes:
        looked: what coordinators were looked for.
        asked: the names of the requests.
    """

    def __init__(self, *codes: int, looks: tuple[int, ...] = ()) -> None:
        self._codes = list(codes)
        self._looks = list(looks)
        self.looked: list[bytes] = []
        self.asked: list[str] = []

    def call_any(self, api: Api, body: bytes, _deadline: Deadline) -> memoryview:
        assert api == group_messages.FIND_COORDINATOR
        self.looked.append(body)
        code = self._looks.pop(0) if self._looks else 0
        return memoryview(struct.pack(">ih", 0, code) + text("") + bytes(4) + text("h") + struct.pack(">i", 9) + b"\0")

    def call(self, server: Address, api: Api, _body: bytes) -> memoryview:
        assert server == Address("h", 9)
        self.asked.append(api.name)
        code = self._codes.pop(0) if self._codes else 0
        if code == LOST:
            raise ConnectionLostError("h:9: the broker ended the connection")
        if api == producer_messages.INIT_PRODUCER_ID:
            return memoryview(struct.pack(">ihqh", 0, code, 7, 3) + b"\0")
        if api in (producer_messages.ADD_PARTITIONS_TO_TXN, producer_messages.TXN_OFFSET_COMMIT):
            one = pack_uvarint(2) + text("t") + pack_uvarint(2) + struct.pack(">ih", 3, code) + b"\0\0\0"
            return memoryview(bytes(4) + one)
        return memoryview(struct.pack(">ih", 0, code) + b"\0")


def producer(cluster: FakeCluster) -> TransactionalProducer:
    return TransactionalProducer(cluster, "id", "group", 60_000, backoff_s=0)  # type: ignore[arg-type]


def test_an_epoch_is_what_the_coordinator_gave() -> None:
    one = producer(FakeCluster())
    assert not one.has_epoch
    one.begin_epoch(Deadline(5))
    assert one.owner == Owner("id", ProducerId(7, 3))
    one.forget_epoch()
    assert not one.has_epoch


def test_a_coordinator_that_starts_or_ends_a_transaction_is_asked_again() -> None:
    cluster = FakeCluster(14, 51, 51)
    producer(cluster).begin_epoch(Deadline(5))
    assert cluster.asked == ["InitProducerId"] * 4
    assert cluster.looked == [group_messages.encode_find_coordinator("id", is_transactional_id=True)]


def test_a_coordinator_that_moved_is_looked_for() -> None:
    cluster = FakeCluster(16, 15, looks=(15, 0))
    producer(cluster).begin_epoch(Deadline(5))
    assert len(cluster.looked) == 4


@pytest.mark.parametrize("code", [LOST, 47, 48, 90])
def test_a_transaction_that_is_lost_or_fenced_is_begun_anew(code: int) -> None:
    cluster = FakeCluster(0, code)
    one = producer(cluster)
    one.begin_epoch(Deadline(5))
    with pytest.raises(BeginAnewError):
        one.end(Deadline(5), is_commit=True)
    assert cluster.asked == ["InitProducerId", "EndTxn"]


@pytest.mark.parametrize(("code", "is_fenced"), [(47, True), (90, True), (LOST, False), (48, False)])
def test_a_producer_that_was_fenced_is_told_from_one_whose_coordinator_is_away(code: int, is_fenced: bool) -> None:
    one = producer(FakeCluster(0, code))
    one.begin_epoch(Deadline(5))
    with pytest.raises(BeginAnewError) as caught:
        one.end(Deadline(5), is_commit=True)
    assert isinstance(caught.value, FencedError) == is_fenced


@pytest.mark.parametrize("code", [14, 51, 16])
def test_a_coordinator_that_does_not_get_ready_ends_an_attempt(code: int) -> None:
    with pytest.raises(BeginAnewError, match=r"transactional id id: its "):
        producer(FakeCluster(*[code] * 3)).begin_epoch(Deadline(0))


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (
            (53,),
            "transactional id id: this user may not use it (TRANSACTIONAL_ID_AUTHORIZATION_FAILED): grant WRITE and DESCRIBE on the ",
        ),
        (
            (50,),
            "transactional id id: the brokers allow no such time for a transaction (INVALID_TRANSACTION_TIMEOUT): lower kafka.",
        ),
        (
            (0, 29),
            "partition 3 of topic t, by transactional id id: this user may not write to it (TOPIC_AUTHORIZATION_FAILED)",
        ),
        (
            (0, 0, 30),
            "group group, by transactional id id: this user may not use it (GROUP_AUTHORIZATION_FAILED): grant READ on the gro",
        ),
        ((0, 0, 0, 30), "group group: this user may not use it (GROUP_AUTHORIZATION_FAILED): grant READ on the group"),
        (
            (0, 0, 0, 25),
            "group group: it has members that consume (UNKNOWN_MEMBER_ID): choose another group",
        ),
        (
            (0, 0, 0, 22),
            "group group: it has members that consume (ILLEGAL_GENERATION): choose another group",
        ),
        ((0, 0, 0, 24), "group group: its name is no name of a group (INVALID_GROUP_ID)"),
        ((0, 0, 0, 999), "group group: error 999"),
    ],
)
def test_what_is_not_allowed_is_told(codes: tuple[int, ...], words: str) -> None:
    one = producer(FakeCluster(*codes))
    with pytest.raises(ConsumerError) as caught:
        begin_and_commit(one)
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)


def begin_and_commit(one: TransactionalProducer) -> None:
    deadline = Deadline(5)
    one.begin_epoch(deadline)
    one.add_partition(Partition("t", 3), deadline)
    one.commit_offsets({Partition("t", 3): group_messages.Committed(8, "beside")}, deadline)
