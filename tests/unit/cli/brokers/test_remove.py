import pytest

from esp.cli.app import run_tools
from esp.cli.brokers import remove as brokers_remove
from esp.model.ids import TopicPartition
from esp.rebalance.cluster import ALL_BROKERS
from tests.models.fake_brokers import FakeBrokers

P = [TopicPartition("t", number) for number in range(2)]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeBrokers:
    cluster = FakeBrokers((1, 2, 3), {P[0]: (2, 3), P[1]: (3,)}, dict.fromkeys(P, 1000))
    monkeypatch.setattr(brokers_remove, "BrokersAdmin", lambda _: cluster)
    return cluster


def test_broker_that_is_alive_or_unknown_is_refused(cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tools(["brokers", "remove", "1", "--force"]) == 1
    assert "broker 1 is alive" in capsys.readouterr().err
    assert run_tools(["brokers", "remove", "3"]) == 1
    assert "First: esp brokers drain 3 --wait, then stop the node." in capsys.readouterr().err
    assert run_tools(["brokers", "remove", "9"]) == 1
    assert "broker 9 is not registered" in capsys.readouterr().err
    assert set(cluster.registered) == {1, 2, 3}


def test_broker_with_replicas_is_refused_with_their_names_and_the_way_out(
    cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.fence(3)
    assert run_tools(["brokers", "remove", "3"]) == 1
    told = capsys.readouterr().err
    assert "broker 3 holds 2 partition(s): t-1 (no other replica is in sync), t-0. It was not removed" in told
    assert "Start the node again, then move them away: esp brokers drain 3 --wait." in told
    cluster.fence(2)
    cluster.unfence(3)
    assert run_tools(["brokers", "remove", "2"]) == 1
    told = capsys.readouterr().err
    assert "  Move them away: esp brokers drain 2 --wait. Or add --force: it is removed." in told
    assert set(cluster.registered) == {1, 2, 3}


def test_broker_that_holds_nothing_goes_and_its_vote_is_told_of(
    cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.fence(1)
    assert run_tools(["brokers", "remove", "1"]) == 0
    told = capsys.readouterr()
    assert told.out == "Broker 1 is no longer registered.\n"
    assert "remove-controller --controller-id 1 --controller-directory-id dir-1" in told.err
    assert set(cluster.registered) == {2, 3}
    assert not cluster.configs


@pytest.mark.parametrize(("mode", "forced"), [("propose", "4,3"), (None, "4")])
def test_force_is_told_to_the_controller_that_asks_for_it(
    cluster: FakeBrokers, capsys: pytest.CaptureFixture[str], mode: str | None, forced: str
) -> None:
    cluster.mode = mode
    cluster.configs[ALL_BROKERS] = {"broker.removal.forced": "4"}
    cluster.fence(3)
    assert run_tools(["brokers", "remove", "3", "--force"]) == 0
    assert "It is removed by force" in capsys.readouterr().err
    assert set(cluster.registered) == {1, 2}
    assert cluster.configs[ALL_BROKERS] == {"broker.removal.forced": forced}


def test_force_is_not_told_where_nothing_is_lost(cluster: FakeBrokers) -> None:
    cluster.fence(2)
    assert run_tools(["brokers", "remove", "2", "--force"]) == 0
    assert not cluster.configs


def test_controller_that_knows_of_a_last_copy_counts_more_than_the_look(
    cluster: FakeBrokers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "topics", dict)  # as a broker tells that has not heard of the topic
    cluster.fence(3)
    assert run_tools(["brokers", "remove", "3"]) == 1
    assert "broker 3 was not removed: Broker 3 holds the last complete copy." in capsys.readouterr().err
    assert 3 in cluster.registered
