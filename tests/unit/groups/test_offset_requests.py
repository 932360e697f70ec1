import pytest

from esp.groups.requests import CommittedOffset, OffsetCommit, OffsetFetch, Protocol
from esp.groups.responses import FetchedOffset
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.schemas.group_record_codec import STRING_BYTES_MAX
from tests.unit.groups.world import DELAY_MS, World


def test_offsets_of_a_client_that_is_no_member_make_a_simple_group():
    world = World()
    world.commit_offsets({("t", 0): 42, ("t", 1): 7}, group="simple")
    assert world.offsets("simple") == {("t", 0): 42, ("t", 1): 7}
    listed = world.groups()["simple"]
    assert (listed.protocol_type, listed.state, listed.group_type) == ("", "Empty", "classic")


def test_offsets_are_told_once_they_are_committed():
    world = World()
    world.commit_offsets({("t", 0): 1})
    world.is_stuck = True
    ticket = world.commit_offsets({("t", 0): 2})
    assert world.offsets() == {("t", 0): 1}
    assert ticket in world.open_tickets()
    world.commit()
    assert world.offsets() == {("t", 0): 2}
    assert world.error(ticket) is ErrorCode.none


def test_offsets_that_cannot_be_written_are_refused_and_forgotten():
    world = World()
    world.commit_offsets({("t", 0): 1})
    world.is_stuck = True
    tickets = [world.commit_offsets({("t", 0): offset}) for offset in (2, 3, 4)]
    world.fail(ErrorCode.not_enough_replicas)
    world.commit(1)
    assert world.offsets() == {("t", 0): 3}
    world.fail(ErrorCode.kafka_storage_error)
    assert world.offsets() == {("t", 0): 3}
    assert [world.error(ticket) for ticket in tickets] == [
        ErrorCode.coordinator_not_available,
        ErrorCode.none,
        ErrorCode.not_coordinator,
    ]


def test_commit_that_takes_too_long_is_refused_but_may_still_hold():
    world = World(is_stuck=True)
    ticket = world.commit_offsets({("t", 0): 1})
    world.sleep(4_999)
    assert ticket in world.open_tickets()
    world.sleep(1)
    assert world.error(ticket) is ErrorCode.coordinator_not_available
    world.commit()
    assert world.offsets() == {("t", 0): 1}


def test_all_that_a_commit_says_is_told_again():
    world = World()
    committed = CommittedOffset(TopicPartition("t", 0), 42, 3, "note é😀")
    request = OffsetCommit(group_id="g", offsets=(committed,))
    world.ask(world.coordinator.commit_offsets, request)
    partitions = (TopicPartition("t", 0), TopicPartition("nope", 1))
    for it in (world, world.restart()):
        result = it.coordinator.fetch_offsets(OffsetFetch(group_id="g", partitions=partitions))
        assert result.offsets == (
            FetchedOffset(partitions[0], 42, 3, "note é😀"),
            FetchedOffset(partitions[1], -1, -1, ""),
        )


def test_unknown_group_has_no_offsets_and_that_is_no_error():
    world = World()
    partitions = (TopicPartition("t", 0),)
    fetch = world.coordinator.fetch_offsets
    assert fetch(OffsetFetch(group_id="g", partitions=partitions)).offsets == (FetchedOffset(partitions[0]),)
    assert fetch(OffsetFetch(group_id="g", partitions=None)).offsets == ()


def test_all_offsets_come_ordered_by_topic():
    world = World()
    world.commit_offsets({("b", 1): 1, ("a", 2): 2, ("b", 0): 3})
    assert list(world.offsets()) == [("a", 2), ("b", 0), ("b", 1)]


def test_empty_group_name_is_a_name_for_offsets():
    world = World()
    assert world.error(world.commit_offsets({("t", 0): 1}, group="")) is ErrorCode.none
    assert world.offsets("") == {("t", 0): 1}


