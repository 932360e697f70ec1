"""Groups that move between the protocols, member by member."""

import pytest

from esp.groups.requests import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, OffsetFetch, Protocol
from esp.groups.settings import MigrationPolicy
from esp.model.errors import ErrorCode
from esp.schemas.consumer_group_record_codec import decode_consumer_group_record
from esp.schemas.consumer_group_records import ConsumerGroupRecordType, MemberState
from esp.schemas.group_record_codec import decode_group_record
from tests.unit.groups.consumer.classic_client import ClassicClient, assignment, share, subscription
from tests.unit.groups.world import GROUP, REBALANCE_MS, SESSION_MS, Topics, World

ALL = frozenset(("t", number) for number in range(4))
INTERVAL = {"consumer.assignment.interval.ms": "0"}
_Type = ConsumerGroupRecordType


def new_world(**more):
    topics = Topics(t=4)
    topics.configs[GROUP] = INTERVAL
    return World(topics=topics, group_initial_rebalance_delay_ms=0, **more)


@pytest.fixture
def world():
    return new_world()


def settle(world, *clients, shared=ALL):
    """Let a classic group come to its assignments: all join, and the leader shares the partitions."""
    for client in reversed(clients):  # a new one first: others would be the next generation by themselves
        if client.ticket is None:
            client.ask_to_join()
    world.sleep(0)
    for client in clients:
        assert client.take_join() is ErrorCode.none
    leader = next(client for client in clients if client.leads)
    given = share({client.member_id: client for client in clients}, sorted(shared))
    tickets = {client: client.sync(given if client is leader else None) for client in clients}
    for client, ticket in tickets.items():
        assert client.take_sync(ticket) is ErrorCode.none


def classic_group(world, count=1, **more):
    """A stable classic group."""
    clients = [ClassicClient(world, **more) for _ in range(count)]
    settle(world, clients[0])
    for number in range(1, count):
        settle(world, *clients[: number + 1])
    return clients


def described(world):
    return world.coordinator.describe_consumer_group(GROUP)


def names(world, partitions):
    """Partitions by the names of their topics."""
    by_id = {world.topics.find(name).topic.topic_id: name for name in world.topics.names()}
    return frozenset((by_id[topic_id], number) for topic_id, number in partitions)


def kinds(records):
    """The types of records, those of tombstones negative."""
    found = []
    for record in records:
        consumer = decode_consumer_group_record(record.key, record.value)
        number = 2 if consumer is None else int(consumer.key.type)
        found.append(number if record.value is not None else -number)
    return found


def beat_through(world, member_id, epoch, owned=()):
    """A consumer's heartbeats until nothing changes; returns its epoch and partitions."""
    owned = frozenset(owned)
    for _ in range(4):
        answer = world.answers[world.consume(member_id, epoch, owned=owned, joins=epoch == 0)]
        assert answer.error is ErrorCode.none, answer
        epoch = answer.member_epoch
        owned = owned if answer.assignment is None else frozenset(answer.assignment)
    return epoch, owned


# To the consumer protocol.


def test_a_consumer_brings_the_members_of_a_classic_group_along(world):
    first, second = classic_group(world, 2)
    before = len(world.log)
    answer = world.answers[world.consume("c")]
    assert answer.error is ErrorCode.none
    assert kinds(world.log[before:]) == [-2, 5, 5, 3, 7, 7, 6, 8, 8, 5, 3, 7, 7, 6, 8]
    records = [decode_consumer_group_record(record.key, record.value) for record in world.log[before + 1 :]]
    about = records[0].value
    assert about.classic.session_timeout_ms == SESSION_MS
    assert about.classic.protocols == ((first.protocols[0].name, first.protocols[0].metadata),)
    assert about.topic_names == ("t",)
    assert records[2].value.epoch == first.generation_id
    assert records[5].value == (first.generation_id, 0)
    for each in (world, world.restart()):
        group = described(each)
        assert group.epoch == first.generation_id + 1
        speakers = {member.member_id: member.about.classic is not None for member in group.members}
        assert speakers == {first.member_id: True, second.member_id: True, "c": False}
        assert each.groups()[GROUP].group_type == "consumer"
        assert each.describe().error is ErrorCode.group_id_not_found


