"""ConsumerGroupHeartbeat: members join, share partitions, give them back, leave and are fenced; as measured on Kafka 4.3.1."""

import pytest

from esp.groups.requests import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, ConsumerGroupHeartbeat
from esp.model.errors import ErrorCode
from esp.schemas.consumer_group_record_codec import decode_consumer_group_record
from esp.schemas.consumer_group_records import ConsumerGroupRecordType
from esp.schemas.group_record_codec import STRING_BYTES_MAX
from tests.unit.groups.world import GROUP, REBALANCE_MS, Topics, World

INTERVAL_MS = 1_000
SESSION_MS = 45_000
GROUP_EPOCH = ConsumerGroupRecordType.GROUP_EPOCH


@pytest.fixture
def world():
    return World(topics=Topics(t=4))


def beat(world, member_id, epoch=0, **more):
    """A heartbeat, and its answer: error, epoch, and the numbers of the assigned partitions of ``t``."""
    answer = world.answers[world.consume(member_id, epoch, **more)]
    if answer.error is not ErrorCode.none:
        return answer.error
    numbers = None if answer.assignment is None else sorted(one.partition for one in answer.assignment)
    return answer.member_epoch, numbers


def types_since(world, place):
    """The types of records since a place in the log; negative for tombstones."""
    records = (decode_consumer_group_record(record.key, record.value) for record in world.log[place:])
    return [int(record.key.type) * (-1 if record.value is None else 1) for record in records]


def described(world, group=GROUP):
    return world.coordinator.describe_consumer_group(group)


def pair(world):
    """Two members, each with its half: their epoch is 3."""
    assert beat(world, "a") == (2, [0, 1, 2, 3])
    world.sleep(INTERVAL_MS)
    assert beat(world, "b") == (3, [])
    [kept, given_up] = _halves(beat(world, "a", 2))
    assert beat(world, "a", 2, owned=world.topics.partitions("t", *kept)) == (3, None)
    assert beat(world, "b", 3, owned=()) == (3, given_up)
    return kept, given_up


def _halves(answer):
    assert answer[0] == 2, "the epoch rises when all is given back"
    return answer[1], [number for number in range(4) if number not in answer[1]]


def test_the_first_member_gets_all_at_once_in_epoch_2(world):
    assert beat(world, "a") == (2, [0, 1, 2, 3])
    assert types_since(world, 0) == [5, 3, 7, 6, 8]
    assert described(world).state == "Stable"


def test_a_group_whose_members_subscribe_to_nothing_stays_at_epoch_1(world):
    assert beat(world, "a", topics=()) == (1, [])
    assert types_since(world, 0) == [5, 8]
    again = world.restart()
    assert (described(again).epoch, described(again).state) == (1, "Stable")


def test_two_members_share_and_never_have_one_partition_at_once(world):
    kept, given_up = pair(world)
    assert sorted(kept + given_up) == [0, 1, 2, 3]
    group = described(world)
    assert (group.state, group.epoch, group.assignment_epoch, group.assignor) == ("Stable", 3, 3, "uniform")
    assert [len(member.assigned) for member in group.members] == [2, 2]


def test_within_the_interval_a_joiner_waits_in_the_old_epoch(world):
    beat(world, "a")
    assert beat(world, "b") == (2, [])
    assert described(world).state == "Assigning"
    world.sleep(INTERVAL_MS - 1)
    assert beat(world, "b", 2) == (2, None)
    world.sleep(1)
    assert beat(world, "b", 2)[0] == 3


def test_nothing_is_written_by_a_heartbeat_that_changes_nothing(world):
    pair(world)
    place = len(world.log)
    world.sleep(5_000)
    assert beat(world, "a", 3) == (3, None)
    assert beat(world, "a", 3, topics=("t",), rack_id=None) == (3, None)
    assert len(world.log) == place


