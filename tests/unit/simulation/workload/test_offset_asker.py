"""What the client that asks for offsets shows to the checker."""

import asyncio
from contextlib import suppress
from random import Random
from types import SimpleNamespace

import pytest

from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.committed import CommittedLog
from esp.simulation.checkers.told_offsets import Role, ToldOffsets
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.workload import offset_requests as requests
from esp.simulation.workload.cluster_client import Leadership
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.offset_asker import OffsetAsker
from tests.unit.simulation.checkers.scenes import KEY
from tests.unit.simulation.workload.scripted import TOPIC, ScriptedCluster, ScriptedConnection, new_history
from tests.unit.storage.helpers import PARTITION, TOPIC_ID, make_batch

PARTITION_NUMBER = PARTITION.partition
LEADER = Role(1, True, 5)


def listed(offset=7, *, timestamp=-1, epoch=5, code=ErrorCode.none):
    part = SimpleNamespace(error_code=code, offset=offset, timestamp=timestamp, leader_epoch=epoch)
    return SimpleNamespace(topics=[SimpleNamespace(partitions=[part])])


def fetched(records=b"", *, high_watermark=7, code=ErrorCode.none, diverging=(-1, -1), preferred=-1):
    part = SimpleNamespace(
        error_code=code,
        records=records,
        high_watermark=high_watermark,
        log_start_offset=0,
        diverging_epoch=SimpleNamespace(epoch=diverging[0], end_offset=diverging[1]),
        preferred_read_replica=preferred,
    )
    return SimpleNamespace(error_code=ErrorCode.none, responses=[SimpleNamespace(partitions=[part])])


def ended(epoch, end_offset):
    part = SimpleNamespace(error_code=ErrorCode.none, leader_epoch=epoch, end_offset=end_offset)
    return SimpleNamespace(topics=[SimpleNamespace(partitions=[part])])


class Connection(ScriptedConnection):
    """Answers each kind of request by a script of its own."""

    def __init__(self, by_key):
        super().__init__()
        self.address = Address("10.0.0.1", 9092)
        self._by_key = by_key

    async def call(self, api_key, _version, message, _timeout_s):
        self.sent.append((api_key, message))
        (part,) = message.topics[0].partitions
        if part.current_leader_epoch not in (-1, LEADER.leader_epoch):
            raise NoAnswerError("another epoch")
        answer = self._by_key[api_key]
        return answer(message) if callable(answer) else answer


class Cluster(ScriptedCluster):
    async def any_broker(self):
        return self._connection

    def address_of(self, node_id):
        return self._connection.address if node_id >= 0 else None

    async def connect(self, _address):
        return self._connection


class Scene:
    def __init__(self, by_key, *, committed_end=7, role=LEADER, log_start=0):
        self.connection = Connection(by_key)
        self.committed = CommittedLog(PARTITION, TOPIC_ID)
        self.committed.end_offset = committed_end
        self.told = ToldOffsets({KEY: self.committed}, lambda *_key: 5, lambda _key: log_start, lambda: 0.0)
        self.seen = []
        self.asker = OffsetAsker(
            Cluster(self.connection),
            Random(1),
            new_history(),
            self.told,
            lambda *seen: self.seen.append(seen),
            lambda *_place: (1, role),
            ["rack-1"],
        )

    def ask(self, times=1):
        async def ask():
            for _ in range(times):
                with suppress(NoAnswerError):
                    await self.asker.ask(TOPIC, TOPIC_ID, PARTITION_NUMBER)

        SimulatedLoop().run(ask())

    def list_offset(self, timestamp):
        return SimulatedLoop().run(
            self.asker.list_offset(self.connection, TOPIC, TOPIC_ID, PARTITION_NUMBER, timestamp, -1)
        )

    def find_short(self, last_offset, *, log_start=0):
        starts = iter([log_start] if isinstance(log_start, int) else log_start)
        last = None

        def log_start_of(node_id):
            nonlocal last
            assert node_id == 1
            last = next(starts, last)
            return last

        return SimulatedLoop().run(
            self.asker.find_short(TOPIC, TOPIC_ID, PARTITION_NUMBER, [1], last_offset, 3, log_start_of)
        )


def list_any(message):
    is_latest = message.topics[0].partitions[0].timestamp == requests.LATEST
    return listed(7) if is_latest else listed(0, timestamp=10**15)


