"""ShareFetch and ShareAcknowledge at the leader, over a real log in a simulated node."""

import asyncio
import uuid

import pytest

from esp.model.acl import AclOperation
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.registry import ApiKey
from esp.schemas.share_state_records import RecordState, ShareStateKey
from tests.models.naive_share_partition import PersistedOffsets
from tests.unit.broker.conversation import create_topic, produce
from tests.unit.broker.data_path.test_read_committed import append, end, write
from tests.unit.broker.guarded_node import ROOT, allow, ask, client_of, guarded, withdraw
from tests.unit.broker.share.share_members import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Member,
    MemoryPersister,
    by_partition,
    leaders_of,
    set_group,
    triple,
)
from tests.unit.broker.simulated_node import records, simulated, values


async def prepared(node, *, counts=(), partitions=1, reset="earliest", **configs):
    """A topic with batches of so many records, a group that begins at its start, and the parts to play with."""
    client = await node.client()
    topic_id = await create_topic(client, partitions=partitions)
    await set_group(client, auto_offset_reset=reset, **configs)
    for count in counts:
        await produce(client, "t", records(*[b"value"] * count))
    persister = MemoryPersister()
    return client, (topic_id, 0), persister, leaders_of(node, persister)


async def opened(leaders, partition, name="m", **options):
    """A member with a session, in which the share partition has begun."""
    member = Member(leaders, name, **options)
    await member.take(partition, wait_ms=10, most=0)
    return member


def key_of(partition, group="g"):
    return ShareStateKey(group, *partition)


@pytest.mark.parametrize("version", [1, 2])
@simulated()
async def test_records_are_acquired_acknowledged_and_persisted(node, version):
    _client, t0, persister, leaders = await prepared(node, counts=(3, 4))
    member = Member(leaders, version=version)
    answers = await member.fetch(t0)
    assert values(answers[t0].records) == [b"value"] * 7
    assert [(piece.first_offset, piece.last_offset) for piece in answers[t0].acquired_records] == [(0, 6)]
    assert await member.say({t0: [(0, 4, ACCEPT), (5, 5, REJECT)]}) == {t0: ErrorCode.none}
    assert persister.state(key_of(t0)).states == {
        **dict.fromkeys(range(5), (1, RecordState.ACKNOWLEDGED)),
        5: (1, RecordState.ARCHIVED),
    }
    assert await member.say({t0: [(5, 5, ACCEPT)]}) == {t0: ErrorCode.none}, "below the start all is well"
    assert await member.say({t0: [(7, 7, ACCEPT)]}) == {t0: ErrorCode.invalid_request}


@simulated()
async def test_only_the_batches_with_acquired_records_are_sent(node):
    _client, t0, _persister, leaders = await prepared(node, counts=(3, 3, 3))
    one, other = Member(leaders, "one"), Member(leaders, "other")
    first = await one.fetch(t0, most=2)
    assert len(values(first[t0].records)) == 3
    second = await other.fetch(t0, most=4, mode=1)
    assert [(p.first_offset, p.last_offset) for p in second[t0].acquired_records] == [(3, 6)]
    assert len(values(second[t0].records)) == 6


@simulated()
async def test_a_group_begins_at_the_latest_offset_and_every_leader_at_the_same(node):
    client, t0, persister, leaders = await prepared(node, counts=(3,), reset="latest")
    member = await opened(leaders, t0)
    assert persister.state(key_of(t0)).start == 3, "before anything is delivered"
    await produce(client, "t", records(b"new"))
    await produce(client, "t", records(b"newer"))
    again = Member(leaders_of(node, persister), "n")
    assert await again.take(t0) == [(3, 4, 1)]
    assert await member.take(t0) == [(3, 4, 1)], "the one before has not heard of it yet"


@simulated()
async def test_altered_offsets_count_for_the_next_session_where_nothing_is_held(node):
    """SHARE-49: the group was empty meanwhile, and nothing tells the leader of it."""
    client, t0, persister, leaders = await prepared(node, counts=(3,))
    member = Member(leaders)
    assert await member.take(t0) == [(0, 2, 1)]
    assert await member.say({t0: [(0, 2, ACCEPT)]}) == {t0: ErrorCode.none}
    persister.states[key_of(t0)] = PersistedOffsets()
    assert await member.take(wait_ms=10) == [], "a session goes on with what is in memory"
    again = Member(leaders, "again")
    assert await again.take(t0) == [(0, 2, 1)]
    await produce(client, "t", records(b"new"))
    assert await Member(leaders, "third").take(t0) == [(3, 3, 1)], "what is held stays held"
    assert await again.say({t0: [(0, 2, ACCEPT)]}) == {t0: ErrorCode.none}