def test_members_of_both_protocols_share_the_partitions_and_none_has_two_owners(world):
    [classic] = classic_group(world)
    assert classic.owned == ALL
    answer = world.answers[world.consume("c")]
    assert answer.assignment == frozenset()
    assert classic.beat() is ErrorCode.rebalance_in_progress
    assert len(classic.join()) == 2
    epoch, owned = beat_through(world, "c", answer.member_epoch)
    assert names(world, owned) | classic.owned == ALL
    assert not names(world, owned) & classic.owned
    assert classic.beat() is ErrorCode.none
    assert classic.generation_id == epoch
    assert described(world).state == "Stable"


def test_a_cooperative_member_gives_back_what_it_must_before_another_one_gets_it(world):
    [classic] = classic_group(world, is_cooperative=True)
    world.consume("c")
    assert classic.beat() is ErrorCode.rebalance_in_progress
    kept = classic.join()
    assert len(kept) == 2
    _, owned = beat_through(world, "c", 2)
    assert not owned, "the classic member has not said that it has given them back"
    assert classic.beat() is ErrorCode.rebalance_in_progress
    assert classic.join() == kept
    _, owned = beat_through(world, "c", 2)
    assert names(world, owned) == ALL - kept


def test_a_partition_that_a_cooperative_member_is_about_to_give_back_is_not_free(world):
    first, second = ClassicClient(world, is_cooperative=True), ClassicClient(world, is_cooperative=True)
    settle(world, first)
    for client in (second, first):
        client.ask_to_join()
    for client in (first, second):
        client.take_join()
    leader = first if first.leads else second
    given = {first.member_id: assignment(("t", 0), ("t", 1)), second.member_id: assignment()}
    for client in (first, second):
        client.sync(given if client is leader else None)
    # the first one has not read its answer yet
    world.consume("c")
    places = {member.member_id: member for member in described(world).members}
    assert names(world, places[first.member_id].target) == {("t", 0), ("t", 1)}
    assert names(world, places[first.member_id].assigned) == ALL
    assert names(world, places["c"].assigned) == frozenset(), "two are used, two are to be given back"


def test_waiting_members_are_asked_to_join_again(world):
    first, second = classic_group(world, 2)
    first.ask_to_join()
    assert first.ticket in world.open_tickets()
    world.consume("c")
    assert first.take_join() is ErrorCode.rebalance_in_progress
    assert first.join()
    other = new_world()
    first, second = ClassicClient(other), ClassicClient(other)
    settle(other, first)
    for client in (second, first):
        client.ask_to_join()
    for client in (first, second):
        client.take_join()
    follower = second if first.leads else first
    ticket = follower.sync()
    other.consume("c")
    assert other.answers[ticket].error is ErrorCode.rebalance_in_progress
    assert not other.open_tickets()


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_the_policy_keeps_a_classic_group_classic(policy):
    world = new_world(consumer_migration_policy=policy)
    [classic] = classic_group(world)
    answer = world.answers[world.consume("c")]
    assert answer.error is ErrorCode.group_id_not_found
    assert answer.error_message == (
        f"Cannot upgrade classic group {GROUP} to consumer group because online upgrade is disabled."
    )
    assert classic.beat() is ErrorCode.none


@pytest.mark.parametrize(
    ("more", "given", "problem"),
    [
        ({"protocol_type": "connect"}, None, "the group does not use the consumer embedded protocol"),
        ({}, assignment(("t", 0), user_data=b"x"), "an unsupported custom assignor is in use"),
        ({}, b"\0", "the embedded consumer protocol is malformed"),
        ({"protocols": (Protocol("range", b"\0"),)}, b"", "the embedded consumer protocol is malformed"),
    ],
)
def test_a_group_whose_members_would_lose_something_stays_classic(world, more, given, problem):
    ticket = world.join(**more)
    world.sleep(0)
    joined = world.answers[ticket]
    given = assignment(("t", 0)) if given is None else given
    world.sync(joined.member_id, joined.generation_id, {joined.member_id: given})
    answer = world.answers[world.consume("c")]
    assert answer.error is ErrorCode.group_id_not_found
    assert problem in answer.error_message
    assert world.beat(joined.member_id, joined.generation_id) is ErrorCode.none


def test_a_group_that_is_too_large_stays_classic():
    world = new_world(consumer_max_size=1)
    classic_group(world, 2)
    answer = world.answers[world.consume("c")]
    assert "exceeds the consumer group maximum size" in answer.error_message


