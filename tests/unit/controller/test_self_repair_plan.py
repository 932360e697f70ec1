"""What is planned for brokers that are gone, draining or new, for clusters of every sort."""

from hypothesis import given, settings
from hypothesis import strategies as st

from esp.controller.self_repair import Situation
from esp.controller.self_repair_plan import plan_self_repair
from tests.unit.placement.clusters import after, cluster, partition, views


def _situation(view, gone=(), draining=(), newcomers=()):
    leaving = {*gone, *draining}
    targets = tuple(b.broker_id for b in view.brokers if b.is_target and b.broker_id not in leaving)
    return Situation(tuple(gone), tuple(draining), tuple(newcomers), targets)


@st.composite
def _seen(draw):
    """A cluster as the controller sees it, without sizes, and what there is to deal with."""
    view = draw(views())
    view = type(view)(
        view.cluster_id,
        tuple(broker._replace(disk_capacity_bytes=None, disk_used_bytes=0) for broker in view.brokers),
        tuple(one._replace(size_bytes=0, is_reassigning=draw(st.integers(0, 9)) == 0) for one in view.partitions),
    )
    held = {node for one in view.partitions for node in one.replicas}
    dead = [broker.broker_id for broker in view.brokers if not broker.is_alive and broker.broker_id in held]
    gone = [node for node in dead if draw(st.booleans())]
    draining = [broker.broker_id for broker in view.brokers if broker.is_draining and broker.broker_id in held]
    newcomers = [broker.broker_id for broker in view.brokers if broker.is_target and broker.broker_id not in held]
    return view, _situation(view, gone, draining, newcomers)


@settings(max_examples=150)
@given(_seen())
def test_everything_that_leaves_is_moved_or_left_alone_with_a_reason(seen):
    view, situation = seen
    proposal = plan_self_repair(view, situation, 0)
    leaving = {*situation.gone, *situation.draining}
    if not leaving:
        return
    moved = {move.name for move in proposal.moves}
    for one in view.partitions:
        concerned = not leaving.isdisjoint(one.replicas)
        explained = any(
            reason.startswith((f"{one.name}:", "broker-count")) or f" {one.name}:" in reason
            for reason in proposal.left_alone
        )
        assert (one.name in moved) is (concerned and not explained)
    for one in after(view, proposal.moves).partitions:
        if one.name in moved:
            assert leaving.isdisjoint(one.replicas)
            assert all(view.brokers_by_id[node].is_alive for node in one.replicas)


def test_both_reasons_are_named_with_the_command_for_all():
    view = cluster(4, [partition("t-0", [1, 3], leader=3, isr=[3]), partition("t-1", [2, 3])], dead={1}, draining={2})
    proposal = plan_self_repair(view, _situation(view, gone=(1,), draining=(2,)), 0)
    assert proposal.reason == "broker 1 is gone and broker 2 is draining"
    assert proposal.command == "esp rebalance plan drain 1 2"
    assert len(proposal.moves) == 2


def test_newcomer_without_anything_to_spread_is_no_reason():
    view = cluster(3, [partition("t-0", [1, 2])])
    assert plan_self_repair(view, _situation(view, newcomers=(3,)), 0) is None


def test_nothing_is_proposed_where_all_is_well():
    view = cluster(2, [partition("t-0", [1, 2])])
    assert plan_self_repair(view, _situation(view), 0) is None