@pytest.mark.parametrize("knows", [False, True])
def test_generation_of_a_group_that_is_not_there_is_refused(knows):
    world = World()
    ticket = world.commit_offsets({("t", 0): 1}, generation_id=3, member_id="a", knows_member_epochs=knows)
    assert world.error(ticket) is (ErrorCode.group_id_not_found if knows else ErrorCode.illegal_generation)
    assert world.groups() == {}


@pytest.mark.parametrize(
    ("who", "error"),
    [
        ({"member_id": "member", "generation_id": 1}, ErrorCode.none),
        ({}, ErrorCode.unknown_member_id),
        ({"member_id": "member"}, ErrorCode.illegal_generation),
        ({"member_id": "member", "generation_id": 2}, ErrorCode.illegal_generation),
        ({"member_id": "stranger", "generation_id": 1}, ErrorCode.unknown_member_id),
        ({"generation_id": 1}, ErrorCode.unknown_member_id),
        ({"member_id": "member", "generation_id": 1, "group_instance_id": "one"}, ErrorCode.unknown_member_id),
    ],
)
def test_group_with_members_takes_offsets_of_its_generation_alone(who, error):
    world = World()
    (member,) = world.stable()
    if who.get("member_id") == "member":
        who = {**who, "member_id": member}
    assert world.error(world.commit_offsets({("t", 0): 1}, **who)) is error
    assert world.offsets() == ({("t", 0): 1} if error is ErrorCode.none else {})


def test_members_commit_while_they_are_to_join_again():
    world = World()
    leader, follower = world.stable(2)
    world.join(leader)
    ticket = world.commit_offsets({("t", 0): 1}, member_id=follower, generation_id=1)
    assert world.error(ticket) is ErrorCode.none


def test_member_without_its_assignment_cannot_commit():
    world = World()
    ticket = world.join()
    world.sleep(DELAY_MS)
    member = world.answers[ticket].member_id
    ticket = world.commit_offsets({("t", 0): 1}, member_id=member, generation_id=1)
    assert world.error(ticket) is ErrorCode.rebalance_in_progress


def test_client_without_a_generation_commits_to_an_empty_group():
    world = World()
    (member,) = world.stable()
    world.leave(member)
    assert world.error(world.commit_offsets({("t", 0): 1}, member_id=member)) is ErrorCode.none
    ticket = world.commit_offsets({("t", 0): 2}, member_id=member, generation_id=2)
    assert world.error(ticket) is ErrorCode.unknown_member_id


def test_text_beside_an_offset_is_limited_in_utf_16_units():
    world = World()
    texts = ("x" * 4096, "x" * 4097, "😀" * 2048, "😀" * 2049)
    offsets = tuple(
        CommittedOffset(TopicPartition("t", number), number, metadata=text) for number, text in enumerate(texts)
    )
    ticket = world.ask(world.coordinator.commit_offsets, OffsetCommit(group_id="g", offsets=offsets))
    too_large = ErrorCode.offset_metadata_too_large
    errors = [outcome.error for outcome in world.answers[ticket].partitions]
    assert errors == [ErrorCode.none, too_large, ErrorCode.none, too_large]
    assert world.offsets("g") == {("t", 0): 0, ("t", 2): 2}


def test_text_beside_an_offset_that_expires_fits_into_its_record():
    world = World(offset_metadata_max_bytes=100_000)
    longest = "x" * STRING_BYTES_MAX
    assert world.error(world.commit_offsets({("t", 0): 1}, metadata=longest, retention_ms=1_000)) is ErrorCode.none
    ticket = world.commit_offsets({("t", 0): 1}, metadata=longest + "x", retention_ms=1_000)
    assert world.error(ticket) is ErrorCode.offset_metadata_too_large


def test_answer_without_a_record_waits_for_what_it_rests_on():
    world = World(offset_metadata_max_bytes=1)
    world.is_stuck = True
    world.commit_offsets({("t", 0): 1})
    ticket = world.commit_offsets({("t", 0): 1}, metadata="xx")
    assert ticket in world.open_tickets()
    world.commit()
    assert world.error(ticket) is ErrorCode.offset_metadata_too_large
    assert world.error(world.commit_offsets({("t", 0): 1}, metadata="xx")) is ErrorCode.offset_metadata_too_large


