"""One fetcher against a leader that answers what the test says, when the test says it."""

import asyncio
import uuid
from random import Random
from types import SimpleNamespace

import pytest

from esp.broker.connections.peer import PeerUnavailableError
from esp.broker.replication.fetcher import ReplicaFetcher
from esp.broker.replication.throttles import ReplicaThrottles
from esp.broker.tasks import Tasks
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId, TopicPartition
from esp.ports.network import Address
from esp.protocol.fetch_codec import FetchResult, decode_fetch, encode_fetch_response
from esp.protocol.follower_fetch_codec import FETCH_VERSION
from esp.protocol.headers import read_response_header
from esp.protocol.registry import ApiKey
from esp.replication.partition_follower import CommittedDataLossError, FetchPosition, Next
from esp.settings.broker import BrokerSettings
from esp.simulation.machine.clock import SimulatedClock
from esp.simulation.machine.loop import SimulatedLoop

TOPIC = uuid.UUID(int=7)
SETTINGS = BrokerSettings(node_id=NodeId(2))


class PlayedPeer:
    """Requests as they come, each with who takes its answer, or the news that there is none."""

    def __init__(self):
        self.address = Address("leader", 1)
        self.requests = []
        self.closed = False
        self.came = asyncio.Event()

    def post(self, api_key, version, body, *, timeout_ms, take, fail):
        assert (api_key, version) == (ApiKey.FETCH, FETCH_VERSION)
        self.requests.append((decode_fetch(memoryview(b"".join(body)), version), take, fail))
        self.came.set()

    def answer(self, *results, number=0, session_id=5, error_code=0):
        """Answer the oldest request, or another one; take its request."""
        asked, take, _ = self.requests.pop(number)
        frame = b"".join(
            encode_fetch_response(FETCH_VERSION, 1, results, session_id=session_id, error_code=error_code)
        )[4:]
        take(memoryview(frame)[read_response_header(frame, ApiKey.FETCH, FETCH_VERSION)[1] :])
        return asked

    async def pause_ms(self, count):
        """How long it takes until that many requests wait."""
        began = asyncio.get_running_loop().time()
        while len(self.requests) < count:
            self.came.clear()
            await self.came.wait()
        return round((asyncio.get_running_loop().time() - began) * 1000)

    def lose(self):
        """Break the connection."""
        requests, self.requests = self.requests, []
        for _, _, fail in requests:
            fail(PeerUnavailableError(self.address, "lost"))

    def close(self):
        self.closed = True


class PlayedFollower:
    """A follower whose log grows by the number of bytes that it is given."""

    def __init__(self):
        self.leader_epoch = 3
        self.log = SimpleNamespace(log_start_offset=0, log_end_offset=0, high_watermark=0)
        self.taken = []
        self.must_flush = False
        self.begins_below = False
        self.following = Next.FETCH
        self.error = None

    @property
    def position(self):
        return FetchPosition(self.leader_epoch, self.log.log_end_offset, self.leader_epoch, 0)

    def must_begin_below(self, asked, answer):
        return self.begins_below and asked == self.position

    def on_answer(self, asked, answer, now_ms):
        assert now_ms
        if asked != self.position:
            return Next.IGNORE
        if self.error is not None:
            raise self.error
        self.taken.append(answer._replace(records=bytes(answer.records)))
        if answer.error_code:
            return Next.BACK_OFF
        self.log.log_end_offset += len(answer.records)
        self.log.high_watermark = max(self.log.high_watermark, answer.high_watermark)
        return self.following


class PlayedHosted:
    def __init__(self, number):
        self.name = TopicPartition("t", number)
        self.key = (TOPIC.bytes, number)
        self.follower = PlayedFollower()
        self.log = self.follower.log
        self.busy = asyncio.Lock()
        self.told = []

    def appended(self):
        self.told.append("appended")

    def committed(self):
        self.told.append("committed")

    def role_changed(self):
        self.told.append("role changed")