@simulated()
async def test_a_group_may_begin_by_time(node):
    client, t0, _persister, leaders = await prepared(node, reset="by_duration:PT1H")
    now_ms = node.env.clock.wall_ms()
    await produce(client, "t", records(b"old", timestamp_ms=now_ms - 7_200_000))
    await produce(client, "t", records(b"new", timestamp_ms=now_ms))
    assert await Member(leaders).take(t0) == [(1, 1, 1)]


@simulated()
async def test_a_fetch_waits_for_records_and_no_longer_than_it_says(node):
    client, t0, _persister, leaders = await prepared(node)
    member = await opened(leaders, t0)
    before = node.loop.time()
    assert await member.take(wait_ms=300) == []
    assert node.loop.time() - before == pytest.approx(0.3, abs=0.01)
    waiting = member.fetch_later(wait_ms=100_000)
    await asyncio.sleep(1)
    await produce(client, "t", records(b"value"))
    assert [p.first_offset for p in by_partition(await waiting)[t0].acquired_records] == [0]
    assert node.loop.time() - before < 3


@simulated()
async def test_a_fetch_waits_for_its_bytes_and_holds_nothing_meanwhile(node):
    client, t0, _persister, leaders = await prepared(node, counts=(1,))
    patient = await opened(leaders, t0, "patient")
    waiting = patient.fetch_later(wait_ms=100_000, min_bytes=1_000)
    await asyncio.sleep(1)
    quick = Member(leaders, "quick")
    assert await quick.take(t0) == [(0, 0, 1)]
    await produce(client, "t", records(b"x" * 1_000))
    assert [(p.first_offset, p.last_offset) for p in by_partition(await waiting)[t0].acquired_records] == [(1, 1)]


@simulated()
async def test_locks_that_end_wake_those_who_wait(node):
    _client, t0, _persister, leaders = await prepared(node, counts=(2,), record_lock_duration_ms=15_000)
    holder, other = Member(leaders, "holder"), await opened(leaders, t0, "other")
    assert await holder.take(t0) == [(0, 1, 1)]
    before = node.loop.time()
    waiting = other.fetch_later(wait_ms=100_000)
    assert [(p.first_offset, p.delivery_count) for p in by_partition(await waiting)[t0].acquired_records] == [(0, 2)]
    assert node.loop.time() - before == pytest.approx(15, abs=0.1)
    assert await holder.say({t0: [(0, 0, ACCEPT)]}) == {t0: ErrorCode.invalid_record_state}


@pytest.mark.parametrize("way", ["released", "cut", "closed", "closed by a word"])
@simulated()
async def test_what_is_given_back_wakes_those_who_wait(node, way):
    _client, t0, _persister, leaders = await prepared(node, counts=(2,))
    holder, other = Member(leaders, "holder"), await opened(leaders, t0, "other")
    await holder.take(t0)
    waiting = other.fetch_later(wait_ms=100_000)
    await asyncio.sleep(1)
    before = node.loop.time()
    if way == "released":
        await holder.say({t0: [(0, 1, RELEASE)]})
    elif way == "cut":
        holder.cut()
    elif way == "closed":
        await holder.fetch(epoch=-1)
    else:
        assert await holder.say({t0: [(0, 0, RELEASE)]}, epoch=-1) == {t0: ErrorCode.none}
    got = []
    got += [(p.first_offset, p.last_offset, p.delivery_count) for p in by_partition(await waiting)[t0].acquired_records]
    if got[-1][1] < 1:
        got += await other.take(wait_ms=1_000)
    assert (got[0][0], got[0][2]) == (0, 2)
    assert got[-1][1] == 1
    assert node.loop.time() - before < 2


@simulated()
async def test_a_window_that_moves_by_the_words_of_a_fetch_wakes_those_who_wait(node):
    _client, t0, _persister, leaders = await prepared(node, counts=(100, 5), partition_max_record_locks=100)
    holder, other = Member(leaders, "holder"), await opened(leaders, t0, "other")
    assert await holder.take(t0, most=100) == [(0, 99, 1)]
    waiting = other.fetch_later(wait_ms=100_000)
    await asyncio.sleep(1)
    assert not waiting.done()
    assert await holder.take(words={t0: [(0, 99, ACCEPT)]}, most=0, wait_ms=0) == []
    assert [(p.first_offset, p.last_offset) for p in by_partition(await waiting)[t0].acquired_records] == [(100, 104)]


