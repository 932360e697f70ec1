"""A view that cannot be is refused."""

import pytest

from esp.placement.cluster_view import ClusterView
from esp.placement.limits import Limits
from tests.unit.placement.clusters import cluster, partition


def test_replica_on_a_broker_that_is_not_in_the_view_is_refused():
    with pytest.raises(ValueError, match="t-0"):
        cluster(2, [partition("t-0", [3])])


def test_partition_without_replicas_is_refused():
    with pytest.raises(ValueError, match="t-0"):
        cluster(2, [partition("t-0", [], leader=None)])


def test_what_stands_twice_is_refused():
    view = cluster(2, [partition("t-0", [1])])
    with pytest.raises(ValueError, match="twice"):
        ClusterView("c", view.brokers * 2, view.partitions)
    with pytest.raises(ValueError, match="twice"):
        ClusterView("c", view.brokers, view.partitions * 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"broker_bytes_per_second": 0},
        {"moves_per_broker_max": 0},
        {"disk_used_max": 0.0},
        {"disk_used_max": 1.1},
        {"tolerance": -0.1},
    ],
)
def test_limits_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match=r"positive|between"):
        Limits(**wrong)