def test_a_refused_consumer_leaves_the_classic_group_as_it_was(world):
    [classic] = classic_group(world)
    assert world.error(world.consume("c", topic_regex="(", topics=None)) is ErrorCode.invalid_regular_expression
    assert classic.beat() is ErrorCode.none
    assert world.state() == "Stable"


@pytest.mark.parametrize("is_joining", [True, False])
def test_a_move_that_the_log_does_not_take_is_undone(world, is_joining):
    first, second = classic_group(world, 2)
    if is_joining:
        first.ask_to_join()
    world.is_stuck = True
    ticket = world.consume("c")
    world.fail()
    world.is_stuck = False
    assert world.error(ticket) is ErrorCode.coordinator_not_available
    assert world.groups()[GROUP].group_type == "classic"
    if is_joining:
        assert first.take_join() is ErrorCode.rebalance_in_progress
        assert second.beat() is ErrorCode.rebalance_in_progress
        settle(world, first, second)
    assert first.beat() is ErrorCode.none
    world.sleep(SESSION_MS - 1)
    assert world.state() == "Stable"
    world.sleep(2)
    assert world.state() == "Empty"


def test_a_group_whose_last_member_is_gone_gives_way_although_the_log_has_refused_its_end(world):
    [former] = classic_group(world)
    for _ in range(2):
        settle(world, former)
    assert former.generation_id == 3
    world.is_stuck = True
    world.sleep(SESSION_MS + 1)
    world.fail()
    world.is_stuck = False
    before = len(world.log)
    assert beat_through(world, "c", 0)[0] == 2, "another group begins"
    assert kinds(world.log[before:]) == [-2, 5, 3, 7, 6, 8], "no member has come along"
    for each in (world, world.restart()):
        assert [member.member_id for member in described(each).members] == ["c"]
    late = {"member_id": former.member_id, "generation_id": former.generation_id}
    assert world.error(world.commit_offsets({("t", 0): 3}, **late)) is ErrorCode.unknown_member_id
    assert former.beat() is ErrorCode.unknown_member_id


def test_an_assignment_that_is_committed_too_late_goes_to_nobody(world):
    [classic] = [ClassicClient(world)]
    classic.ask_to_join()
    world.sleep(0)
    classic.take_join()
    world.is_stuck = True
    ticket = classic.sync({classic.member_id: assignment(("t", 0))})
    world.consume("c")
    assert world.answers[ticket].error is ErrorCode.rebalance_in_progress
    world.commit()
    world.is_stuck = False
    assert {member.member_id for member in described(world).members} == {classic.member_id, "c"}


# Members of the classic protocol in a consumer group.


def test_a_classic_client_joins_a_consumer_group(world):
    world.consume("c")
    classic = ClassicClient(world)
    answer = world.answers[world.join(known=True, protocols=classic.protocols)]
    assert answer.error is ErrorCode.member_id_required
    classic.member_id = answer.member_id
    assert classic.join() == frozenset()
    assert classic.member_id == answer.member_id
    assert world.error(world.join(protocols=(Protocol("other", subscription("t")),))) is (
        ErrorCode.inconsistent_group_protocol
    )
    assert world.error(world.join(protocol_type="connect")) is ErrorCode.inconsistent_group_protocol


def test_the_policy_keeps_classic_clients_out_of_a_consumer_group():
    world = new_world(consumer_migration_policy=MigrationPolicy.DISABLED)
    world.consume("c")
    assert world.error(ClassicClient(world).world.join(known=True)) is ErrorCode.inconsistent_group_protocol
    world = new_world()
    world.consume("c")
    classic = ClassicClient(world)
    classic.join()
    classic.world = world.restart(consumer_migration_policy=MigrationPolicy.DISABLED)
    classic.join()  # as it is a member


def test_requests_of_the_classic_protocol_are_held_to_their_member(world):
    [classic] = classic_group(world)
    world.consume("c")
    assert world.beat("x", 2) is ErrorCode.unknown_member_id
    assert world.beat("c", 2) is ErrorCode.unknown_member_id
    assert world.beat(classic.member_id, 7) is ErrorCode.illegal_generation
    assert world.error(world.sync("c", 2)) is ErrorCode.unknown_member_id
    assert world.error(world.sync(classic.member_id, classic.generation_id)) is ErrorCode.rebalance_in_progress
    classic.join()
    assert world.error(world.sync(classic.member_id, 9)) is ErrorCode.illegal_generation
    wrong = {"protocol_type": "consumer", "protocol_name": "sticky"}
    assert world.error(world.sync(classic.member_id, classic.generation_id, **wrong)) is (
        ErrorCode.inconsistent_group_protocol
    )
    left = world.answers[world.leave("x", (classic.member_id, "i"), classic.member_id)].members
    assert [one.error for one in left] == [ErrorCode.unknown_member_id, ErrorCode.unknown_member_id, ErrorCode.none]