class Played:
    """A fetcher with some partitions."""

    def __init__(self, count=2):
        loop = asyncio.get_running_loop()
        self.peer = PlayedPeer()
        self.directories_lock = asyncio.Lock()
        self.failed = []
        self.flushes = []
        env = SimpleNamespace(clock=SimulatedClock(loop), random=Random(0))
        self.throttles = ReplicaThrottles(env.clock, SETTINGS)
        self.fetcher = ReplicaFetcher(
            env, SETTINGS, NodeId(1), self.peer, lambda: 77, Tasks(SimpleNamespace(fatal=None)), self
        )
        self.partitions = [PlayedHosted(number) for number in range(count)]
        for hosted in self.partitions:
            self.fetcher.follow(hosted)

    async def flush(self, hosted):
        future = asyncio.get_running_loop().create_future()
        self.flushes.append((hosted, future))
        hosted.follower.must_flush = not await future

    def on_disk_error(self, hosted, error):
        self.failed.append((hosted, error))

    def take_offline(self, hosted, error):
        self.failed.append((hosted, error))

    async def begin(self):
        """Let the session begin, and its second request be parked."""
        await turn()
        asked = self.peer.answer(*(empty(number) for number in range(len(self.partitions))))
        assert (asked.session_id, asked.session_epoch) == (0, 0)
        assert [item.partition for item in asked.partitions] == list(range(len(self.partitions)))
        await turn()
        assert named(self.peer) == []
        for hosted in self.partitions:
            hosted.follower.taken.clear()


def empty(number, **fields):
    return FetchResult(TOPIC.bytes, number, **{"high_watermark": 0, "log_start_offset": 0, **fields})


def data(number, size=10, **fields):
    return empty(number, records=b"x" * size, **fields)


def named(peer, number=0):
    """(partition, offset) of what a request that waits names."""
    return [(item.partition, item.fetch_offset) for item in peer.requests[number][0].partitions]


async def turn():
    for _ in range(5):
        await asyncio.sleep(0)


def played(scenario):
    def test(*args, **kwargs):
        async def main():
            p = Played()
            await scenario(p, *args, **kwargs)
            p.fetcher.close()
            p.peer.lose()
            await turn()

        SimulatedLoop().run(main(), limit_s=3600)

    test.__name__ = scenario.__name__
    return test


@played
async def test_a_session_begins_with_all_partitions_and_goes_on_with_what_changed(p):
    await p.begin()
    assert p.peer.requests[0][0].session_epoch == 1
    p.peer.answer(data(1))
    await turn()
    asked = p.peer.requests[0][0]
    assert named(p.peer) == [(1, 10)]
    assert (asked.session_id, asked.session_epoch) == (5, 2)
    assert (asked.replica_id, asked.replica_epoch) == (2, 77)
    assert asked.partitions[0][2:7] == (10, SETTINGS.replica_fetch_max_bytes, 3, 0, 3)
    p.peer.answer()
    await turn()
    assert named(p.peer) == []
    assert p.partitions[1].told == ["appended"]


@played
async def test_all_that_one_answer_brought_is_receipted_by_one_request_without_waiting_for_a_turn(p):
    await p.begin()
    p.peer.answer(data(0), data(1))
    assert [named(p.peer, number) for number in range(len(p.peer.requests))] == [[(0, 10), (1, 10)]]
    await turn()
    assert len(p.peer.requests) == 1


@played
async def test_a_commit_alone_is_taken_in_and_nothing_is_named_for_it(p):
    await p.begin()
    p.peer.answer(empty(0, high_watermark=9))
    await turn()
    assert p.partitions[0].told == ["committed"]
    assert named(p.peer) == []


@played
async def test_nothing_is_sent_while_a_request_is_parked_and_nothing_changes(p):
    await p.begin()
    await asyncio.sleep(100)
    assert len(p.peer.requests) == 1


@played
async def test_a_new_partition_is_named_at_once_behind_the_parked_request_and_never_a_third_is_sent(p):
    await p.begin()
    p.fetcher.follow(PlayedHosted(7))
    await turn()
    assert named(p.peer, 1) == [(7, 0)]
    p.fetcher.follow(PlayedHosted(8))
    await turn()
    assert len(p.peer.requests) == 2
    p.peer.answer()
    await turn()
    assert named(p.peer, 1) == [(8, 0)]
    p.peer.answer()
    p.peer.answer()
    await turn()
    assert named(p.peer) == []