def test_a_member_at_rest_is_known_to_be(world):
    """That the answers are the same is looked at with each heartbeat of these tests."""
    pair(world)
    for number in range(3):
        assert beat(world, "a", 3) == (3, None)
        assert world.at_rest == number + 1
    assert beat(world, "a", 3, rebalance_timeout_ms=REBALANCE_MS, owned=()) == (3, None)
    assert world.at_rest == 4


@pytest.mark.parametrize(
    "news",
    [
        {"topics": ("t",)},
        {"topic_regex": ""},
        {"assignor": "range"},
        {"rack_id": "r"},
        {"rebalance_timeout_ms": 1},
        {"instance_id": "i"},
        {"instance_id": ""},
    ],
    ids=lambda news: next(iter(news)),
)
def test_a_member_that_tells_something_is_not_at_rest(world, news):
    pair(world)
    world.consume("a", 3, **news)
    assert world.at_rest == 0


def test_a_group_with_something_under_way_is_not_at_rest(world):
    pair(world)
    world.topics.create("u", 1)  # may be one of the group's, for all that is known
    beat(world, "a", 3)
    assert world.at_rest == 0
    beat(world, "a", 3)
    assert world.at_rest == 1
    world.is_stuck = True
    world.consume("c")
    world.consume("a", 3)
    assert world.at_rest == 1
    world.commit()
    world.is_stuck = False
    assert beat(world, "a", 3) == (3, None)
    assert world.at_rest == 1, "the next assignment is due"


def test_what_other_groups_write_does_not_hold_up_a_member_at_rest(world):
    pair(world)
    world.is_stuck = True
    world.consume("x", group="other")
    world.consume("a", 3)
    assert world.at_rest == 1


def test_a_member_at_rest_has_its_full_time_again(world):
    pair(world)
    for _ in range(3):
        world.sleep(SESSION_MS - 1_000)
        beat(world, "a", 3)
        beat(world, "b", 3)
    assert world.at_rest == 6
    assert len(described(world).members) == 2


def test_static_members_and_readers_of_expressions_come_to_rest(world):
    beat(world, "a", topic_regex="t", instance_id="i")
    beat(world, "a", 2, instance_id="i")
    beat(world, "a", 2)
    assert world.at_rest == 2
    world.consume("b", 2, instance_id="i")
    assert world.at_rest == 2


def test_a_full_request_is_told_everything(world):
    kept, _ = pair(world)
    owned = world.topics.partitions("t", *kept)
    assert beat(world, "a", 3, topics=("t",), owned=owned, rebalance_timeout_ms=1) == (3, kept)


def test_an_answer_that_was_lost_is_given_again_to_a_member_that_has_no_more_than_it_was_told(world):
    kept, given_up = pair(world)
    owned = world.topics.partitions("t", *kept)
    assert beat(world, "a", 2, owned=owned) == (3, None)
    assert beat(world, "a", 2) is ErrorCode.fenced_member_epoch
    assert beat(world, "a", 2, owned=world.topics.partitions("t", given_up[0])) is ErrorCode.fenced_member_epoch
    assert beat(world, "a", 1, owned=owned) is ErrorCode.fenced_member_epoch
    assert beat(world, "a", 4, owned=owned) is ErrorCode.fenced_member_epoch


def test_a_member_that_joins_again_keeps_its_partitions(world):
    kept, _ = pair(world)
    place = len(world.log)
    assert beat(world, "a") == (3, kept)
    assert len(world.log) == place


def test_a_member_that_leaves_gives_all_back(world):
    pair(world)
    place = len(world.log)
    assert beat(world, "b", LEAVE_EPOCH) == (LEAVE_EPOCH, None)
    assert types_since(world, place) == [-8, -7, -5, 3]
    world.sleep(INTERVAL_MS)
    assert beat(world, "a", 3) == (4, [0, 1, 2, 3])


def test_the_last_member_leaves_an_empty_group_at_rest(world):
    beat(world, "a")
    assert beat(world, "a", LEAVE_EPOCH) == (LEAVE_EPOCH, None)
    group = described(world)
    assert (group.state, group.epoch, group.assignment_epoch) == ("Empty", 3, 3)
    assert described(world.restart()) == group