@simulated()
async def test_a_connection_ends_its_own_session_only(node):
    _client, t0, _persister, leaders = await prepared(node, counts=(2, 2))
    old = Member(leaders)
    assert await old.take(t0, most=1) == [(0, 1, 1)]
    new = Member(leaders)
    assert await new.take(t0, most=1) == [(2, 3, 1)], "what the old one has is being released"
    await asyncio.sleep(0.1)
    old.cut()
    await asyncio.sleep(0.1)
    assert await new.take() == [(0, 1, 2)]
    assert await new.say({t0: [(0, 3, ACCEPT)]}) == {t0: ErrorCode.none}, "it has kept what it had"


@simulated()
async def test_nothing_is_acquired_for_a_connection_that_has_ended(node):
    client, t0, _persister, leaders = await prepared(node)
    member, other = await opened(leaders, t0), await opened(leaders, t0, "other")
    waiting = member.fetch_later(wait_ms=100_000)
    await asyncio.sleep(0.1)
    member.cut()
    await produce(client, "t", records(b"value"))
    assert (await waiting).responses == ()
    assert await other.take() == [(0, 0, 1)]


@pytest.mark.parametrize("epoch", [0, -1])
@simulated()
async def test_a_fetch_does_not_wait_beyond_its_session(node, epoch):
    _client, t0, _persister, leaders = await prepared(node)
    member = await opened(leaders, t0)
    waiting = member.fetch_later(wait_ms=100_000)
    await asyncio.sleep(0.1)
    before = node.loop.time()
    last = member.fetch_later(t0, epoch=epoch, wait_ms=100)
    assert (await waiting).responses == ()
    await last
    assert node.loop.time() - before < 1


@simulated()
async def test_sessions_count_and_refuse(node):
    _client, t0, _persister, leaders = await prepared(node, counts=(1,))
    member = await opened(leaders, t0)
    answer = await member.fetch_later(epoch=7)
    assert answer.error_code is ErrorCode.invalid_share_session_epoch
    answer = await Member(leaders, "unknown").fetch_later(epoch=1)
    assert answer.error_code is ErrorCode.share_session_not_found
    answer = await member.fetch_later(t0, epoch=0, words={t0: [(0, 0, ACCEPT)]})
    assert answer.error_code is ErrorCode.invalid_request
    answer = await Member(leaders, "x" * 37).fetch_later(t0)
    assert answer.error_code is ErrorCode.invalid_request
    for epoch, code in ((0, ErrorCode.invalid_share_session_epoch), (9, ErrorCode.invalid_share_session_epoch)):
        with pytest.raises(ApiError) as caught:
            await member.say({t0: [(0, 0, ACCEPT)]}, epoch=epoch)
        assert caught.value.code is code
    assert await member.take() == [(0, 0, 1)]


@simulated(group_share_max_share_sessions=1)
async def test_without_room_for_a_session_the_refusal_takes_its_time(node):
    _client, t0, _persister, leaders = await prepared(node)
    await opened(leaders, t0)
    before = node.loop.time()
    answer = await Member(leaders, "other").fetch_later(t0, wait_ms=400)
    assert answer.error_code is ErrorCode.share_session_limit_reached
    assert node.loop.time() - before == pytest.approx(0.4, abs=0.01)


@simulated(group_share_max_share_sessions=1)
async def test_a_refusal_that_takes_its_time_is_over_with_its_connection(node):
    """A client could else have any number of them kept for the days that it says."""
    _client, t0, _persister, leaders = await prepared(node)
    await opened(leaders, t0)
    other = Member(leaders, "other")
    refused = asyncio.ensure_future(other.fetch_later(t0, wait_ms=2**31 - 1))
    await asyncio.sleep(1)
    other.cut()
    before = node.loop.time()
    assert (await refused).error_code is ErrorCode.share_session_limit_reached
    assert node.loop.time() == before


@simulated()
async def test_unknown_partitions_are_answered_one_by_one_and_the_others_served(node):
    _client, t0, _persister, leaders = await prepared(node, counts=(1,))
    nowhere, beyond = (uuid.UUID(int=5), 0), (t0[0], 9)
    member = await opened(leaders, t0)
    answers = await member.fetch(nowhere, beyond)
    assert answers[nowhere].error_code is ErrorCode.unknown_topic_id
    assert answers[beyond].error_code is ErrorCode.unknown_topic_or_partition
    assert [p.first_offset for p in answers[t0].acquired_records] == [0]
    assert await member.say({nowhere: [(0, 0, ACCEPT)], t0: [(0, 0, ACCEPT)]}) == {
        nowhere: ErrorCode.unknown_topic_id,
        t0: ErrorCode.none,
    }