def test_answer_without_a_record_fails_with_what_it_rests_on():
    world = World(is_stuck=True, offset_metadata_max_bytes=1)
    world.commit_offsets({("t", 0): 1})
    ticket = world.commit_offsets({("t", 0): 1}, metadata="xx")
    world.fail(ErrorCode.not_leader_or_follower)
    assert world.error(ticket) is ErrorCode.not_coordinator


def test_answer_without_a_record_does_not_wait_for_what_is_late_already():
    world = World(is_stuck=True, offset_metadata_max_bytes=1)
    world.commit_offsets({("t", 0): 1})
    world.sleep(5_000)
    ticket = world.commit_offsets({("t", 0): 1}, metadata="xx")
    assert world.error(ticket) is ErrorCode.coordinator_not_available


def test_retention_without_end_is_no_overflow():
    world = World()
    assert world.error(world.commit_offsets({("t", 0): 1}, retention_ms=2**63 - 1)) is ErrorCode.none
    assert world.restart().offsets() == {("t", 0): 1}


def test_group_name_that_no_record_can_hold_is_refused():
    world = World()
    ticket = world.commit_offsets({("t", 0): 1}, group="é" * 16_384)
    assert world.error(ticket) is ErrorCode.invalid_group_id


class TestOffsetDelete:
    def test_offsets_of_topics_without_subscribers_are_forgotten(self):
        world = World()
        (member,) = world.stable()
        world.commit_offsets({("t", 0): 1, ("u", 0): 2}, member_id=member, generation_id=1)
        ticket = world.delete_offsets(("t", 0), ("u", 0), ("u", 9))
        assert [outcome.error for outcome in world.answers[ticket].partitions] == [
            ErrorCode.group_subscribed_to_topic,
            ErrorCode.none,
            ErrorCode.none,
        ]
        assert world.offsets() == world.restart().offsets() == {("t", 0): 1}

    def test_group_whose_subscriptions_are_not_known_may_read_any_topic(self):
        world = World()
        (member,) = world.stable(protocols=(Protocol("range", b"what?"),))
        world.commit_offsets({("u", 0): 2}, member_id=member, generation_id=1)
        assert world.error(world.delete_offsets(("u", 0))) is ErrorCode.group_subscribed_to_topic

    def test_group_of_another_kind_must_be_empty(self):
        world = World()
        (member,) = world.stable(protocol_type="connect")
        ticket = world.delete_offsets(("u", 0))
        assert world.answers[ticket].error is ErrorCode.non_empty_group
        world.leave(member)
        assert world.error(world.delete_offsets(("u", 0))) is ErrorCode.none

    def test_group_that_is_not_there_is_refused(self):
        world = World()
        assert world.answers[world.delete_offsets(("t", 0))].error is ErrorCode.group_id_not_found
        assert world.answers[world.delete_offsets(("t", 0), group="")].error is ErrorCode.invalid_group_id

    def test_deletion_is_told_once_it_is_committed(self):
        world = World()
        world.commit_offsets({("t", 0): 1})
        world.is_stuck = True
        ticket = world.delete_offsets(("t", 0))
        assert world.offsets() == {("t", 0): 1}
        world.fail()
        assert world.answers[ticket].error is ErrorCode.coordinator_not_available
        assert world.offsets() == {("t", 0): 1}
        world.delete_offsets(("t", 0))
        world.commit()
        assert world.offsets() == {}

    def test_offset_that_is_committed_at_the_same_time_is_forgotten_too(self):
        world = World()
        world.commit_offsets({("t", 1): 1})
        world.is_stuck = True
        world.commit_offsets({("t", 0): 1})
        world.delete_offsets(("t", 0))
        world.commit()
        assert world.offsets() == world.restart().offsets() == {("t", 1): 1}