def test_a_silent_member_is_fenced(world):
    pair(world)
    world.sleep(SESSION_MS - 1)
    beat(world, "a", 3)
    world.sleep(1)
    assert beat(world, "b", 3) is ErrorCode.unknown_member_id
    assert beat(world, "a", 3) == (4, [0, 1, 2, 3])


def test_a_member_that_does_not_give_back_in_time_is_fenced(world):
    beat(world, "a", rebalance_timeout_ms=3_000)
    world.sleep(INTERVAL_MS)
    beat(world, "b")
    assert len(beat(world, "a", 2)[1]) == 2
    world.sleep(2_999)
    assert beat(world, "a", 2) == (2, None)
    world.sleep(1)
    assert beat(world, "a", 2) is ErrorCode.unknown_member_id
    assert beat(world, "b", 3) == (4, [0, 1, 2, 3])


def test_the_time_to_give_back_ends_when_all_is_given_back(world):
    pair(world)
    for _ in range(3):
        world.sleep(REBALANCE_MS // 3)
        beat(world, "a", 3)
        beat(world, "b", 3)
    assert len(described(world).members) == 2


def test_loaded_members_have_their_full_time(world):
    pair(world)
    beat(world, "c")
    again = world.restart()
    assert described(again) == described(world)
    again.sleep(SESSION_MS - 1)
    assert beat(again, "a", 3) != ErrorCode.unknown_member_id
    again.sleep(1)
    assert beat(again, "b", 3) is ErrorCode.unknown_member_id


def test_new_partitions_and_topics_are_noticed(world):
    beat(world, "a", topics=("t", "u"))
    world.sleep(INTERVAL_MS)
    world.topics.create("t", 5)
    assert beat(world, "a", 2) == (3, [0, 1, 2, 3, 4])
    world.sleep(INTERVAL_MS)
    world.topics.create("u", 1)
    assert beat(world, "a", 3) == (4, [0, 0, 1, 2, 3, 4])
    world.sleep(INTERVAL_MS)
    world.topics.create("other", 1)
    assert beat(world, "a", 4) == (4, None)
    world.topics.delete("t")
    assert beat(world, "a", 4, owned=()) == (5, [0])


def test_a_change_that_could_not_be_written_is_seen_again(world):
    beat(world, "a")
    world.sleep(INTERVAL_MS)
    world.topics.create("t", 5)
    world.is_stuck = True
    ticket = world.consume("a", 2)
    world.fail()
    assert world.answers[ticket].error is ErrorCode.coordinator_not_available
    world.is_stuck = False
    assert beat(world, "a", 2) == (3, [0, 1, 2, 3, 4])


def test_a_new_subscription_takes_partitions_away_before_there_is_a_new_target(world):
    world.topics.create("u", 2)
    beat(world, "a", topics=("t", "u"))
    assert beat(world, "a", 2, topics=("u",), owned=world.topics.partitions("t")) == (2, [0, 1])
    world.sleep(INTERVAL_MS)
    assert beat(world, "a", 2, owned=world.topics.partitions("u")) == (3, None)


def test_the_assignor_that_most_ask_for_counts(world):
    beat(world, "a", assignor="range")
    assert described(world).assignor == "range"
    assert beat(world, "b", assignor="nearest") is ErrorCode.unsupported_assignor


def test_a_group_has_times_of_its_own(world):
    world.topics.configs[GROUP] = {
        "consumer.session.timeout.ms": "60000",
        "consumer.heartbeat.interval.ms": "7000",
        "consumer.assignment.interval.ms": "0",
    }
    assert world.answers[world.consume("a")].heartbeat_interval_ms == 7_000
    assert beat(world, "b") == (3, [])
    world.sleep(SESSION_MS)
    assert len(described(world).members) == 2
    world.sleep(60_000 - SESSION_MS)
    assert described(world).members == ()


def test_a_heartbeat_at_rest_gives_its_member_the_session_of_its_group(world):
    world.topics.configs[GROUP] = {"consumer.session.timeout.ms": "60000"}
    assert beat(world, "a") == (2, [0, 1, 2, 3])
    beat(world, "a", 2, owned=world.topics.partitions("t"))
    request = ConsumerGroupHeartbeat(
        group_id=GROUP, member_id="a", member_epoch=2, client_id="client of a", client_host="/127.0.0.1"
    )
    for _ in range(2):
        world.sleep(59_999)
        assert world.coordinator.beat_at_rest(request, world.now) is not None
    world.sleep(59_999)
    assert len(described(world).members) == 1
    world.sleep(1)
    assert described(world).members == ()


# Regular expressions.


def test_an_expression_is_resolved_at_once_and_again_when_there_are_other_topics(world):
    world.topics.create("tt", 1)
    assert beat(world, "a", topic_regex="t+") == (2, [0, 0, 1, 2, 3])
    assert types_since(world, 0) == [5, 16, 3, 7, 6, 8]
    world.sleep(INTERVAL_MS)
    world.topics.create("ttt", 1)
    assert beat(world, "a", 2) == (3, [0, 0, 0, 1, 2, 3])
    world.sleep(INTERVAL_MS)
    place = len(world.log)
    assert beat(world, "a", 3, topic_regex="t", owned=world.topics.partitions("t")) == (4, [0, 1, 2, 3])
    assert -16 in types_since(world, place)
    place = len(world.log)
    beat(world, "a", LEAVE_EPOCH)
    assert types_since(world, place) == [-8, -7, -5, -16, 3, 6]


def test_an_expression_matches_whole_names_that_the_client_may_know_of(world):
    world.topics.create("secret", 1)
    world.topics.create("__consumer_offsets", 2)
    assert beat(world, "a", topic_regex=".*", may_describe=lambda name: name != "secret") == (2, [0, 1, 2, 3])
    assert beat(world, "b", group="g2", topic_regex="__.*") == (2, [0, 1])
    assert beat(world, "c", group="g3", topic_regex="") == (1, [])
    assert beat(world, "d", topic_regex="(") is ErrorCode.invalid_regular_expression
    assert beat(world, "d", topic_regex="(?!x)") is ErrorCode.invalid_regular_expression


def test_an_expression_whose_topics_are_looked_for_keeps_those_that_it_has(world, monkeypatch):
    assert beat(world, "a", topic_regex="t+") == (2, [0, 1, 2, 3])
    world.sleep(INTERVAL_MS)
    world.topics.create("tt", 1)
    with monkeypatch.context() as patch:
        patch.setattr(world.topics, "matching", lambda _regex: None)
        assert beat(world, "a", 2) == (2, None)
        assert beat(world, "b", topic_regex="tt") == (2, []), "nothing is known of it yet"
        patch.setattr(world.topics, "matching", Topics(t=1).matching)
        assert beat(world, "c", topic_regex="(") is ErrorCode.invalid_regular_expression
    owned = world.topics.partitions("t")
    assert beat(world, "a", 2, owned=owned, topic_regex="t+")[0] == 3
    assert "tt" in world.coordinator._state.consumers.find(GROUP).topic_names


# Sizes and floods.


def test_ids_are_as_long_as_a_record_can_hold(world):
    longest = "m" * STRING_BYTES_MAX
    assert beat(world, longest) == (2, [0, 1, 2, 3])
    assert beat(world, longest + "m") is ErrorCode.invalid_request
    assert beat(world, "\u00fc" * (STRING_BYTES_MAX // 2 + 1)) is ErrorCode.invalid_request
    world = world.restart()
    assert [member.member_id for member in described(world).members] == [longest]
    assert beat(world, longest, 2) == (2, None)


class Counted(Topics):
    """Topics that count how often they are looked at."""

    def __init__(self, **counts):
        self.looks = 0
        super().__init__(**counts)

    def find(self, name):
        self.looks += 1
        return super().find(name)

    def matching(self, regex):
        self.looks += 1
        return super().matching(regex)


def test_heartbeats_of_members_at_rest_write_nothing_and_look_at_nothing():
    world = World(topics=Counted(t=4))
    assert beat(world, "a", topic_regex="t+") == (2, [0, 1, 2, 3])
    beat(world, "a", 2)
    size, looks = len(world.log), world.topics.looks
    timers = len(world.coordinator._state.deadlines._heap)
    for _ in range(10_000):
        assert beat(world, "a", 2) == (2, None)
        world.sleep(1)
    assert (len(world.log), world.topics.looks) == (size, looks)
    assert len(world.coordinator._state.deadlines._heap) <= timers
    assert not world.open_tickets()


def test_clients_that_join_and_leave_without_end_leave_nothing_in_memory(world):
    for number in range(200):
        beat(world, f"{number}")
        beat(world, f"{number}", LEAVE_EPOCH)
    state = world.coordinator._state
    assert not world.open_tickets()
    assert [len(group) for group in state.consumers.newest()] == [0]
    world.sleep(120_000)
    assert len(state.deadlines._heap) <= 2, "the sessions of those that left have run out"


# Static members.


@pytest.mark.parametrize("epoch", [2, LEAVE_EPOCH, LEAVE_STATIC_EPOCH])
def test_an_instance_that_is_not_there_is_refused_by_its_name(world, epoch):
    beat(world, "a")
    answer = world.answers[world.consume("a", epoch, instance_id="i")]
    assert (answer.error, answer.error_message) == (ErrorCode.unknown_member_id, "Instance id i is unknown.")


def test_a_static_member_comes_back_under_another_id_with_what_it_had(world):
    beat(world, "a", instance_id="i")
    assert beat(world, "a2", instance_id="i") is ErrorCode.unreleased_instance_id
    place = len(world.log)
    assert beat(world, "a", LEAVE_STATIC_EPOCH, instance_id="i") == (LEAVE_STATIC_EPOCH, None)
    assert types_since(world, place) == [8]
    place = len(world.log)
    assert beat(world, "a2", instance_id="i") == (2, [0, 1, 2, 3])
    assert 3 not in types_since(world, place)
    assert beat(world, "a", 2, instance_id="i") is ErrorCode.fenced_instance_id
    assert beat(world, "a", 2) is ErrorCode.unknown_member_id
    assert beat(world, "a2", 2, instance_id="i") == (2, None)


def test_a_static_member_that_stays_away_is_fenced(world):
    beat(world, "a", instance_id="i")
    world.sleep(1_000)
    beat(world, "a", LEAVE_STATIC_EPOCH, instance_id="i")
    world.sleep(SESSION_MS)
    assert described(world).state == "Empty"


# Requests that are refused.


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"member_id": ""}, "invalid_request"),
        ({"group": " "}, "invalid_request"),
        ({"instance_id": ""}, "invalid_request"),
        ({"rack_id": ""}, "invalid_request"),
        ({"epoch": -3}, "invalid_request"),
        ({"epoch": LEAVE_STATIC_EPOCH}, "invalid_request"),
        ({"rebalance_timeout_ms": -1}, "invalid_request"),
        ({"owned": None, "joins": False, "topics": ("t",), "rebalance_timeout_ms": 1}, "invalid_request"),
        ({"joins": False, "owned": (), "rebalance_timeout_ms": 1}, "invalid_request"),
        ({"member_id": "m" * 40_000}, "invalid_request"),
        ({"epoch": 1}, "group_id_not_found"),
        ({"epoch": LEAVE_EPOCH}, "group_id_not_found"),
    ],
)
def test_requests_that_no_member_may_send(world, request_, error):
    assert beat(world, **{"member_id": "a", **request_}) is ErrorCode[error]
    assert world.log == []