@played
async def test_an_answer_for_an_older_position_is_dropped(p):
    await p.begin()
    hosted = p.partitions[0]
    p.fetcher.forget(hosted)
    hosted.follower = PlayedFollower()  # another leader epoch
    p.fetcher.follow(hosted)
    await turn()
    assert named(p.peer, 1) == [(0, 0)]
    p.peer.answer(data(0))
    assert not hosted.follower.taken
    p.peer.answer(data(0, 4))
    assert hosted.follower.log.log_end_offset == 4


@played
async def test_what_is_forgotten_is_told_and_its_answers_are_dropped(p):
    await p.begin()
    hosted = p.partitions[0]
    p.fetcher.forget(hosted)
    p.fetcher.forget(hosted)
    p.peer.answer(data(0))
    await turn()
    assert not hosted.follower.taken
    assert p.peer.requests[0][0].forgotten == [(TOPIC.bytes, 0)]
    assert p.fetcher.followed() == [p.partitions[1]]


@played
async def test_a_partition_with_an_error_waits_longer_each_time_and_holds_up_no_other(p):
    await p.begin()
    pauses = []
    for _ in range(9):
        p.peer.answer(empty(0, error_code=int(ErrorCode.unknown_leader_epoch)), data(1))
        await turn()
        assert named(p.peer) == [(1, p.partitions[1].log.log_end_offset)]
        pauses.append(await p.peer.pause_ms(2))
        assert named(p.peer, 1) == [(0, 0)]
        p.peer.answer()
        await turn()
    assert pauses == [20, 40, 80, 160, 320, 640, 1000, 1000, 1000]
    p.peer.answer(data(0))
    await turn()
    p.peer.answer(empty(0, error_code=int(ErrorCode.fenced_leader_epoch)))
    await asyncio.sleep(0.03)
    assert named(p.peer, -1) == [(0, 10)]


@played
async def test_nothing_is_taken_in_for_a_partition_that_is_held_back(p):
    await p.begin()
    p.peer.answer(empty(0, error_code=int(ErrorCode.unknown_leader_epoch)))
    await turn()
    p.peer.answer(data(0))
    assert p.partitions[0].follower.log.log_end_offset == 0
    await asyncio.sleep(0.03)
    assert named(p.peer, -1) == [(0, 0)]


@pytest.mark.parametrize("begins_below", [False, True])
def test_a_partition_whose_answers_have_no_error_and_let_nothing_follow_is_not_said_to_fail_by_none(
    begins_below, caplog
):
    @played
    async def scenario(p):
        await p.begin()
        follower = p.partitions[0].follower
        follower.following, follower.begins_below = Next.BACK_OFF, begins_below
        for _ in range(8):
            p.peer.answer(empty(0))
            await p.peer.pause_ms(2)
            p.peer.answer()
        await asyncio.sleep(5)

    scenario()
    reason = "no batch of its response can follow the end of the log here"
    assert set(caplog.messages) == {f"t-0 cannot be fetched from node 1: {reason}"}


@pytest.mark.parametrize("code", [70, 71, 106, 9999])
def test_a_session_that_the_leader_does_not_know_begins_anew(code):
    @played
    async def scenario(p):
        await p.begin()
        p.peer.answer(error_code=code, session_id=0)
        await asyncio.sleep(0.03)
        assert p.peer.requests[0][0].session_epoch == 0
        assert named(p.peer) == [(0, 0), (1, 0)]

    scenario()


@played
async def test_a_lost_connection_is_made_anew_after_pauses_that_grow(p):
    await p.begin()
    p.fetcher.follow(PlayedHosted(7))
    await turn()
    pauses = []
    for _ in range(9):
        p.peer.lose()
        pauses.append(await p.peer.pause_ms(1))
        assert len(p.peer.requests) == 1
        assert named(p.peer) == [(0, 0), (1, 0), (7, 0)]
    assert pauses == [20, 40, 80, 160, 320, 640, 1000, 1000, 1000]
    p.peer.lose()
    await turn()
    p.fetcher.retry_now()
    await turn()
    assert len(p.peer.requests) == 1


