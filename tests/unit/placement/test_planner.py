"""Plans as a whole: what every plan for every cluster keeps to."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.model.ids import NodeId
from esp.placement.constraints import Constraint
from esp.placement.intents import Drain, Move, ReplicationFactor, Spread, Swap
from esp.placement.limits import Limits
from esp.placement.planner import Refusal, make_plan
from esp.placement.proof import find_violations
from tests.unit.placement.clusters import MB, after, cluster, intents, partition, random_cluster, views

LIMITS = Limits()


def _plan(view, intent, limits=LIMITS, seed=0):
    plan = make_plan(view, intent, limits, seed)
    assert not isinstance(plan, Refusal), plan.reasons
    return plan


def _reasons(view, intent, limits=LIMITS):
    refusal = make_plan(view, intent, limits, 0)
    assert isinstance(refusal, Refusal), refusal.moves
    assert refusal.reasons
    return refusal.reasons


class _Execution:
    """A plan that is carried out in some order that its rules allow, checked naively at each event."""

    def __init__(self, view, plan, rng, disk_limit=None):
        self.view = view
        self.plan = plan
        self.rng = rng
        self.racks = {broker.broker_id: broker.rack for broker in view.brokers}
        self.used = Counter({broker.broker_id: broker.disk_used_bytes for broker in view.brokers})
        self.replicas = {one.name: one.replicas for one in view.partitions}
        self.isr = {one.name: frozenset(one.isr) for one in view.partitions}
        self.disk_limit = _disk_limit(view) if disk_limit is None else disk_limit
        self.begun = 0
        self.running = {}

    def run(self):
        """Begin and end moves until all is done."""
        steps = self.plan.steps
        while self.begun < len(steps) or any(self.running.values()):
            can_end = [position for position, moves in self.running.items() if moves]
            if self.begun < len(steps) and not any(self.running.get(p) for p in steps[self.begun].waits_for):
                can_end.append(None)
            chosen = self.rng.choice(can_end)
            if chosen is None:
                self._begin(steps[self.begun])
            else:
                moves = self.running[chosen]
                self._end(moves.pop(self.rng.randrange(len(moves))))
        return self.replicas

    def _begin(self, step):
        for move in step.moves:
            assert self.replicas[move.name] == move.before
            for node in move.adding:
                self.used[node] += move.replica_bytes
        self.running[self.begun] = list(step.moves)
        self.begun += 1
        for node in {node for move in step.moves for node in move.adding}:
            assert self.used[node] <= self.disk_limit.get(node, self.used[node])
        for disk in step.disks:
            assert self.used[disk.broker_id] <= disk.peak_bytes

    def _end(self, move):
        one = self.view.partitions_by_name[move.name]
        assert all(self.view.brokers_by_id[node].is_alive for node in move.after)
        assert one.leader is not None
        assert self.view.brokers_by_id[one.leader].is_alive
        assert len(set(move.after)) == len(move.after) > 0
        assert len(move.after) >= min(one.min_in_sync_replicas, len(self.isr[move.name]))
        for node in move.removing:
            self.used[node] -= move.replica_bytes
        self.replicas[move.name] = move.after
        self.isr[move.name] = frozenset(move.after)


def _disk_limit(view):
    return {
        broker.broker_id: int(broker.disk_capacity_bytes * LIMITS.disk_used_max)
        for broker in view.brokers
        if broker.disk_capacity_bytes is not None
    }


def _check_racks(view, plan):
    leaving = plan.intent.brokers if isinstance(plan.intent, Drain) else ()
    racks = {broker.rack for broker in view.brokers if broker.is_target and broker.broker_id not in leaving}
    rack_of = {broker.broker_id: broker.rack for broker in view.brokers}
    for move in plan.moves:
        had = len({rack_of[node] for node in move.before})
        if had == min(len(move.before), len(racks)):
            assert len({rack_of[node] for node in move.after}) >= min(len(move.after), len(racks))
        else:
            assert len({rack_of[node] for node in move.after}) >= min(had, len(move.after), len(racks))


@settings(max_examples=120)
@given(st.data())
def test_no_order_of_events_of_any_plan_breaks_a_constraint(data):
    view = data.draw(views())
    intent = data.draw(intents(view))
    plan = make_plan(
        view, intent, Limits(moves_per_broker_max=data.draw(st.integers(1, 5))), data.draw(st.integers(0, 9))
    )
    if isinstance(plan, Refusal):
        return
    _check_racks(view, plan)
    for seed in range(3):
        reached = _Execution(view, plan, random.Random(seed)).run()
        assert reached == {one.name: one.replicas for one in after(view, plan.moves).partitions}


@settings(max_examples=80)
@given(st.data())
def test_every_prefix_of_every_plan_leaves_a_cluster_for_which_the_rest_is_proved(data):
    view = data.draw(views())
    plan = make_plan(view, data.draw(intents(view)), LIMITS, 0)
    if isinstance(plan, Refusal):
        return
    moves = []
    for done, step in enumerate(plan.steps):
        now = after(view, moves)
        names = {move.name for move in step.moves}
        assert {name: now.partitions_by_name[name].replicas for name in names} == {m.name: m.before for m in step.moves}
        moves += step.moves
        limits = _disk_limit(view)
        used = {b.broker_id: b.disk_used_bytes for b in after(view, moves).brokers}
        written = {disk.broker_id for disk in step.disks if disk.written_bytes}
        assert all(used[node] <= limits[node] for node in written & limits.keys()), done
    assert find_violations(view, plan) == []


@settings(max_examples=80)
@given(st.data())
def test_inverse_leads_back_and_breaks_nothing_that_was_not_broken(data):
    view = data.draw(views())
    plan = make_plan(view, data.draw(intents(view)), LIMITS, 0)
    if isinstance(plan, Refusal):
        return
    there = after(view, plan.moves)
    inverse = plan.inverse()
    back = after(there, inverse.moves)
    assert [one.replicas for one in back.partitions] == [one.replicas for one in view.partitions]
    assert [broker.disk_used_bytes for broker in back.brokers] == [broker.disk_used_bytes for broker in view.brokers]
    assert (inverse.loads_before, inverse.loads_after) == (plan.loads_after, plan.loads_before)
    if not all(broker.is_target for broker in view.brokers) or isinstance(plan.intent, ReplicationFactor | Move):
        return  # it may have to go back to brokers that get nothing, or to fewer replicas than the minimum in sync
    limit = _disk_limit(view)
    full = {b.broker_id: b.disk_used_bytes for b in view.brokers if b.disk_used_bytes > limit.get(b.broker_id, 2**63)}
    _Execution(there, inverse, random.Random(0), limit | full).run()
    racks = {broker.rack for broker in view.brokers}
    rack_of = {broker.broker_id: broker.rack for broker in view.brokers}
    were_apart = all(
        len({rack_of[node] for node in one.replicas}) >= min(len(one.replicas), len(racks)) for one in view.partitions
    )
    if not full and were_apart:
        assert find_violations(there, inverse) == []


@settings(max_examples=80)
@given(views(), st.integers(0, 9))
def test_drained_brokers_end_empty_and_nothing_else_moves(view, seed):
    leaving = view.brokers[seed % len(view.brokers)].broker_id
    plan = make_plan(view, Drain((leaving,)), LIMITS, seed)
    if isinstance(plan, Refusal):
        return
    assert all(leaving not in one.replicas for one in after(view, plan.moves).partitions)
    held = [one for one in view.partitions if leaving in one.replicas]
    assert {move.name for move in plan.moves} == {one.name for one in held}
    assert plan.copied_bytes == sum(one.size_bytes for one in held)
    assert next(load for load in plan.loads_after if load.broker_id == leaving).replicas == 0


@settings(max_examples=40)
@given(st.data())
def test_same_seed_makes_the_same_plan(data):
    view = data.draw(views())
    intent, seed = data.draw(intents(view)), data.draw(st.integers(0, 9))
    assert make_plan(view, intent, LIMITS, seed) == make_plan(view, intent, LIMITS, seed)


def test_seeds_decide_between_equals():
    view = cluster(5, [partition("t-0", [1])])
    chosen = {_plan(view, Drain((NodeId(1),)), seed=seed).moves[0].after for seed in range(20)}
    assert len(chosen) > 1


def test_plan_names_what_it_rests_on():
    view = cluster(
        3, [partition("t-0", [1]), partition("t-1", [2], leader=None), partition("t-2", [3], is_reassigning=True)]
    )
    told = "\n".join(_plan(view, Spread()).inputs)
    assert "sizes of 3 partition(s)" in told
    assert "1 partition(s) are being reassigned" in told
    assert "1 partition(s) have no leader" in told
    assert "unknown disk size" in told


def test_swap_exchanges_what_two_brokers_hold_with_the_leaders():
    view = cluster(4, [partition("t-0", [1, 2]), partition("t-1", [3, 1]), partition("t-2", [3, 2])])
    swapped = after(view, _plan(view, Swap(NodeId(1), NodeId(3))).moves)
    assert [one.replicas for one in swapped.partitions] == [(3, 2), (1, 3), (1, 2)]


def test_swap_with_an_empty_broker_replaces_one_that_is_dead():
    view = cluster(3, [partition("t-0", [1, 2], leader=2, isr=[2])], dead={1})
    assert _plan(view, Swap(NodeId(1), NodeId(3))).moves[0].after == (3, 2)


def test_move_gives_a_partition_just_these_replicas():
    view = cluster(4, [partition("t-0", [1, 2])])
    (move,) = _plan(view, Move("t", 0, (NodeId(4), NodeId(2)))).moves
    assert (move.before, move.after, move.adding, move.removing) == ((1, 2), (4, 2), (4,), (1,))


def test_move_to_the_present_replicas_is_nothing():
    view = cluster(2, [partition("t-0", [1, 2])])
    assert _plan(view, Move("t", 0, (NodeId(1), NodeId(2)))).is_empty


NAMES = [
    (Spread(("t", "gone")), Constraint.KNOWN, "topic gone"),
    (Drain((NodeId(7),)), Constraint.KNOWN, "broker 7"),
    (Drain((NodeId(1), NodeId(1))), Constraint.KNOWN, "broker 1"),
    (ReplicationFactor("gone", 2), Constraint.KNOWN, "topic gone"),
    (ReplicationFactor("t", 0), Constraint.KNOWN, "t"),
    (ReplicationFactor("t", 4), Constraint.BROKER_COUNT, "t-0"),
    (Swap(NodeId(1), NodeId(1)), Constraint.KNOWN, "broker 1"),
    (Swap(NodeId(1), NodeId(9)), Constraint.KNOWN, "broker 9"),
    (Move("t", 8, (NodeId(1),)), Constraint.KNOWN, "t-8"),
    (Move("t", 0, ()), Constraint.DISTINCT_BROKERS, "t-0"),
    (Move("t", 0, (NodeId(8),)), Constraint.KNOWN, "broker 8"),
    (Move("t", 0, (NodeId(2), NodeId(2))), Constraint.KNOWN, "broker 2"),
    (Drain((NodeId(1), NodeId(2))), Constraint.BROKER_COUNT, "t-0"),
]


@pytest.mark.parametrize(("intent", "constraint", "entry"), NAMES)
def test_refusal_names_constraint_and_entry(intent, constraint, entry):
    view = cluster(3, [partition("t-0", [1, 2])])
    assert (constraint, entry) in {(reason.constraint, reason.entry) for reason in _reasons(view, intent)}


def test_drain_of_everybody_is_refused():
    view = cluster(2, [partition("t-0", [1, 2])])
    (reason,) = _reasons(view, Drain((NodeId(1), NodeId(2))))
    assert reason.constraint is Constraint.BROKER_COUNT


def test_drain_without_room_on_any_disk_is_refused_with_the_brokers():
    view = cluster(3, [partition("t-0", [1, 2], size_bytes=10 * MB)], capacity_bytes={3: 10 * MB})
    (reason,) = _reasons(view, Drain((NodeId(1),)))
    assert reason.constraint is Constraint.DISK_LIMIT
    assert "brokers 3" in reason.reason


def test_factor_below_min_isr_is_refused():
    view = cluster(3, [partition("t-0", [1, 2, 3], min_isr=2)])
    (reason,) = _reasons(view, ReplicationFactor("t", 1))
    assert (reason.constraint, reason.entry) == (Constraint.MIN_ISR, "t-0")


def test_partition_without_a_leader_cannot_be_drained():
    view = cluster(3, [partition("t-0", [1], leader=None, isr=[])], dead={1})
    (reason,) = _reasons(view, Drain((NodeId(1),)))
    assert (reason.constraint, reason.entry) == (Constraint.SOURCE_ALIVE, "t-0")


def test_move_that_gives_up_racks_is_refused():
    view = cluster(4, [partition("t-0", [1, 2])], racks=["a", "b", "a", "b"])
    (reason,) = _reasons(view, Move("t", 0, (NodeId(1), NodeId(3))))
    assert reason.constraint is Constraint.RACKS_APART


def test_move_to_a_dead_or_draining_broker_is_refused():
    view = cluster(4, [partition("t-0", [1, 2])], dead={3}, draining={4})
    for node in (3, 4):
        (reason,) = _reasons(view, Move("t", 0, (NodeId(1), NodeId(node))))
        assert reason.constraint is Constraint.TARGET_ALIVE
        assert f"broker {node}" in reason.reason


def test_exchange_of_full_disks_is_refused_where_no_order_has_room():
    view = cluster(2, [partition("t-0", [1], size_bytes=9), partition("u-0", [2], size_bytes=9)], capacity_bytes=10)
    reasons = _reasons(view, Swap(NodeId(1), NodeId(2)))
    assert {(reason.constraint, reason.entry) for reason in reasons} == {
        (Constraint.DISK_LIMIT, "t-0"),
        (Constraint.DISK_LIMIT, "u-0"),
    }


def test_a_hundred_brokers_keep_every_constraint():
    view = random_cluster(1, brokers=100, partitions=2000, racks=5, empty=10, capacity=0.8)
    plan = _plan(view, Spread())
    assert not plan.is_empty
    _check_racks(view, plan)
    _Execution(view, plan, random.Random(1)).run()