@simulated()
async def test_bytes_are_shared_by_the_partitions(node):
    client, t0, _persister, leaders = await prepared(node, partitions=2)
    t1 = (t0[0], 1)
    for partition in (0, 1):
        for _ in range(4):
            await produce(client, "t", records(b"x" * 1_000), partition=partition)
    member = await opened(leaders, t0)
    await member.fetch(t1, wait_ms=10, most=0)
    answers = await member.fetch(max_bytes=4_400)
    assert [[(p.first_offset, p.last_offset) for p in answers[each].acquired_records] for each in (t0, t1)] == [
        [(0, 1)],
        [(0, 1)],
    ]
    assert list(await member.fetch(max_bytes=1)) == [t0], "one batch comes whole, whatever its size"
    assert list(await member.fetch(max_bytes=1)) == [t1], "and the next one from another partition"


@simulated()
async def test_who_wants_no_bytes_gets_no_records(node):
    _client, t0, _persister, leaders = await prepared(node, counts=(3,))
    member = await opened(leaders, t0)
    assert await member.take(wait_ms=10, max_bytes=0) == []
    assert await member.take(wait_ms=10) == [(0, 2, 1)]


@simulated()
async def test_a_request_that_opens_a_session_forgets_nothing(node):
    _client, t0, _persister, leaders = await prepared(node, counts=(3,))
    member = await opened(leaders, t0)
    member.epoch = 0
    assert await member.take(t0, wait_ms=10, forget=[t0]) == [(0, 2, 1)]
    assert await member.take(t0, wait_ms=10, forget=[t0]) == []