def test_members_of_both_protocols_commit_and_fetch_offsets(world):
    [classic] = classic_group(world)
    world.consume("c")
    classic.join()
    old = {"member_id": classic.member_id, "generation_id": classic.generation_id - 1}
    assert world.error(world.commit_offsets({("t", 0): 3}, **old)) is ErrorCode.illegal_generation
    right = {"member_id": classic.member_id, "generation_id": classic.generation_id}
    assert world.error(world.commit_offsets({("t", 0): 3}, **right)) is ErrorCode.none
    new = {"member_id": "c", "generation_id": 2, "knows_member_epochs": True}
    assert world.error(world.commit_offsets({("t", 1): 4}, **new)) is ErrorCode.none
    assert world.error(world.commit_offsets({("t", 1): 4}, **(new | {"knows_member_epochs": False}))) is (
        ErrorCode.unsupported_version
    )
    assert world.offsets() == {("t", 0): 3, ("t", 1): 4}
    asked = OffsetFetch(group_id=GROUP, member_id="c", member_epoch=2, partitions=None)
    assert world.coordinator.fetch_offsets(asked).error is ErrorCode.none


@pytest.mark.parametrize("what", ["session", "join", "sync"])
def test_a_classic_member_that_does_not_do_what_it_is_to_do_is_fenced(world, what):
    [classic] = classic_group(world)
    world.consume("c")
    if what == "sync":
        classic.ask_to_join()
        classic.take_join()
    limit = SESSION_MS if what == "session" else REBALANCE_MS
    waited, step = 0, 4_000
    while described(world).state and classic.member_id in {one.member_id for one in described(world).members}:
        world.sleep(step)
        waited += step
        world.consume("c", 2)
        if what != "session":
            classic.beat()
        assert waited <= limit + 2 * step
    assert waited >= limit


def test_a_classic_member_that_waits_for_others_is_not_told_to_join_again(world):
    answer = world.answers[world.consume("c")]
    classic = ClassicClient(world)
    assert classic.join() == frozenset()
    assert classic.beat() is ErrorCode.none, "the partitions are not free yet"
    owned = answer.assignment
    answer = world.answers[world.consume("c", answer.member_epoch, owned=owned)]
    world.consume("c", answer.member_epoch, owned=answer.assignment)
    assert classic.beat() is ErrorCode.rebalance_in_progress
    assert len(classic.join()) == 2


# Back to the classic protocol.


def mixed(world):
    """A classic member and a consumer, each with its share."""
    [classic] = classic_group(world)
    world.consume("c")
    classic.join()
    epoch, owned = beat_through(world, "c", 2)
    assert len(owned) == 2
    return classic, epoch


def leave(world, epoch):
    world.consume("c", LEAVE_EPOCH)


def fall_silent(world, epoch):
    for _ in range(12):
        world.sleep(4_000)
        [classic] = [one for one in described(world).members if one.about.classic is not None] or [None]
        if classic is None:
            return
        world.beat(classic.member_id, epoch)


@pytest.mark.parametrize("go", [leave, fall_silent])
def test_the_group_is_classic_again_when_the_last_consumer_goes(world, go):
    classic, epoch = mixed(world)
    before = len(world.log)
    go(world, epoch)
    assert kinds(world.log[before:]) == [-8, -8, -7, -7, -6, -5, -5, -3, 2]
    value = decode_group_record(world.log[-1].key, world.log[-1].value).value
    assert (value.protocol_type, value.generation, value.protocol) == ("consumer", epoch, "range")
    assert [member.member_id for member in value.members] == [classic.member_id]
    loaded = World(log=world.log, topics=world.topics)
    assert loaded.state() == "PreparingRebalance", "no member knows that another one has gone"
    assert world.state() == "PreparingRebalance"
    assert classic.beat() is ErrorCode.rebalance_in_progress
    settle(world, classic)
    assert classic.owned == ALL
    assert classic.generation_id == epoch + 1


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_the_policy_keeps_the_group_as_it_is(world, policy):
    _, epoch = mixed(world)
    world = world.restart(consumer_migration_policy=policy)
    world.consume("c", LEAVE_EPOCH)
    group = described(world)
    assert group.error is ErrorCode.none
    assert group.epoch == epoch + 1
    [classic] = group.members
    assert classic.about.classic is not None
    assert world.beat(classic.member_id, epoch) is ErrorCode.rebalance_in_progress


