"""A group's offsets against coordinators that move, start and refuse."""

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.consumer import group_messages
from esp.consumer.cluster import Address
from esp.consumer.connection import Deadline
from esp.consumer.errors import ConnectionLostError, ConsumerError, UndecidedError
from esp.consumer.group_messages import Committed
from esp.consumer.group_offsets import GroupOffsets
from esp.consumer.messages import Api, Partition
from esp.protocol.primitives import pack_nullable_text, pack_uvarint

PARTITION = Partition("t", 3)
LOADING, NOT_AVAILABLE, MOVED, DENIED, UNSTABLE, MEMBERS = 14, 15, 16, 30, 88, 25
LOST = "lost"
Step = int | str


def text(value: str) -> bytes:
    return pack_nullable_text(value, flexible=True)


class FakeCluster:
    """Answers as a script says: an error code, or a connection that ends; without an error once it is over.

    Attributes:
        committed: the bodies of the commits that were answered without an error.
        looked: the number of questions for the coordinator.
    """

    def __init__(self, steps: Sequence[Step] = (), looks: Sequence[int] = ()) -> None:
        self._steps = list(steps)
        self._looks = list(looks)
        self.committed: list[bytes] = []
        self.looked = 0

    def call_any(self, api: Api, body: bytes, deadline: Deadline) -> memoryview:
        assert (api, body) == (group_messages.FIND_COORDINATOR, group_messages.encode_find_coordinator("g"))
        self.looked += 1
        error = self._looks.pop(0) if self._looks else 0
        return memoryview(struct.pack(">ih", 0, error) + text("") + bytes(4) + text("h") + struct.pack(">i", 9) + b"\0")

    def call(self, server: Address, api: Api, body: bytes) -> memoryview:
        assert server == Address("h", 9)
        step = self._steps.pop(0) if self._steps else 0
        if isinstance(step, str):
            raise ConnectionLostError("h:9: the broker ended the connection")
        one = bytes(4) + pack_uvarint(2) + text("t") + pack_uvarint(2)
        if api == group_messages.OFFSET_COMMIT:
            if step == 0:
                self.committed.append(body)
            return memoryview(one + struct.pack(">ih", 3, step) + b"\0\0\0")
        assert body == group_messages.encode_offset_fetch("g", [PARTITION])
        offset = struct.pack(">iqi", 3, 17, -1) + text("beside")
        return memoryview(one + offset + struct.pack(">h", step) + b"\0\0" + struct.pack(">h", 0) + b"\0")


def group_of(cluster: FakeCluster) -> GroupOffsets:
    return GroupOffsets(cluster, "g", backoff_s=0.0)  # type: ignore[arg-type]


@settings(max_examples=50)
@given(
    steps=st.lists(st.sampled_from([LOADING, NOT_AVAILABLE, MOVED, UNSTABLE, LOST]), max_size=6),
    looks=st.lists(st.sampled_from([LOADING, NOT_AVAILABLE]), max_size=3),
)
def test_a_coordinator_that_moves_or_starts_is_followed(steps: list[Step], looks: list[int]) -> None:
    offsets = {PARTITION: Committed(17, "beside")}
    cluster = FakeCluster(steps, looks)
    group_of(cluster).commit(offsets, 30)
    assert cluster.committed == [group_messages.encode_offset_commit("g", offsets)]
    assert group_of(FakeCluster(steps, looks)).fetch([PARTITION], 30) == offsets


def test_the_coordinator_is_looked_for_once_while_it_answers() -> None:
    cluster = FakeCluster([0, UNSTABLE])
    group = group_of(cluster)
    for _ in range(3):
        group.fetch([PARTITION], 30)
    assert cluster.looked == 1


@pytest.mark.parametrize(("error", "words"), [(DENIED, "grant READ on the group"), (MEMBERS, "choose another group")])
def test_what_is_refused_fails_at_once(error: int, words: str) -> None:
    with pytest.raises(ConsumerError, match=f"group g: .*{words}"):
        group_of(FakeCluster([error])).commit({PARTITION: Committed(1)}, 30)
    with pytest.raises(ConsumerError, match=f"group g: .*{words}"):
        group_of(FakeCluster(looks=[error])).fetch([PARTITION], 30)


def test_a_coordinator_that_never_comes_is_not_waited_for_beyond_the_time() -> None:
    with pytest.raises(
        ConsumerError,
        match=r"offsets are not answered within 0 s: group g: its coordinator moves .*: start the brokers",
    ):
        group_of(FakeCluster([MOVED] * 9)).commit({PARTITION: Committed(1)}, 0)


def test_no_offsets_need_no_coordinator() -> None:
    cluster = FakeCluster()
    group_of(cluster).commit({}, 30)
    assert cluster.looked == 0


def test_a_transaction_that_is_not_waited_for_is_told() -> None:
    with pytest.raises(UndecidedError):
        group_of(FakeCluster([MOVED, UNSTABLE])).fetch([PARTITION], 30, waits=False)
    assert group_of(FakeCluster([MOVED])).fetch([PARTITION], 30, waits=False) == {PARTITION: Committed(17, "beside")}
