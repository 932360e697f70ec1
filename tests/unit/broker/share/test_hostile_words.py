"""Requests of members that ask for very much at once: answered right, in slices, while others are served."""

import asyncio
from collections import Counter

import pytest

from esp.broker.share.leaders import ShareLeaders
from esp.broker.turns.turns import SLICES_MAX, Turns
from esp.model.errors import ErrorCode
from esp.protocol.progress import AT_ONCE_ELEMENTS, SLICE_ELEMENTS
from esp.share.partition import SLICE_WORDS, SharePartition
from tests.unit.broker.conversation import create_topic, metadata, produce
from tests.unit.broker.group_conversation import until_coordinated
from tests.unit.broker.share.share_members import set_group
from tests.unit.broker.share_group_conversation import SETTINGS
from tests.unit.broker.share_groups import with_share_groups
from tests.unit.broker.simulated_node import records
from tests.unit.broker.wire_share_member import ACCEPT, RELEASE, WireMember, until_assigned

NODE = {**SETTINGS, "share_coordinator_state_topic_num_partitions": 3}
WINDOW = 4_000
"""The most records that a share partition may have under way."""

NONE, INVALID, NOT_HELD = ErrorCode.none, ErrorCode.invalid_request, ErrorCode.invalid_record_state


async def holder(node, client, count=WINDOW):
    """A member that has so many records."""
    topic_id = await create_topic(client)
    await set_group(client, auto_offset_reset="earliest", partition_max_record_locks=WINDOW)
    await until_coordinated(client)
    await until_assigned(client, 1)
    for _ in range(count // 100):
        await produce(client, "t", records(*[b"x"] * 100))
    member = WireMember(await node.client(), topic_id)
    held = 0
    while held < count:
        held += sum(last - first + 1 for _, first, last, _ in await member.take(0, most=count, max_bytes=1 << 30))
    return member


def by_turns(count):
    """A word on each record, each another one than those beside it."""
    return [(offset, offset, (ACCEPT, RELEASE)[offset % 2]) for offset in range(count)]


def work_by_turn(monkeypatch, kind, method):
    """The calls of a method in each turn of long work, from now on."""
    turns, called, real, give_turn = [0], Counter(), getattr(kind, method), Turns._give_turn

    def call(*args, **options):
        called[turns[0]] += 1
        return real(*args, **options)

    def give(self):
        turns[0] += 1
        give_turn(self)

    monkeypatch.setattr(kind, method, call)
    monkeypatch.setattr(Turns, "_give_turn", give)
    return called


@with_share_groups(**NODE)
async def test_a_word_on_each_of_very_many_records_is_taken_in_many_turns(scene, monkeypatch):
    node, client = scene
    member = await holder(node, client)
    called = work_by_turn(monkeypatch, SharePartition, "_take")
    assert await member.say({0: by_turns(WINDOW)}) == {0: NONE}
    assert sum(called.values()) == WINDOW // SLICE_WORDS
    assert max(called.values()) <= SLICES_MAX
    [share] = node.node.broker.dispatcher._services.share_leaders()._groups["g"].values()
    assert (share.core.start_offset, share.core.acquired_count) == (1, 0)
    assert len(share.core.runs) == WINDOW - 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([(offset, offset, ACCEPT) for offset in range(5_000)], INVALID),
        ([(offset, offset, ACCEPT) for offset in range(5_000, 0, -1)], INVALID),
        ([(0, 99, ACCEPT)] * 5_000, INVALID),
        ([(0, 2**31, ACCEPT)], INVALID),
        ([(0, 99, *[ACCEPT, RELEASE] * 25_000)], INVALID),
        ([*by_turns(99), (100, 100, ACCEPT)], INVALID),
        ([*by_turns(99), (99, 99, ACCEPT)], NONE),
    ],
    ids=["past the last", "descending", "overlapping", "2^31 offsets", "too many types", "past by one", "right"],
)
@with_share_groups(**NODE)
async def test_words_of_odd_members_are_answered_and_what_is_refused_changes_nothing(scene, words, error):
    node, client = scene
    member = await holder(node, client, 100)
    assert await member.say({0: words}) == {0: error}
    if error is not NONE:
        assert await member.say({0: by_turns(100)}) == {0: NONE}


@with_share_groups(**NODE)
async def test_a_connection_that_ends_during_its_words_releases_what_they_were_on(scene):
    node, client = scene
    member = await holder(node, client)
    saying = asyncio.ensure_future(member.say({0: by_turns(WINDOW)}))
    await metadata(client, ["t"])
    member.client.close()
    with pytest.raises(Exception):  # noqa: B017, PT011 - of whatever kind the simulated connection's end is
        await saying
    await asyncio.sleep(1)
    [share] = node.node.broker.dispatcher._services.share_leaders()._groups["g"].values()
    assert share.core.acquired_count == 0
    assert not share.core.has_writes


@with_share_groups(**NODE)
async def test_a_fetch_of_ten_thousand_partitions_is_answered_in_many_turns(scene, monkeypatch):
    node, client = scene
    topic_id = await create_topic(client)
    await until_coordinated(client)
    await until_assigned(client, 1)
    member = WireMember(await node.client(), topic_id)
    looked = work_by_turn(monkeypatch, ShareLeaders, "find")
    answers = await member.fetch(*range(10_000), wait_ms=0)
    assert sum(looked.values()) >= 10_000
    assert max(looked.values()) <= AT_ONCE_ELEMENTS + SLICES_MAX * SLICE_ELEMENTS
    assert {answer.error_code for number, answer in answers.items() if number} == {ErrorCode.unknown_topic_or_partition}
    assert len(answers) >= 9_999
