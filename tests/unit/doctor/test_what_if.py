"""What happens when nodes are down, held against a naive model."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from esp.doctor.rule import Severity
from esp.doctor.snapshot import BrokerCondition, Snapshot, min_isr_of
from esp.doctor.what_if import what_if_down
from esp.groups.partitioning import partition_for
from esp.model.ids import NodeId
from tests.unit.doctor.snapshots import healthy, name_of, quorum, snapshot
from tests.unit.placement.clusters import MB, partition, views


def naive(one, alive, unclean):
    """Leader and in-sync set, said once more and plainly."""
    in_sync = [node for node in one.replicas if node in one.isr and node in alive]
    if one.leader in in_sync:
        return one.leader, set(in_sync)
    if in_sync:
        return in_sync[0], set(in_sync)
    there = [node for node in one.replicas if node in alive]
    if unclean and there:
        return there[0], {there[0]}
    return None, set()


@given(st.data())
def test_every_cluster_meets_the_fate_of_the_naive_model(data):
    view = data.draw(views())
    numbers = [broker.broker_id for broker in view.brokers]
    dead = {broker.broker_id for broker in view.brokers if not broker.is_alive}
    topics = sorted({one.topic for one in view.partitions})
    unclean = data.draw(st.frozensets(st.sampled_from(topics)))
    down = data.draw(st.frozensets(st.sampled_from(numbers)))
    conditions = {node: BrokerCondition.FENCED if node in dead else BrokerCondition.SERVING for node in numbers}
    found = what_if_down(Snapshot(view, conditions, unclean_topics=unclean), down)
    alive = set(numbers) - dead
    expected = {kind: set() for kind in ("offline", "stops", "last", "moves", "lost")}
    leaders, sizes = Counter(), Counter()
    for one in view.partitions:
        leader, in_sync = naive(one, alive, one.topic in unclean)
        after, left = naive(one, alive - down, one.topic in unclean)
        enough = min_isr_of(one)
        leaders[after] += 1
        sizes[after] += one.size_bytes
        if leader is not None and after is None:
            expected["offline"].add(one.name)
        if leader is not None and len(in_sync) >= enough and after is not None and len(left) < enough:
            expected["stops"].add(one.name)
        if len(left) == 1 < len(in_sync):
            expected["last"].add(one.name)
        if after is not None and after != leader:
            expected["moves"].add((one.name, leader, after))
        if after is not None and after not in one.isr and leader in one.isr:
            expected["lost"].add(one.name)
    assert expected == {
        "offline": {fate.partition for fate in found.fates if fate.goes_offline},
        "stops": {fate.partition for fate in found.fates if fate.stops},
        "last": {fate.partition for fate in found.fates if fate.is_last_copy},
        "moves": {
            (fate.partition, fate.leader_before, fate.leader_after)
            for fate in found.fates
            if fate.leader_after not in (None, fate.leader_before)
        },
        "lost": {fate.partition for fate in found.fates if fate.loses_records},
    }
    assert {load.broker: (load.leaders_after, load.bytes_after) for load in found.loads} == {
        node: (leaders[node], sizes[node]) for node in alive - down
    }
    stops = expected["offline"] | expected["stops"] | expected["lost"]
    assert (found.severity is Severity.ERROR) == bool(stops)
    assert set(found.down_already) == down & dead


def test_healthy_cluster_survives_any_one_of_its_nodes():
    for node in (1, 2, 3):
        found = what_if_down(healthy(), [NodeId(node)])
        assert found.severity is Severity.NOTE
        assert not found.quorum.is_lost
        assert found.quorum.loses_leader == (node == 1)
        assert {len(fate.isr_after) for fate in found.fates} == {2}


def test_healthy_cluster_stops_without_two_of_its_nodes():
    found = what_if_down(healthy(), [NodeId(1), NodeId(2)])
    assert found.severity is Severity.ERROR
    assert found.quorum.is_lost
    assert found.quorum.left == (3,)
    assert all(fate.stops and fate.is_last_copy for fate in found.fates)
    assert {topic: len(fates) for topic, fates in found.internal_topics.items()} == {"__consumer_offsets": 3}


def test_nothing_happens_when_what_goes_is_away_already():
    found = snapshot(
        3,
        [partition("t-0", (1, 2, 3), isr=(1, 2))],
        conditions={NodeId(3): BrokerCondition.FENCED},
        quorum=quorum(0, 0, 1 << 30),
    )
    gone = what_if_down(found, [NodeId(3)])
    assert (gone.severity, gone.down_already, gone.fates) == (None, (3,), ())


def test_voter_that_lags_does_not_count_for_the_majority():
    found = what_if_down(snapshot(1, [], quorum=quorum(0, 1 << 30, 0)), [NodeId(3)])
    assert found.quorum.left == (1,)
    assert found.quorum.is_lost
    assert found.severity is Severity.ERROR


def test_nobody_is_elected_where_no_controller_answers():
    found = what_if_down(snapshot(3, [partition("t-0", (1, 2, 3))], has_controller=False), [NodeId(2)])
    assert (found.has_controller, found.severity) == (False, Severity.ERROR)


def test_replica_in_a_failed_directory_leads_nothing():
    found = snapshot(3, [partition("t-0", (1, 2, 3))], offline={"t-0": (2,)})
    [fate] = what_if_down(found, [NodeId(1)]).fates
    assert (fate.leader_after, fate.isr_after) == (3, (3,))


def test_group_goes_where_the_leader_of_its_partition_goes():
    offsets = [partition(f"__consumer_offsets-{number}", (number % 3 + 1, (number + 1) % 3 + 1)) for number in range(9)]
    names = tuple(f"group{number}" for number in range(20))
    found = what_if_down(snapshot(3, offsets, groups=names), [NodeId(1)])
    assert {each.group: (each.before, each.after) for each in found.groups} == {
        name: (1, 2) for name in names if partition_for(name, 9) % 3 == 0
    }
    lonely = snapshot(2, [partition("__consumer_offsets-0", (1,))], groups=names)
    assert {each.after for each in what_if_down(lonely, [NodeId(1)]).groups} == {None}


def test_load_of_those_that_stay_is_told():
    found = snapshot(3, [partition("t-0", (1, 2), size_bytes=MB), partition("t-1", (2, 3), size_bytes=2 * MB)])
    [two, three] = what_if_down(found, [NodeId(1)]).loads
    assert two == (2, 1, 2, 2 * MB, 3 * MB)
    assert three == (3, 0, 0, 0, 0)


def test_fate_names_what_is_needed():
    [fate] = what_if_down(snapshot(2, [partition("t-0", (1, 2), min_isr=3)]), [NodeId(2)]).fates
    assert (fate.partition, fate.needed, fate.stops) == (name_of("t-0"), 2, True)
