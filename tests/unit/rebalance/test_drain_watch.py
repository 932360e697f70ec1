"""A drain that the controller does by itself, on a cluster in memory."""

from collections.abc import Iterable

import pytest

from esp.model.errors import OperatorError
from esp.model.ids import TopicPartition
from esp.placement.limits import Limits
from esp.rebalance.cluster import Partition
from esp.rebalance.drain_watch import REFUSED_MS, STALLED_MS, check_drain, watch_drain
from esp.rebalance.driver import TROUBLE_MS
from esp.rebalance.holding import Holding
from tests.models.fake_cluster import FakeCluster

P = [TopicPartition("t", number) for number in range(3)]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster((1, 2, 3), dict.fromkeys(P, (1, 2)), dict.fromkeys(P, 1000))


def test_it_ends_when_nothing_is_left(cluster: FakeCluster) -> None:
    left = iter(P)
    cluster.on_sleep = lambda: cluster.reassign({each: (3, 2) for each in [next(left, None)] if each}) and None
    seen: list[Holding] = []
    watch_drain(cluster, 1, cluster, seen.append)
    assert seen[0].everything == tuple(P)
    assert seen[-1].everything == ()
    assert [len(each.everything) for each in seen] == sorted((len(each.everything) for each in seen), reverse=True)


def test_what_does_not_move_is_named_after_a_while(cluster: FakeCluster) -> None:
    began_ms = cluster.now_ms()
    with pytest.raises(OperatorError, match="broker 1 still holds t-0, t-1, t-2") as stopped:
        watch_drain(cluster, 1, cluster, lambda _: None)
    assert "esp rebalance plan drain 1" in stopped.value.remedy
    assert STALLED_MS <= cluster.now_ms() - began_ms < STALLED_MS + 5000


def test_what_is_on_its_way_is_waited_for_however_long_it_takes(cluster: FakeCluster) -> None:
    cluster.size = dict.fromkeys(P, 1 << 60)
    cluster.reassign(dict.fromkeys(P, (3, 2)))
    began_ms = cluster.now_ms()

    def maybe_finish() -> None:
        if cluster.now_ms() - began_ms > 3 * STALLED_MS:
            cluster.size = dict.fromkeys(P, 0)

    cluster.on_sleep = maybe_finish
    watch_drain(cluster, 1, cluster, lambda _: None)
    assert cluster.now_ms() - began_ms > 3 * STALLED_MS


class Restless(FakeCluster):
    """Whose controller begins to move a partition just when a plan is about to be made."""

    def topics(self, names: Iterable[str] | None = None) -> dict[str, dict[int, Partition]]:
        self.targets = {P[0]: (3, 2)}
        return super().topics(names)


class Behind(FakeCluster):
    """Whose brokers have not heard yet of the end of a move, which every broker took part in."""

    heard_at_ms = 0

    def topics(self, names: Iterable[str] | None = None) -> dict[str, dict[int, Partition]]:
        found = super().topics(names)
        if self.now < self.heard_at_ms:
            found["t"][0] = found["t"][0]._replace(replicas=(1, 2, 3))
        return found


def test_others_can_take_it() -> None:
    cluster = FakeCluster((1, 2, 3), dict.fromkeys(P, (1, 2)), dict.fromkeys(P, 1000))
    began_ms = cluster.now_ms()
    check_drain(cluster, 1, Limits(), cluster)
    assert cluster.now_ms() == began_ms
    assert not cluster.targets


def test_move_that_begins_meanwhile_is_no_reason_to_refuse() -> None:
    cluster = Restless((1, 2, 3), {P[0]: (1, 2)}, {P[0]: 1 << 60})
    check_drain(cluster, 1, Limits(), cluster)
    assert cluster.targets


def test_nor_is_one_of_whose_end_brokers_hear_late() -> None:
    cluster = Behind((1, 2, 3), {P[0]: (1, 2)}, {P[0]: 1000})
    cluster.heard_at_ms = cluster.now + 1000
    check_drain(cluster, 1, Limits(), cluster)


def test_what_the_others_cannot_take_is_refused_when_it_stays_so() -> None:
    cluster = Behind((1, 2, 3), {P[0]: (1, 2)}, {P[0]: 1000})
    began_ms = cluster.now_ms()
    cluster.heard_at_ms = cluster.now + 10 * REFUSED_MS
    with pytest.raises(OperatorError, match="there is no plan to drain 1"):
        check_drain(cluster, 1, Limits(), cluster)
    assert REFUSED_MS <= cluster.now_ms() - began_ms < REFUSED_MS + 2000


class Deaf(FakeCluster):
    """Does not answer between two moments."""

    deaf_ms = range(0)

    def reassignments(self) -> dict:  # type: ignore[type-arg]
        if self.now in self.deaf_ms:
            raise OperatorError("nobody answers", "Wait.")
        return super().reassignments()


@pytest.mark.parametrize(("for_ms", "survives"), [(TROUBLE_MS - 5000, True), (TROUBLE_MS + 5000, False)])
def test_a_cluster_that_does_not_answer_is_asked_again_for_a_while(for_ms: int, survives: bool) -> None:
    cluster = Deaf((1, 2, 3), {P[0]: (1, 2)}, {P[0]: 1000})
    cluster.deaf_ms = range(cluster.now, cluster.now + for_ms)
    cluster.targets = {P[0]: (3, 2)}
    if survives:
        watch_drain(cluster, 1, cluster, lambda _: None)
        return
    with pytest.raises(OperatorError, match="nobody answers"):
        watch_drain(cluster, 1, cluster, lambda _: None)