@simulated()
async def test_records_are_renewed(node):
    _client, t0, persister, leaders = await prepared(node, counts=(2,), record_lock_duration_ms=15_000)
    member = Member(leaders)
    await member.take(t0)
    refused = await member.fetch_later(words={t0: [(0, 1, RENEW)]}, renews=True, epoch=member.epoch)
    assert refused.error_code is ErrorCode.invalid_request, "it fetches as well"
    nothing = {"wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "most": 0}
    written = len(persister.writes)
    for _ in range(3):
        await asyncio.sleep(10)
        assert await member.take(words={t0: [(0, 1, RENEW)]}, renews=True, **nothing) == []
    answer = await member.say_later({t0: [(0, 1, RENEW)]}, renews=True)
    assert answer.acquisition_lock_timeout.total_seconds() == 15
    assert len(persister.writes) == written
    assert await member.say({t0: [(0, 0, RENEW)]}) == {t0: ErrorCode.invalid_request}
    assert await member.say({t0: [(0, 1, ACCEPT)]}) == {t0: ErrorCode.none}


@simulated()
async def test_a_log_start_that_moves_takes_records_along(node):
    client, t0, persister, leaders = await prepared(node, counts=(3, 3))
    member = Member(leaders)
    assert await member.take(t0, most=1) == [(0, 2, 1)]
    wanted = [{"name": "t", "partitions": [{"partition_index": 0, "offset": 4}]}]
    await ask(client, ApiKey.DELETE_RECORDS, 2, topics=wanted, timeout=1_000)
    assert await member.say({t0: [(0, 2, RELEASE)]}) == {t0: ErrorCode.none}
    assert await member.take() == [(4, 5, 1)], "no offset below the log start"
    await asyncio.sleep(0.1)
    assert persister.state(key_of(t0)).start == 4


@simulated()
async def test_a_log_start_that_moves_makes_room_for_those_who_wait(node):
    client, t0, _persister, leaders = await prepared(node, counts=(100, 5), partition_max_record_locks=100)
    holder, other = Member(leaders, "holder"), await opened(leaders, t0, "other")
    assert await holder.take(t0, most=100) == [(0, 99, 1)]
    waiting = other.fetch_later(wait_ms=100_000)
    await asyncio.sleep(1)
    before = node.loop.time()
    wanted = [{"name": "t", "partitions": [{"partition_index": 0, "offset": 100}]}]
    await ask(client, ApiKey.DELETE_RECORDS, 2, topics=wanted, timeout=1_000)
    got = [triple(piece) for piece in by_partition(await waiting)[t0].acquired_records]
    assert got == [(100, 104, 1)]
    assert node.loop.time() - before < 5


@simulated()
async def test_a_fenced_leader_says_so_and_begins_again(node):
    _client, t0, persister, leaders = await prepared(node, counts=(3,))
    member = Member(leaders)
    await member.take(t0)
    persister.failure = ErrorCode.fenced_state_epoch
    assert await member.say({t0: [(0, 2, ACCEPT)]}) == {t0: ErrorCode.not_leader_or_follower}
    persister.failure = None
    assert await member.take() == [(0, 2, 1)]


@simulated()
async def test_a_coordinator_that_is_away_costs_time_only(node):
    _client, t0, persister, leaders = await prepared(node, counts=(3,))
    persister.failure = ErrorCode.coordinator_not_available
    member = Member(leaders)
    assert await member.take(t0, wait_ms=100) == []
    persister.failure = None
    assert await member.take() == [(0, 2, 1)]
    persister.failure = ErrorCode.not_coordinator
    assert await member.say({t0: [(0, 2, ACCEPT)]}) == {t0: ErrorCode.coordinator_not_available}
    persister.failure = None
    assert persister.state(key_of(t0)).states == {}
    assert await member.say({t0: [(0, 2, ACCEPT)]}) == {t0: ErrorCode.none}, "the member has them still (SHARE-6)"
    assert persister.state(key_of(t0)).states == dict.fromkeys(range(3), (1, RecordState.ACKNOWLEDGED))


@simulated()
async def test_writes_that_gather_go_together(node):
    _client, t0, persister, leaders = await prepared(node, counts=(6,))
    member = Member(leaders)
    await member.take(t0)
    written = len(persister.writes)
    persister.is_open.clear()
    waiting = [member.say_later({t0: [(offset, offset, ACCEPT)]}) for offset in range(6)]
    await asyncio.sleep(1)
    assert not any(future.done() for future in waiting)
    persister.is_open.set()
    answers = [by_partition(await future)[t0].error_code for future in waiting]
    assert answers == [ErrorCode.none] * 6
    assert len(persister.writes) - written <= 2
    assert await member.take(wait_ms=10) == []


@simulated()
async def test_writes_that_wait_for_one_that_is_fenced_are_refused_with_it(node):
    _client, t0, persister, leaders = await prepared(node, counts=(6,))
    member = Member(leaders)
    await member.take(t0)
    persister.is_open.clear()
    first = member.say_later({t0: [(0, 0, ACCEPT)]})
    await asyncio.sleep(0.1)
    second = member.say_later({t0: [(1, 1, ACCEPT)]})
    await asyncio.sleep(0.1)
    persister.failure = ErrorCode.fenced_leader_epoch
    persister.is_open.set()
    for answer in (await first, await second):
        assert by_partition(answer)[t0].error_code is ErrorCode.not_leader_or_follower


@simulated()
async def test_what_is_led_no_more_is_answered_so(node):
    _client, t0, _persister, leaders = await prepared(node, counts=(3,))
    member, other = Member(leaders), await opened(leaders, t0, "other")
    await member.take(t0)
    waiting = other.fetch_later(wait_ms=100_000)
    await asyncio.sleep(0.1)
    hosted = node.hosted("t")
    hosted.leader = None
    hosted.role_changed()
    answers = by_partition(await waiting)
    assert answers[t0].error_code is ErrorCode.not_leader_or_follower
    assert answers[t0].current_leader.leader_epoch >= 0
    assert await member.say({t0: [(0, 2, ACCEPT)]}) == {t0: ErrorCode.not_leader_or_follower}


@simulated()
async def test_aborted_records_and_open_ones_are_not_delivered_under_read_committed(node):
    client, t0, persister, leaders = await prepared(node, isolation_level="read_committed")
    await set_group(client, "u", auto_offset_reset="earliest")
    write(node, 1, b"aborted")  # 0
    write(node, 2, b"committed")  # 1
    end(node, 1, is_commit=False)  # 2
    end(node, 2, is_commit=True)  # 3
    write(node, 1, b"later", sequence=1)  # 4
    end(node, 1, is_commit=True)  # 5
    write(node, 3, b"open")  # 6
    await produce(client, "t", records(b"hidden"))  # 7
    member = Member(leaders)
    assert await member.take(t0) == [(1, 1, 1), (4, 4, 1)]
    assert await member.say({t0: [(1, 1, ACCEPT), (4, 4, ACCEPT)]}) == {t0: ErrorCode.none}
    assert await member.take(wait_ms=100) == []
    await asyncio.sleep(0.1)
    assert persister.state(key_of(t0)).start in (1, 6)
    other = Member(leaders, group="u")
    assert await other.take(t0) == [(0, 1, 1), (4, 4, 1), (6, 7, 1)], "the others get all but the markers"


@simulated()
async def test_a_long_part_of_the_log_without_records_for_delivery_is_passed_at_once(node):
    client, t0, _persister, leaders = await prepared(node)
    for sequence in range(300):
        write(node, 1, b"committed" * 10, sequence=sequence)
        end(node, 1, is_commit=True)
    await produce(client, "t", records(b"value"))
    member = Member(leaders)
    taken, before = [], node.loop.time()
    while not taken or taken[-1][1] < 600:
        got = await member.take(t0, max_bytes=1, wait_ms=10)
        assert len(got) == 1
        taken += got
    assert [first for first, _last, _count in taken] == [*range(0, 600, 2), 600]
    assert node.loop.time() - before < 1.5, "no fetch waits at a marker"


@guarded()
async def test_members_need_to_read_their_topics(node):
    root = await client_of(node, ROOT)
    topic_id = await create_topic(root)
    await set_group(root, auto_offset_reset="earliest")
    await produce(root, "t", records(b"value"))
    leaders, t0 = leaders_of(node, MemoryPersister()), (topic_id, 0)
    member = Member(leaders, principal="User:a")
    assert (await member.fetch(t0))[t0].error_code is ErrorCode.topic_authorization_failed
    assert await member.say({t0: [(0, 0, ACCEPT)]}) == {t0: ErrorCode.topic_authorization_failed}
    await allow(root, "User:a", AclOperation.READ)
    assert await member.take() == [(0, 0, 1)]
    waiting = member.fetch_later(wait_ms=100_000)
    await withdraw(root, "User:a")
    await produce(root, "t", records(b"secret"))
    answers = by_partition(await waiting)
    assert (answers[t0].error_code, answers[t0].records) == (ErrorCode.topic_authorization_failed, b"")


@pytest.mark.parametrize("way", ["cut", "closed"])
@simulated()
async def test_nothing_is_acquired_if_the_session_ends_during_a_read(node, way):
    _client, t0, _persister, leaders = await prepared(node)
    append(node, records(*[b"x" * 5_000] * 3, timestamp_ms=0))
    member = await opened(leaders, t0)
    await node.replicas.flush(node.hosted("t"))
    node.disk.make_cold("/data/t-0/00000000000000000000.log")
    assert node.log("t").read(0, 1 << 20, 3, at_least_one=True) is None, "the read waits for the device"
    waiting = member.fetch_later(wait_ms=1_000)
    await asyncio.sleep(0)
    if way == "cut":
        member.cut()
    else:
        await member.say({}, epoch=-1)
    assert (await waiting).responses == ()
    assert await Member(leaders, "other").take(t0, most=1) == [(0, 2, 1)]


@pytest.mark.parametrize("by", ["acknowledge", "fetch"])
@pytest.mark.parametrize("types", [(ACCEPT,), (ACCEPT, REJECT, RELEASE)])
@simulated()
async def test_five_thousand_batches_in_one_request_all_count(node, by, types):
    client, t0, persister, leaders = await prepared(node, partitions=2, partition_max_record_locks=4_000)
    both = t0, (t0[0], 1)
    for number in range(2):
        await produce(client, "t", records(*[b"value"] * 2_500), partition=number)
    member = Member(leaders)
    acquired = [*await member.take(*both, most=5_000), *await member.take(*both, most=5_000)]
    assert acquired == [(0, 2_499, 1)] * 2
    words = {each: [(offset, offset, types[offset % len(types)]) for offset in range(2_500)] for each in both}
    if by == "acknowledge":
        assert await member.say(words) == dict.fromkeys(both, ErrorCode.none)
    else:
        answers = await member.fetch(words=words, wait_ms=10, most=1)
        assert {answers[each].acknowledge_error_code for each in both} == {ErrorCode.none}
    wanted = {ACCEPT: RecordState.ACKNOWLEDGED, REJECT: RecordState.ARCHIVED, RELEASE: RecordState.AVAILABLE}
    for each in both:
        found = persister.state(key_of(each))
        states = [state for _count, state in found.states.values()]
        assert states == [wanted[types[offset % len(types)]] for offset in range(2_500)][-len(states) :]
        assert found.start + len(states) == 2_500
    assert len(persister.writes) == 4, "where each begins, and all that was said of it"