def test_a_group_that_is_too_large_stays_as_it_is(world):
    mixed(world)
    other = ClassicClient(world)
    other.join()
    world = world.restart(group_max_size=1)
    world.consume("c", LEAVE_EPOCH)
    assert described(world).error is ErrorCode.none


def test_a_consumer_that_is_away_for_a_while_keeps_the_group(world):
    world.consume("c", instance_id="i")
    classic = ClassicClient(world)
    classic.join()
    world.consume("c", LEAVE_STATIC_EPOCH, instance_id="i")
    assert described(world).error is ErrorCode.none


def test_a_way_back_that_the_log_does_not_take_is_undone(world):
    classic, epoch = mixed(world)
    world.join(protocols=classic.protocols)
    classic.beat()
    classic.join()
    world.is_stuck = True
    ticket = world.consume("c", LEAVE_EPOCH)
    classic.ask_to_join()
    world.fail()
    world.is_stuck = False
    assert world.error(ticket) is ErrorCode.coordinator_not_available
    assert world.answers[classic.ticket].error is ErrorCode.coordinator_not_available
    assert len(described(world).members) == 3
    assert classic.beat() is ErrorCode.none
    assert world.error(world.consume("c", epoch)) is ErrorCode.none
    world.sleep(SESSION_MS + 1)
    assert {one.member_id for one in described(world).members} == {"c"}, "sessions run again"
    world.sleep(60_000)
    assert described(world).state == "Empty"