@played
async def test_a_log_begins_below_its_end_only_while_nobody_else_works_on_its_files(p):
    """The records are kept until then: what a connection received is valid during its call only (TRUNC-5)."""
    await p.begin()
    hosted = p.partitions[0]
    hosted.follower.begins_below = True
    await hosted.busy.acquire()
    p.peer.answer(data(0, high_watermark=7), data(1))
    await turn()
    assert named(p.peer) == [(1, 10)]
    assert not hosted.follower.taken
    hosted.busy.release()
    await turn()
    assert [answer.records for answer in hosted.follower.taken] == [b"x" * 10]
    assert hosted.told == ["appended", "committed", "role changed"]
    assert named(p.peer, 1) == [(0, 10)]


@played
async def test_what_has_to_be_flushed_is_named_after_the_flush(p):
    await p.begin()
    hosted = p.partitions[0]
    hosted.follower.must_flush = True
    p.peer.answer(data(0))
    await turn()
    assert named(p.peer) == []
    assert [flushed for flushed, _ in p.flushes] == [hosted]
    p.flushes[0][1].set_result(True)
    await turn()
    assert named(p.peer, 1) == [(0, 10)]


@played
async def test_what_a_flush_left_unsynced_is_not_named(p):
    """A fetch says that everything below its offset is on the device (SYNC-4)."""
    await p.begin()
    p.partitions[0].follower.must_flush = True
    p.peer.answer(data(0))
    for number in range(3):
        await turn()
        assert len(p.flushes) == number + 1
        p.flushes[number][1].set_result(False)
        await turn()
        assert len(p.flushes) == number + 1, "it pauses before it tries again"
        await asyncio.sleep(2)
        assert len(p.peer.requests) == 1
    p.flushes[3][1].set_result(True)
    await turn()
    assert named(p.peer, 1) == [(0, 10)]


@played
async def test_a_log_is_cut_only_while_nobody_else_works_on_its_files(p):
    await p.begin()
    hosted = p.partitions[0]
    await p.directories_lock.acquire()
    p.peer.answer(FetchResult(TOPIC.bytes, 0, diverging_epoch=(2, 0)), data(1))
    await turn()
    assert not hosted.follower.taken
    assert named(p.peer) == [(1, 10)]
    p.directories_lock.release()
    await turn()
    assert (hosted.follower.taken[0].diverging_epoch, hosted.follower.taken[0].diverging_end_offset) == (2, 0)
    assert hosted.told == ["role changed"]
    assert named(p.peer, 1) == [(0, 0)]


@played
async def test_a_partition_that_found_another_leader_is_not_cut_any_more(p):
    await p.begin()
    hosted = p.partitions[0]
    await p.directories_lock.acquire()
    p.peer.answer(FetchResult(TOPIC.bytes, 0, diverging_epoch=(2, 0)))
    await turn()
    p.fetcher.forget(hosted)
    p.directories_lock.release()
    await turn()
    assert not hosted.follower.taken


@pytest.mark.parametrize(
    "error", [OSError(5, "broken"), ApiError(ErrorCode.kafka_storage_error), CommittedDataLossError("lost")]
)
def test_a_replica_that_cannot_go_on_is_told_of_and_the_others_go_on(error):
    @played
    async def scenario(p):
        await p.begin()
        p.partitions[0].follower.error = error
        p.peer.answer(data(0), data(1))
        await turn()
        assert p.failed == [(p.partitions[0], error)]
        assert named(p.peer) == [(1, 10)]
        assert p.peer.requests[0][0].forgotten == [(TOPIC.bytes, 0)]

    scenario()


@played
async def test_a_closed_fetcher_sends_nothing_more(p):
    await p.begin()
    p.fetcher.close()
    p.peer.lose()
    await asyncio.sleep(10)
    assert p.peer.closed
    assert not p.peer.requests
    assert len(p.fetcher) == 0