def test_partitions_that_a_joiner_claims_are_refused(world):
    assert beat(world, "a", owned=world.topics.partitions("t")) is ErrorCode.invalid_request


def test_a_full_group_takes_no_more(world):
    world = World(topics=world.topics, consumer_max_size=1)
    beat(world, "a")
    assert beat(world, "b") is ErrorCode.group_max_size_reached
    assert beat(world, "a") == (2, [0, 1, 2, 3])


def test_version_0_is_given_an_id(world):
    answer = world.answers[world.consume("", makes_member_id=False)]
    assert len(answer.member_id) == 22
    assert beat(world, answer.member_id, 2) == (2, None)


# The log.


def test_an_operation_that_fails_leaves_nothing(world):
    world.is_stuck = True
    ticket = world.consume("a")
    assert world.answers.get(ticket) is None
    world.fail()
    assert world.answers[ticket].error is ErrorCode.coordinator_not_available
    assert described(world).error is ErrorCode.group_id_not_found
    world.is_stuck = False
    assert beat(world, "a") == (2, [0, 1, 2, 3])


def test_administrators_see_what_is_committed(world):
    world.is_stuck = True
    world.consume("a")
    assert described(world).error is ErrorCode.group_id_not_found
    world.commit()
    assert described(world).state == "Stable"