def test_a_join_that_is_answered_after_the_way_back_sets_no_time_for_the_next_way_there(world):
    """The time to sync would fence the member when the group is a consumer group again, in which it was told to do nothing yet."""
    world.consume("c", 0)
    client = ClassicClient(world)
    client.join()
    world.is_stuck = True
    world.commit_offsets({("t", 0): 1}, group="another")
    client.ask_to_join()
    world.consume("c", LEAVE_EPOCH)
    world.commit()
    world.is_stuck = False
    assert client.take_join() is ErrorCode.none
    settle(world, client)
    for _ in range(REBALANCE_MS // 5_000 - 1):
        world.sleep(5_000)
        assert client.beat() is ErrorCode.none
    world.consume("d", 0)
    world.sleep(5_000)
    assert client.beat() is ErrorCode.rebalance_in_progress, "it is a member still"
    assert client.join()


def test_a_classic_client_takes_the_place_of_a_static_consumer(world):
    answer = world.answers[world.consume("c", instance_id="i")]
    world.consume("c", answer.member_epoch, instance_id="i", owned=answer.assignment)
    classic = ClassicClient(world, instance_id="i")
    classic.ask_to_join()
    assert classic.take_join() is ErrorCode.none
    assert world.groups()[GROUP].group_type == "classic"
    assert classic.generation_id == answer.member_epoch
    assert classic.take_sync(classic.sync()) is ErrorCode.none
    assert classic.owned == ALL
    assert world.state() == "Stable"
    assert world.error(world.consume("c", answer.member_epoch, instance_id="i")) is ErrorCode.group_id_not_found


def test_a_classic_client_that_takes_the_place_of_a_consumer_has_no_expression(world):
    world.topics.create("u", 1)
    assert world.answers[world.consume("other")].error is ErrorCode.none
    assert world.answers[world.consume("c", instance_id="i", topics=None, topic_regex="u")].error is ErrorCode.none
    classic = ClassicClient(world, instance_id="i")
    classic.join()
    [about] = [member.about for member in described(world).members if member.about.instance_id == "i"]
    assert about.classic is not None
    assert (about.topic_names, about.topic_regex) == (("t",), None)


@pytest.mark.parametrize("had", [{"topics": ("u",)}, {"topics": None, "topic_regex": "u"}, {"topics": ()}])
def test_with_another_subscription_the_members_join_again(world, had):
    world.topics.create("u", 1)
    answer = world.answers[world.consume("c", instance_id="i", **had)]
    assert answer.error is ErrorCode.none
    classic = ClassicClient(world, instance_id="i")
    classic.ask_to_join()
    classic.take_join()
    assert world.state() == "PreparingRebalance"
    settle(world, classic)
    assert classic.owned == ALL


def test_a_consumer_takes_the_place_of_a_static_member_of_the_classic_protocol(world):
    [classic] = classic_group(world, instance_id="i")
    answer = world.answers[world.consume("c", instance_id="i")]
    assert answer.error is ErrorCode.none
    assert names(world, answer.assignment) == ALL
    assert classic.beat() is ErrorCode.fenced_instance_id
    assert world.error(world.sync(classic.member_id, 1, group_instance_id="i")) is ErrorCode.fenced_instance_id
    classic.ask_to_join()
    assert classic.take_join() is ErrorCode.fenced_instance_id
    [member] = described(world).members
    assert (member.member_id, member.about.classic) == ("c", None)
    assert world.error(world.consume("d", instance_id="i")) is ErrorCode.unreleased_instance_id


def test_a_rebalance_that_is_under_way_is_not_lost_to_a_consumer_in_a_static_members_place(world):
    former, newcomer = ClassicClient(world, instance_id="i"), ClassicClient(world, instance_id="j")
    settle(world, former)
    newcomer.ask_to_join()
    assert world.state() == "PreparingRebalance"
    answer = world.answers[world.consume("c", instance_id="i")]
    assert answer.error is ErrorCode.none
    assert len(answer.assignment) == 2
    assert newcomer.take_join() is ErrorCode.rebalance_in_progress


def test_a_consumer_that_finds_a_group_before_its_first_generation_is_given_an_epoch_at_once():
    world = new_world(consumer_assigned_at_once_steps=1)
    ClassicClient(world, instance_id="i").ask_to_join()
    assert world.state() == "PreparingRebalance"
    answer = world.answers[world.consume("c")]
    assert (answer.error, answer.member_epoch) == (ErrorCode.none, 1)


def test_a_member_changes_its_protocol_under_its_own_id(world):
    classic, _epoch = mixed(world)
    answer = world.answers[world.consume(classic.member_id)]
    assert answer.error is ErrorCode.none
    assert all(one.about.classic is None for one in described(world).members)
    assert classic.beat() is ErrorCode.unknown_member_id
    world.sleep(SESSION_MS + 1)
    assert len(described(world).members) == 2, "the timers of the classic protocol are off"


# What a log may hold.


def test_of_two_protocols_in_a_log_the_later_one_counts(world):
    classic, epoch = mixed(world)
    both = list(world.log)
    world.consume("c", LEAVE_EPOCH)
    both += [record for record in world.log[len(both) :] if record.value is not None]
    loaded = World(log=both, topics=world.topics)
    assert loaded.groups()[GROUP].group_type == "classic"
    assert loaded.beat(classic.member_id, epoch) is ErrorCode.rebalance_in_progress
    upgraded = [record for record in world.log if kinds([record]) != [-2]][: len(both) - 1]
    loaded = World(log=upgraded, topics=world.topics)
    assert loaded.groups()[GROUP].group_type == "consumer"


def test_a_member_that_is_loaded_goes_on_where_it_was(world):
    classic, _epoch = mixed(world)
    loaded = world.restart()
    classic.world = loaded
    assert classic.beat() is ErrorCode.none
    assert classic.take_sync(classic.sync()) is ErrorCode.none
    loaded.sleep(SESSION_MS + 1)
    assert {one.member_id for one in described(loaded).members} == {"c"}


def test_a_place_that_is_claimed_is_written(world):
    [classic] = classic_group(world, is_cooperative=True)
    classic.ask_to_join()
    classic.take_join()
    classic.sync({classic.member_id: assignment(("t", 0))})
    before = len(world.log)
    world.consume("c")
    records = [decode_consumer_group_record(record.key, record.value) for record in world.log[before + 1 :]]
    [place] = [one.value for one in records if one.key.type is _Type.CURRENT and one.key.name == classic.member_id]
    assert place.state is MemberState.UNREVOKED_PARTITIONS
    assert names(world, place.assigned) == {("t", 0)}
    assert names(world, place.pending_revocation) == ALL - {("t", 0)}
