"""More partitions: codes and texts are those that a real Kafka 4.3.1 answered to the same requests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.controller.partitions import NewPartitions, decide_create_partitions
from esp.controller.reassignment import Reassignment, decide_reassignments
from esp.controller.topics import NewTopic
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import UNASSIGNED_DIRECTORY, NodeId
from tests.unit.controller.samples import Cluster, SeededRandom, directory

_E = ErrorCode


def _nodes(*numbers):
    return tuple(map(NodeId, numbers))


def _cluster(brokers=3, partitions=2, factor=1, **options):
    cluster = Cluster(brokers, **options)
    _create(cluster, "t", partitions, factor)
    return cluster


def _create(cluster, name, partitions=1, factor=1):
    cluster.create(NewTopic(name=name, num_partitions=partitions, replication_factor=factor))


def _decide(cluster, *wanted, validate_only=False):
    return decide_create_partitions(cluster.image, wanted, SeededRandom(), validate_only=validate_only)


_OTHER_FACTOR = (
    "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with previous "
    "partitions, which have 1 replica(s)."
)
_REFUSALS = [
    (NewPartitions("u", 3), _E.unknown_topic_or_partition, None),
    (NewPartitions("t", 2), _E.invalid_partitions, "Topic already has 2 partition(s)."),
    (
        NewPartitions("t", 1),
        _E.invalid_partitions,
        "The topic t currently has 2 partition(s); 1 would not be an increase.",
    ),
    (
        NewPartitions("t", -1),
        _E.invalid_partitions,
        "The topic t currently has 2 partition(s); -1 would not be an increase.",
    ),
    (
        NewPartitions("t", 4, [_nodes(1)]),
        _E.invalid_replica_assignment,
        "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
    ),
    (
        NewPartitions("t", 4, []),
        _E.invalid_replica_assignment,
        "Attempted to add 2 additional partition(s), but only 0 assignment(s) were specified.",
    ),
    (
        NewPartitions("t", 3, [()]),
        _E.invalid_replica_assignment,
        "The manual partition assignment includes an empty replica list.",
    ),
    (
        NewPartitions("t", 3, [_nodes(9)]),
        _E.invalid_replica_assignment,
        "The manual partition assignment includes broker 9, but no such broker is registered.",
    ),
    (
        NewPartitions("t", 3, [_nodes(1, 1)]),
        _E.invalid_replica_assignment,
        "The manual partition assignment includes the broker 1 more than once.",
    ),
    (
        NewPartitions("t", 3, [_nodes(1, 2)]),
        _E.invalid_replica_assignment,
        _OTHER_FACTOR,
    ),
]


@pytest.mark.parametrize(("wanted", "code", "text"), _REFUSALS)
def test_what_cannot_be_done_is_refused_as_kafka_does(wanted, code, text):
    decision = _decide(_cluster(), wanted)
    (error,) = decision.reply
    assert (error.code, error.message) == (code, text)
    assert decision.records == ()


def test_a_refused_topic_does_not_hold_up_others():
    cluster = _cluster()
    _create(cluster, "v")
    reply = cluster.decide(_decide(cluster, NewPartitions("u", 3), NewPartitions("v", 3), NewPartitions("t", 1)))
    assert [error if error is None else error.code for error in reply] == [
        _E.unknown_topic_or_partition,
        None,
        _E.invalid_partitions,
    ]
    assert len(cluster.image.topics_by_name["v"].partitions) == 3


def test_new_partitions_get_the_replicas_that_are_given():
    cluster = _cluster(factor=2)
    cluster.decide(_decide(cluster, NewPartitions("t", 4, [_nodes(3, 1), _nodes(2, 3)])))
    new = cluster.image.topics_by_name["t"].partitions[2:]
    assert [(state.partition, state.replicas, state.isr, state.leader) for state in new] == [
        (2, _nodes(3, 1), _nodes(3, 1), 3),
        (3, _nodes(2, 3), _nodes(2, 3), 2),
    ]
    assert new[0].directories == (directory(3), directory(1))


def test_new_partitions_get_as_many_replicas_as_the_first_one_will_have():
    cluster = _cluster(4, partitions=1, factor=2)
    present = cluster.partition("t").replicas
    target = tuple(node for node in cluster.image.brokers if node not in present)
    cluster.decide(decide_reassignments(cluster.image, [Reassignment("t", 0, target)]))
    assert len(cluster.partition("t").replicas) == 4
    assert cluster.decide(
        decide_create_partitions(cluster.image, [NewPartitions("t", 2)], cluster.random, validate_only=False)
    ) == [None]
    assert len(cluster.partition("t", 1).replicas) == 2


def test_fenced_replicas_are_not_in_sync_and_lead_nothing():
    cluster = _cluster(factor=2)
    cluster.fence(3)
    cluster.decide(_decide(cluster, NewPartitions("t", 3, [_nodes(3, 1)])))
    state = cluster.image.topics_by_name["t"].partitions[2]
    assert (state.isr, state.leader) == (_nodes(1), 1)
    (error,) = _decide(_fenced_but_one(), NewPartitions("t", 3, [_nodes(3)])).reply
    assert error.message == (
        "All brokers specified in the manual partition assignment for partition 2 are fenced or in controlled shutdown."
    )


def _fenced_but_one():
    cluster = _cluster()
    cluster.fence(3)
    return cluster


def test_a_factor_that_the_cluster_cannot_hold_any_more_is_refused():
    cluster = _cluster(factor=3)
    for number in (1, 2, 3):
        cluster.fence(number)
    (error,) = _decide(cluster, NewPartitions("t", 3)).reply
    assert (error.code, error.message) == (
        _E.invalid_replication_factor,
        "All brokers are currently fenced or have all their log directories cordoned.",
    )


def test_brokers_with_several_directories_choose_for_themselves():
    cluster = _cluster(log_dirs=2)
    cluster.decide(_decide(cluster, NewPartitions("t", 3)))
    assert cluster.image.topics_by_name["t"].partitions[2].directories == (UNASSIGNED_DIRECTORY,)


def test_one_request_makes_no_more_records_than_a_batch_holds():
    cluster = _cluster()
    _create(cluster, "v")
    decision = _decide(cluster, NewPartitions("t", 3), NewPartitions("v", 10_001))
    assert [error.code for error in decision.reply] == [_E.policy_violation] * 2
    assert decision.records == ()
    assert _decide(cluster, NewPartitions("v", 10_001)).reply == [None]


@given(
    brokers=st.integers(1, 5),
    present=st.integers(1, 4),
    additional=st.integers(1, 8),
    fenced=st.sets(st.integers(1, 5)),
    data=st.data(),
)
def test_a_topic_grows_by_whole_partitions_and_old_ones_stay(brokers, present, additional, fenced, data):
    factor = data.draw(st.integers(1, brokers))
    cluster = _cluster(brokers, present, factor)
    for number in sorted(fenced & set(range(1, brokers + 1))):
        cluster.fence(number)
    before = cluster.image.topics_by_name["t"].partitions
    dry = _decide(cluster, NewPartitions("t", present + additional), validate_only=True)
    assert dry.records == ()
    reply = cluster.decide(_decide(cluster, NewPartitions("t", present + additional)))
    assert [isinstance(error, ApiError) for error in dry.reply] == [isinstance(error, ApiError) for error in reply]
    after = cluster.image.topics_by_name["t"].partitions
    assert after[:present] == before
    if reply == [None]:
        assert len(after) == present + additional
    for state in after[present:]:
        assert len(set(state.replicas)) == factor
        assert state.leader in state.isr
        assert all(not cluster.image.brokers[node].fenced for node in state.isr)