def test_a_heartbeat_that_writes_nothing_waits_for_what_it_tells(world):
    beat(world, "a")
    world.sleep(INTERVAL_MS)
    world.is_stuck = True
    world.consume("b")
    ticket = world.consume("b", 3)
    assert ticket not in world.answers
    world.commit()
    assert world.answers[ticket].member_epoch == 3


def test_a_member_that_could_not_be_fenced_is_fenced_later(world):
    pair(world)
    world.is_stuck = True
    world.sleep(SESSION_MS)
    while world.waiting:
        world.fail()
    assert len(described(world).members) == 2
    world.is_stuck = False
    world.sleep(1_000)
    assert described(world).state == "Empty"


def epochs_in(log):
    """The epochs of the group in a log, in their order."""
    records = (decode_consumer_group_record(record.key, record.value) for record in log)
    return [record.value.epoch for record in records if record.key.type is GROUP_EPOCH and record.value is not None]


@pytest.mark.parametrize("times", [1, 3])
def test_members_that_could_not_be_fenced_at_one_time_leave_no_trace(world, times):
    """The second end rests on the first one: it may not stand in the log without it, and what it rests on may not come back with it."""
    pair(world)
    before = epochs_in(world.log)
    for _ in range(times):
        world.is_stuck = True
        world.sleep(SESSION_MS)
        assert len(world.waiting) == 2
        world.fail()
        assert world.waiting == {}, "both are undone"
        world.is_stuck = False
    assert beat(world, "c")[0] == before[-1] + 1
    assert epochs_in(world.log) == [*before, before[-1] + 1]
    world.sleep(SESSION_MS)
    assert epochs_in(world.log) == [*before, *range(before[-1] + 1, before[-1] + 5)]
    assert described(world) == described(world.restart())


@pytest.mark.parametrize("takes_too_long", [False, True])
@pytest.mark.parametrize("ends", ["leaves", "is silent"])
def test_a_member_whose_end_the_log_did_not_take_does_not_stay_for_ever(world, ends, takes_too_long):
    """Also if the failure is known only long after the answer that it took too long."""
    pair(world)
    world.is_stuck = True
    if ends == "leaves":
        ticket = world.consume("a", LEAVE_EPOCH)
    else:
        world.sleep(SESSION_MS)
        ticket = None
    if takes_too_long:
        world.sleep(SESSION_MS)
    if ticket is not None and takes_too_long:
        assert world.answers[ticket].error is not ErrorCode.none
    while world.waiting:
        world.fail()
    world.is_stuck = False
    assert len(described(world).members) == 2
    world.sleep(SESSION_MS)
    assert described(world).state == "Empty"