EVERYTHING = {
    ApiKey.LIST_OFFSETS: list_any,
    ApiKey.FETCH: fetched(make_batch(0, records=3)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ended(0, 3),
}


def test_everything_is_asked_for_by_and_by():
    scene = Scene(EVERYTHING, committed_end=8)
    scene.ask(times=100)
    assert {api_key for api_key, _ in scene.connection.sent} == set(EVERYTHING)
    assert scene.told.answers > 50
    fetches = [message for api_key, message in scene.connection.sent if api_key is ApiKey.FETCH]
    assert {fetch.rack_id for fetch in fetches} == {"", "rack-1"}
    assert {fetch.topics[0].partitions[0].current_leader_epoch for fetch in fetches} == {-1, 4, 5, 6}
    assert scene.seen[0][:3] == ("client", TOPIC_ID, PARTITION_NUMBER)


@pytest.mark.parametrize(
    "timestamp", [requests.LATEST, requests.EARLIEST, requests.EARLIEST_LOCAL, requests.MAX_TIMESTAMP, 1000]
)
def test_offset_that_is_not_committed_is_found_whatever_it_was_asked_by(timestamp):
    scene = Scene({ApiKey.LIST_OFFSETS: listed(9, timestamp=2000)})
    with pytest.raises(ViolationError, match=r"^INV-READ-COMMITTED-HW at "):
        scene.list_offset(timestamp)


def test_error_is_no_answer_and_judged_by_nobody():
    scene = Scene({ApiKey.LIST_OFFSETS: listed(9, code=ErrorCode.offset_not_available)})
    with pytest.raises(NoAnswerError):
        scene.list_offset(requests.LATEST)
    assert scene.told.answers == 0


def test_offset_out_of_range_is_judged():
    scene = Scene({ApiKey.LIST_OFFSETS: listed(), ApiKey.FETCH: fetched(code=ErrorCode.offset_out_of_range)})
    scene.list_offset(requests.LATEST)
    with pytest.raises(ViolationError, match=r"^INV-READ-POSITION at "):
        scene.find_short(6)


def test_replica_that_serves_everything_is_not_short():
    scene = Scene({ApiKey.LIST_OFFSETS: listed(3), ApiKey.FETCH: fetched(make_batch(0, records=3))})
    assert scene.find_short(2) is None


def test_latest_offset_below_what_is_committed_is_short():
    scene = Scene({ApiKey.LIST_OFFSETS: listed(6)})
    assert scene.find_short(6) == "the latest offset is reported as 6, not 7"


def test_replica_that_does_not_tell_the_last_record_is_short():
    scene = Scene({ApiKey.LIST_OFFSETS: listed(7), ApiKey.FETCH: fetched()})
    assert scene.find_short(6) == "node 1 reports nothing of 6"


def serve_from(log_start, log_end):
    """A replica with nothing between the two."""

    def fetch(message):
        (part,) = message.topics[0].partitions
        is_there = log_start <= part.fetch_offset <= log_end
        return fetched(code=ErrorCode.none if is_there else ErrorCode.offset_out_of_range)

    return fetch


def test_replica_that_lost_its_last_record_to_retention_serves_the_end_of_its_log_and_is_counted():
    scene = Scene({ApiKey.LIST_OFFSETS: listed(7), ApiKey.FETCH: serve_from(7, 7)})
    assert scene.find_short(6, log_start=7) is None
    assert scene.asker.emptied_replicas == 1


def test_replica_that_loses_its_last_record_while_it_is_asked_is_asked_again():
    scene = Scene({ApiKey.LIST_OFFSETS: listed(7), ApiKey.FETCH: serve_from(7, 7)}, log_start=7)
    assert scene.find_short(6, log_start=[6, 7]) is None
    assert scene.asker.emptied_replicas == 1


def test_replica_that_still_has_the_last_record_is_not_excused_by_what_is_gone_elsewhere():
    scene = Scene({ApiKey.LIST_OFFSETS: listed(7), ApiKey.FETCH: serve_from(7, 7)}, log_start=7)
    assert scene.find_short(6, log_start=6) == "offset_out_of_range"
    assert scene.asker.emptied_replicas == 0


def test_emptied_replica_that_does_not_serve_its_end_is_short():
    scene = Scene({ApiKey.LIST_OFFSETS: listed(7), ApiKey.FETCH: serve_from(8, 8)}, log_start=8)
    assert scene.find_short(6, log_start=8) == "offset_out_of_range"


class ManyBrokers(Cluster):
    """Brokers 1 and 2, of which the second one leads from the second refresh on."""

    def __init__(self, connection):
        super().__init__(connection)
        self.leaders = {}
        self.asked = []

    async def refresh(self, _topics):
        self.leaders[TOPIC, PARTITION_NUMBER] = Leadership(2 if self.leaders else 1, 5)

    def address_of(self, node_id):
        return Address(f"10.0.0.{node_id}", 9092)

    async def connect(self, address):
        self.asked.append(address.host)
        return self._connection


def test_former_leaders_alone_are_asked_for_the_end_that_was_told():
    scene = Scene(EVERYTHING)
    scene.told.on_ack(KEY, 7)
    scene.connection._by_key = {ApiKey.FETCH: fetched()}
    scene.asker._client = cluster = ManyBrokers(scene.connection)

    async def ask():
        asking = asyncio.ensure_future(scene.asker.ask_former_leaders(TOPIC, TOPIC_ID, PARTITION_NUMBER))
        await asyncio.sleep(10)
        scene.asker.is_stopping = True
        await asking

    SimulatedLoop().run(ask())
    assert set(cluster.asked) == {"10.0.0.1"}
    offsets = {message.topics[0].partitions[0].fetch_offset for _, message in scene.connection.sent}
    assert offsets == {7}
