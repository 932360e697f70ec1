"""``esp transactions`` against brokers that play a cluster."""

import gc
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from esp.cli import output
from esp.cli.app import run_tools
from esp.cli.kafka import client as kafka_client
from esp.cli.kafka.client import LOOK_TIMEOUT_S
from esp.cli.kafka.doctor import DoctorAdmin
from esp.cli.kafka.transactions import ProducerState
from esp.cli.transactions import hanging, reports
from esp.model.errors import ErrorCode
from esp.model.ids import NO_NODE, TRANSACTIONS_TOPIC, TopicPartition
from tests.unit.cli.transactions.played_cluster import PlayedCluster, WrittenMarker

# kafka-python leaves a socket open for every broker that refuses a connection.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
MINUTE_MS = 60_000
OLD_MS = 20 * MINUTE_MS
AT_T0 = ("--topic", "t", "--partition", "0")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ask brokers that are down again at once, and let their sockets go while they may be warned of."""
    monkeypatch.setattr(kafka_client, "RETRY_BACKOFF_S", 0.01)
    yield
    gc.collect()


@pytest.fixture
def now() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def cluster() -> Iterator[PlayedCluster]:
    """One broker that leads t-0, t-1 and u-0."""
    with PlayedCluster() as played:
        played.leaders |= {T0: 0, T1: 0, U0: 0}
        yield played


class Told:
    """The output of a command."""

    def __init__(self, captured: Any) -> None:
        self.out: str = captured.out
        self.err: str = captured.err

    @property
    def rows(self) -> list[list[str]]:
        return [line.split() for line in self.out.splitlines()]

    @property
    def value(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command: ``run(cluster, verb, *arguments, status=0)``."""

    def run_it(cluster: PlayedCluster, verb: str, *arguments: str, status: int = 0) -> Told:
        done = run_tools(["transactions", verb, "--bootstrap-server", cluster.bootstrap, *arguments])
        told = Told(capsys.readouterr())
        assert done == status, told.out + told.err
        return told

    return run_it


def listed(told: Told) -> list[str]:
    return [row[0] for row in told.rows[1:]]


class TestList:
    @pytest.fixture
    def cluster(self, now: int) -> Iterator[PlayedCluster]:
        with PlayedCluster(2) as played:
            played.know("orders-1", 11, T0, start_ms=now - OLD_MS)
            played.know("orders-2", 12, T0, start_ms=now - 10, coordinator=1)
            played.know("bills", 13, state="CompleteCommit", coordinator=1)
            yield played

    def test_ids_of_all_coordinators_are_listed_in_the_columns_of_kafka_s_tool(self, run, cluster):
        assert run(cluster, "list").rows == [
            ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"],
            ["bills", "1", "13", "CompleteCommit"],
            ["orders-1", "0", "11", "Ongoing"],
            ["orders-2", "1", "12", "Ongoing"],
        ]
        assert run(cluster, "list", "--json").value[0] == {
            "transactional_id": "bills",
            "coordinator": 1,
            "producer_id": 13,
            "state": "CompleteCommit",
        }

    @pytest.mark.parametrize(
        ("options", "found"),
        [
            (("--state", "ongoing"), ["orders-1", "orders-2"]),
            (("--state", "Empty,CompleteCommit"), ["bills"]),
            (("--state", "Dead"), []),
            (("--producer-id", "11,13"), ["bills", "orders-1"]),
            (("--producer-id", "11", "--producer-id", "12"), ["orders-1", "orders-2"]),
            (("--duration-filter", "60000"), ["bills", "orders-1"]),
            (("--duration-filter", "60000", "--state", "Ongoing"), ["orders-1"]),
            (("--duration-filter", "-5"), ["bills", "orders-1", "orders-2"]),
            (("--transactional-id-pattern", "orders-.*"), ["orders-1", "orders-2"]),
            (("--transactional-id-pattern", "orders"), []),
            (("--transactional-id-pattern", ".*1", "--state", "CompleteCommit"), []),
        ],
    )
    def test_each_filter_leaves_the_ids_that_pass_it(self, run, cluster, options, found):
        assert listed(run(cluster, "list", *options)) == found

    @pytest.mark.parametrize(
        ("options", "problem", "remedy"),
        [
            (("--state", "Open"), "--state: Open is unknown", "Known are Empty, Ongoing"),
            (("--producer-id", "a"), "--producer-id: a is not a producer id", "4001,4002"),
            (("--transactional-id-pattern", "["), "[: not a regular expression", "'orders-.*'"),
        ],
    )
    def test_a_filter_that_means_nothing_is_refused_with_an_example(self, run, cluster, options, problem, remedy):
        told = run(cluster, "list", *options, status=1)
        assert problem in told.err
        assert remedy in told.err

    def test_transactions_that_are_left_out_are_told(self, run):
        with PlayedCluster(3, down=[1], fenced=[2]) as cluster:
            cluster.know("here", 1)
            cluster.leaders[TopicPartition(TRANSACTIONS_TOPIC, 7)] = NO_NODE
            told = run(cluster, "list")
        assert listed(told) == ["here"]
        assert "do not answer are left out: 1\n" in told.err, "a fenced broker coordinates nothing"
        assert "partitions of __transaction_state have no leader: 7" in told.err

    def test_silent_brokers_are_waited_for_together_and_not_for_long(self, run, monkeypatch):
        monkeypatch.setattr(reports, "LOOK_TIMEOUT_S", 1.0)
        with PlayedCluster(4, silent=[1, 2, 3]) as cluster:
            cluster.know("here", 1)
            begun_s = time.monotonic()
            told = run(cluster, "list")
        assert time.monotonic() - begun_s < 2.5, "not one second for each"
        assert listed(told) == ["here"]
        assert "do not answer are left out: 1, 2, 3\n" in told.err

    def test_a_coordinator_that_loads_counts_as_one_that_does_not_answer(self, run, cluster):
        cluster.loading = {1}
        told = run(cluster, "list")
        assert listed(told) == ["orders-1"]
        assert "do not answer are left out: 1\n" in told.err


class TestDescribe:
    def test_transactions_are_described_in_the_columns_of_kafka_s_tool(self, run, cluster, now):
        cluster.know("a", 11, T1, T0, U0, start_ms=now - OLD_MS)
        cluster.know("b", 12, state="Empty")
        head, first, second = run(cluster, "describe", "--transactional-id", "b", "--transactional-id", "a").rows
        assert head == [
            *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState"),
            *("TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"),
        ]
        assert [*first[:7], *first[8:]] == ["0", "a", "11", "3", "Ongoing", "60000", str(now - OLD_MS), "t-0,t-1,u-0"]
        assert OLD_MS <= int(first[7]) < OLD_MS + MINUTE_MS
        assert second == ["0", "b", "12", "3", "Empty", "60000", "None", "None"]

    def test_json_has_null_for_a_transaction_that_has_not_begun(self, run, cluster, now):
        cluster.know("a", 11, U0, start_ms=now)
        cluster.know("b", 12, state="Empty")
        first, second = run(cluster, "describe", "--transactional-id", "a", "--transactional-id", "b", "--json").value
        assert first["partitions"] == [{"topic": "u", "partition": 0}]
        assert first["start_ms"] == now
        assert (second["start_ms"], second["duration_ms"], second["partitions"]) == (None, None, [])

    def test_an_unknown_id_is_told_after_the_known_ones(self, run, cluster):
        cluster.know("a", 11)
        told = run(cluster, "describe", "--transactional-id", "a", "--transactional-id", "nope", status=1)
        assert [row[1] for row in told.rows] == ["TransactionalId", "a"]
        assert "there is no transactional id nope" in told.err
        assert "esp transactions list" in told.err

    def test_an_id_without_a_coordinator_is_told_with_the_topic_to_repair(self, run, cluster, monkeypatch):
        monkeypatch.setattr(reports, "LOOK_TIMEOUT_S", 1.0)  # all of which is waited
        cluster.homeless = {"a"}
        told = run(cluster, "describe", "--transactional-id", "a", status=1)
        assert "no broker coordinates the transactions of a" in told.err
        assert f"esp topics --describe --topic {TRANSACTIONS_TOPIC}" in told.err

    def test_a_coordinator_that_is_down_is_named(self, run):
        with PlayedCluster(2, down=[1]) as cluster:
            cluster.know("a", 11, coordinator=1)
            told = run(cluster, "describe", "--transactional-id", "a", status=1)
        assert "the coordinator of a, broker 1, does not answer" in told.err
        assert "Start broker 1" in told.err


class TestProducers:
    def test_producers_of_a_partition_are_described_in_the_columns_of_kafka_s_tool(self, run, cluster):
        cluster.producers[T0] = [ProducerState(12, 1, 5, 0, 99, -1), ProducerState(11, 0, -1, 7, 98, 4711)]
        assert run(cluster, "describe-producers", *AT_T0).rows == [
            [
                *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp"),
                "CurrentTransactionStartOffset",
            ],
            ["11", "0", "-1", "7", "98", "4711"],
            ["12", "1", "5", "0", "99", "None"],
        ]
        assert run(cluster, "describe-producers", *AT_T0, "--json").value[0] == cluster.producers[T0][1]._asdict()

    @pytest.mark.parametrize(
        ("options", "problem", "remedy"),
        [
            (("--topic", "v", "--partition", "0"), "there is no topic v", "esp topics --list"),
            (("--topic", "t", "--partition", "2"), "topic t has no partition 2", "It has 2, counted from 0"),
            ((*AT_T0, "--broker-id", "9"), "broker 9 has no replica of t-0", "Its replicas: 0."),
        ],
    )
    def test_a_place_that_is_not_there_is_refused(self, run, cluster, options, problem, remedy):
        told = run(cluster, "describe-producers", *options, status=1)
        assert problem in told.err
        assert remedy in told.err

    @pytest.mark.parametrize("leader", [NO_NODE, 1])
    def test_a_partition_whose_leader_is_away_is_told_with_the_way_to_its_replicas(self, run, leader):
        with PlayedCluster(2, down=[1]) as cluster:
            cluster.leaders[T0] = leader
            told = run(cluster, "describe-producers", *AT_T0, status=1)
            assert "the producers of t-0 are unknown" in told.err
            assert "esp topics --describe --topic t" in told.err
            assert len(run(cluster, "describe-producers", *AT_T0, "--broker-id", "0").rows) == 1, "a follower knows"


class TestOldest:
    def test_the_oldest_transaction_of_each_partition_is_shown_with_its_owner(self, run, cluster, now):
        cluster.open(T0, 11, 50, age_ms=MINUTE_MS, now_ms=now)
        cluster.open(T0, 12, 40, age_ms=1000, now_ms=now)
        cluster.open(U0, 13, 7, age_ms=OLD_MS, now_ms=now)
        cluster.know("owner", 12, T0, start_ms=now - 2 * OLD_MS)
        cluster.clients[12] = {"client_id": "payments", "client_host": "10.0.0.7"}
        head, first, second = run(cluster, "oldest").rows
        assert head[:5] == ["Topic", "Partition", "OpenTransactions", "StartOffset", "AgeMs"]
        assert [*first[:4], *first[5:]] == [
            "t",
            "0",
            "2",
            "40",
            "12",
            "3",
            "Ongoing",
            "0",
            "owner",
            "payments",
            "10.0.0.7",
        ]
        assert int(first[4]) >= 2 * OLD_MS, "the coordinator knows when it began"
        assert [*second[:4], *second[5:]] == ["u", "0", "1", "7", "13", "3", "-", "-", "-", "-", "-"]
        assert OLD_MS <= int(second[4]) < OLD_MS + MINUTE_MS, "the age of the last record"
        [only] = run(cluster, "oldest", "--topic", "u", "--json").value
        assert (only["start_offset"], only["transactional_id"], only["coordinator"]) == (7, None, None)
        assert (only["client_id"], only["client_host"]) == (None, None)

    def test_an_owner_whose_transaction_is_elsewhere_does_not_give_the_age(self, run, cluster, now):
        cluster.open(T0, 11, 5, age_ms=OLD_MS, now_ms=now)
        cluster.know("elsewhere", 11, U0, start_ms=now)
        [row] = run(cluster, "oldest", "--json").value
        assert row["transactional_id"] == "elsewhere"
        assert row["age_ms"] >= OLD_MS

    def test_without_open_transactions_there_are_no_rows(self, run, cluster):
        cluster.producers[T0] = [ProducerState(12, 1, 5, 0, 99, -1)]
        assert len(run(cluster, "oldest").rows) == 1
        assert run(cluster, "oldest", "--json").value == []

    def test_partitions_and_owners_that_are_unknown_are_told(self, run, now):
        with PlayedCluster(2, down=[1]) as cluster:
            cluster.leaders |= {T1: 1, U0: NO_NODE}
            cluster.open(T0, 11, 5, age_ms=OLD_MS, now_ms=now)
            told = run(cluster, "oldest")
        assert [row[:2] for row in told.rows[1:]] == [["t", "0"]]
        assert "the transactions of t-1 are unknown" in told.err
        assert "the transactions of u-0 are unknown: it has no leader" in told.err
        assert "owners are unknown where the coordinator does not answer: 1" in told.err


class TestFindHanging:
    def test_a_transaction_that_no_coordinator_has_in_its_partition_hangs(self, run, cluster, now):
        cluster.open(T0, 11, 50, age_ms=OLD_MS, now_ms=now, coordinator_epoch=2)
        cluster.open(T1, 12, 60, age_ms=OLD_MS, now_ms=now)
        cluster.open(U0, 13, 70, age_ms=OLD_MS, now_ms=now)
        cluster.open(U0, 14, 71, age_ms=MINUTE_MS, now_ms=now)
        cluster.know("owner", 12, T1)
        cluster.know("elsewhere", 13, T0)
        told = run(cluster, "find-hanging")
        assert told.rows == [
            [
                *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset"),
                *("LastTimestamp", "Duration(min)"),
            ],
            ["t", "0", "11", "3", "2", "50", str(now - OLD_MS), "20"],
            ["u", "0", "13", "3", "-1", "70", str(now - OLD_MS), "20"],
        ]
        assert [each["topic"] for each in run(cluster, "find-hanging", "--topic", "t", "--json").value] == ["t"]
        assert run(cluster, "find-hanging", "--topic", "t", "--partition", "1", "--json").value == []
        assert len(run(cluster, "find-hanging", "--broker-id", "0", "--json").value) == 2
        assert len(run(cluster, "find-hanging", "--max-transaction-timeout", "0", "--json").value) == 3
        assert run(cluster, "find-hanging", "--max-transaction-timeout", "30", "--json").value == []

    def test_a_transaction_that_ends_while_coordinators_are_asked_does_not_hang(self, run, cluster, now):
        cluster.open(T0, 11, 50, age_ms=OLD_MS, now_ms=now)
        cluster.know("owner", 11)
        cluster.is_described = cluster.producers.clear
        assert run(cluster, "find-hanging", "--json").value == []

    def test_a_partition_needs_its_topic(self, run, cluster):
        assert "--topic NAME --partition NUMBER" in run(cluster, "find-hanging", "--partition", "0", status=1).err

    def test_a_fenced_broker_does_not_count(self, run, now):
        with PlayedCluster(2, fenced=[1]) as cluster:
            cluster.open(T0, 11, 50, age_ms=OLD_MS, now_ms=now)
            assert len(run(cluster, "find-hanging", "--json").value) == 1

    @pytest.mark.parametrize("trouble", ["down", "loading", "unled"])
    def test_while_a_coordinator_is_unknown_only_what_is_sure_is_shown(self, run, trouble, now):
        with PlayedCluster(2, down=[1] if trouble == "down" else []) as cluster:
            cluster.open(T0, 11, 50, age_ms=OLD_MS, now_ms=now)
            cluster.open(U0, 12, 60, age_ms=OLD_MS, now_ms=now)
            cluster.know("elsewhere", 12, T1)
            if trouble == "loading":
                cluster.loading = {1}
            elif trouble == "unled":
                cluster.leaders[TopicPartition(TRANSACTIONS_TOPIC, 7)] = NO_NODE
            told = run(cluster, "find-hanging", status=1)
        assert [row[2] for row in told.rows[1:]] == ["12"], "the coordinator of 11 may be the one that is unknown"
        assert "some transactions may hang that are not shown" in told.err
        assert "Start these brokers" in told.err

    def test_partitions_that_could_not_be_asked_make_the_status_1(self, run):
        with PlayedCluster(2, down=[1]) as cluster:
            cluster.leaders |= {T0: 1, T1: 1}
            told = run(cluster, "find-hanging", status=1)
        assert "the transactions of 2 partitions, such as t-0, are unknown" in told.err

    def test_a_silent_leader_does_not_hide_what_the_others_have(self, run, now, monkeypatch):
        monkeypatch.setattr(hanging, "LOOK_TIMEOUT_S", 1.0)
        with PlayedCluster(3, silent=[1]) as cluster:
            cluster.leaders[T1] = 1
            cluster.open(T0, 11, 50, age_ms=OLD_MS, now_ms=now, leader=2)
            cluster.know("elsewhere", 11, coordinator=2)
            begun_s = time.monotonic()
            told = run(cluster, "find-hanging", status=1)
        assert time.monotonic() - begun_s < 2.5
        assert [row[:2] for row in told.rows[1:]] == [["t", "0"]]
        assert "the transactions of t-1 are unknown" in told.err


class TestAbort:
    @pytest.fixture
    def cluster(self, now: int) -> Iterator[PlayedCluster]:
        """Producer 11 has a transaction in t-0, which broker 1 leads, from offset 50 on."""
        with PlayedCluster(2) as played:
            played.open(T0, 11, 50, age_ms=OLD_MS, now_ms=now, coordinator_epoch=2, leader=1)
            yield played

    AT_50 = (*AT_T0, "--start-offset", "50")
    NUMBERS = (*AT_T0, "--producer-id", "11", "--producer-epoch", "3", "--coordinator-epoch")

    def test_the_marker_goes_to_the_leader_with_the_epochs_that_it_knows(self, run, cluster):
        told = run(cluster, "abort", *self.AT_50, "--execute")
        assert told.out == (
            "Wrote the marker that aborts the transaction of producer 11 with epoch 3 in t-0, with coordinator epoch 2.\n"
        )
        assert cluster.markers == [WrittenMarker(1, T0, 11, 3, 2, commits=False)]

    def test_without_execute_nothing_is_written(self, run, cluster):
        told = run(cluster, "abort", *self.AT_50)
        assert told.out.startswith("Would write the marker")
        assert "no marker is written without --execute" in told.err
        assert run(cluster, "abort", *self.AT_50, "--dry-run").err == ""
        assert cluster.markers == []

    @pytest.mark.parametrize(("given", "written"), [("-1", 0), ("4", 4)])
    def test_with_all_numbers_no_coordinator_is_asked(self, run, cluster, given, written):
        cluster.know("owner", 11, T0)
        run(cluster, "abort", *self.NUMBERS, given, "--execute")
        assert cluster.markers == [WrittenMarker(1, T0, 11, 3, written, commits=False)]

    @pytest.mark.parametrize(
        ("state", "end"),
        [("Ongoing", "aborts it at the latest 60000 ms after its start"), ("PrepareCommit", "writes its markers")],
    )
    def test_a_transaction_that_its_coordinator_has_is_refused(self, run, cluster, state, end):
        cluster.know("owner", 11, T0, state=state)
        told = run(cluster, "abort", *self.AT_50, "--execute", status=1)
        assert f"does not hang: broker 0 has it as owner in state {state}, and {end}" in told.err
        assert "esp transactions describe --transactional-id owner" in told.err
        assert cluster.markers == []

    def test_a_transaction_that_ends_while_coordinators_are_asked_gets_no_marker(self, run, cluster):
        cluster.know("owner", 11)
        cluster.is_described = cluster.producers.clear
        assert (
            "no open transaction begins at offset 50 of t-0"
            in run(cluster, "abort", *self.AT_50, "--execute", status=1).err
        )
        assert cluster.markers == []

    def test_a_transaction_whose_coordinator_may_be_the_silent_one_is_refused(self, run, now):
        with PlayedCluster(2, down=[1]) as cluster:
            cluster.open(T0, 11, 50, age_ms=OLD_MS, now_ms=now)
            told = run(cluster, "abort", *self.AT_50, status=1)
        assert "a coordinator that does not answer may have the transaction at offset 50 of t-0" in told.err
        assert "--coordinator-epoch write the marker without asking" in told.err

    def test_a_refusal_of_the_leader_names_the_way_to_the_epochs_that_it_knows(self, run, cluster):
        cluster.refusal = ErrorCode.invalid_producer_epoch
        told = run(cluster, "abort", *self.AT_50, "--execute", status=1)
        assert "the leader of t-0 refused the marker: INVALID_PRODUCER_EPOCH" in told.err
        assert "esp transactions describe-producers --topic t --partition 0" in told.err

    @pytest.mark.parametrize(
        ("options", "problem", "remedy"),
        [
            ((*AT_T0, "--start-offset", "7"), "no open transaction begins at offset 7", "describe-producers --topic t"),
            (AT_T0, "abort needs --start-offset", "find-hanging --topic t --partition 0"),
            ((*AT_T0, "--producer-id", "11"), "abort needs --start-offset", "find-hanging --topic t --partition 0"),
            ((*AT_50, "--producer-id", "11"), "--start-offset excludes --producer-id", "Give the offset alone"),
            ((*AT_50, "--execute", "--dry-run"), "exclude each other", "Give one of them"),
            (("--topic", "v", "--partition", "0", "--start-offset", "0"), "there is no topic v", "esp topics --list"),
        ],
    )
    def test_an_order_that_cannot_be_carried_out_is_refused(self, run, cluster, options, problem, remedy):
        told = run(cluster, "abort", *options, status=1)
        assert problem in told.err
        assert remedy in told.err
        assert told.err.count("\n") == 2

    @pytest.mark.parametrize("leader", [NO_NODE, 1])
    def test_a_partition_whose_leader_is_away_gets_no_marker(self, run, leader, monkeypatch):
        monkeypatch.setattr(kafka_client, "ATTEMPTS_MAX", 2)
        with PlayedCluster(2, down=[1]) as cluster:
            cluster.leaders[T0] = leader
            told = run(cluster, "abort", *self.AT_50, status=1)
            assert "the transactions of t-0 are unknown" in told.err
            told = run(cluster, "abort", *self.NUMBERS, "0", "--execute", status=1)
            assert ("t-0 has no leader: nothing was written" if leader == NO_NODE else "does not answer") in told.err
            assert cluster.markers == []


class TestDoctor:
    """The questions of ``esp doctor`` about transactions."""

    def test_transactions_that_hang_or_are_overdue_are_found(self, cluster, now):
        cluster.open(T0, 11, 50, age_ms=OLD_MS, now_ms=now)
        cluster.open(T1, 12, 60, age_ms=OLD_MS, now_ms=now)
        cluster.open(U0, 13, 70, age_ms=MINUTE_MS, now_ms=now)
        cluster.know("stuck", 12, T1, state="PrepareCommit", start_ms=now - OLD_MS)
        cluster.know("slow", 14, T1, start_ms=now - OLD_MS, timeout_ms=30 * MINUTE_MS)
        cluster.know("done", 15, state="CompleteCommit", start_ms=now - OLD_MS)
        with DoctorAdmin(cluster.bootstrap, LOOK_TIMEOUT_S) as admin:
            hanging = admin.hanging_transactions({0: [T0, T1, U0]}, now)
            overdue = admin.overdue_transactions(now)
        assert [(each.partition, each.start_offset) for each in hanging] == [(T0, 50)]
        assert [each.transactional_id for each in overdue] == ["stuck"]

    def test_a_transaction_whose_coordinator_is_down_is_not_accused(self, now):
        with PlayedCluster(2, down=[1]) as cluster:
            cluster.open(T0, 11, 50, age_ms=OLD_MS, now_ms=now)
            cluster.know("stuck", 12, T1, start_ms=now - OLD_MS)
            with DoctorAdmin(cluster.bootstrap, LOOK_TIMEOUT_S) as admin:
                assert admin.hanging_transactions({0: [T0], 1: [T1]}, now) == []
                assert [each.transactional_id for each in admin.overdue_transactions(now)] == ["stuck"]


@pytest.mark.parametrize("verb", ["list", "describe", "describe-producers", "oldest", "find-hanging", "abort"])
def test_help_of_each_verb_has_an_example(capsys, verb):
    assert run_tools(["transactions", verb, "--help"]) == 0
    told = capsys.readouterr().out
    assert "Example" in told
    assert f"esp transactions {verb}" in told


@pytest.mark.parametrize("width", [40, 80, 200])
def test_tables_on_a_terminal_cut_nothing(run, cluster, now, monkeypatch, width):
    name = TopicPartition("a-topic-with-quite-a-long-name-of-its-own", 0)
    cluster.open(name, 11, 50, age_ms=OLD_MS, now_ms=now)
    cluster.know("a-transactional-id-of-some-length", 11, T0, start_ms=now - OLD_MS)
    monkeypatch.setattr(output, "console", Console(force_terminal=True, color_system=None, width=width))
    for arguments, wanted in (
        (("list",), ("a-transactional-id-of-some-length", "Ongoing")),
        (
            ("describe", "--transactional-id", "a-transactional-id-of-some-length"),
            ("Ongoing", str(now - OLD_MS), "t-0"),
        ),
        (("describe-producers", "--topic", name.topic, "--partition", "0"), ("11", "50", str(now - OLD_MS))),
        (("oldest",), (name.topic, "50", "a-transactional-id-of-some-length")),
        (("find-hanging",), (name.topic, "50", str(now - OLD_MS))),
    ):
        told = run(cluster, *arguments).out
        words = told.split()
        assert set(wanted) <= set(words), arguments
        if width == 40:
            assert all(line.count(":") == 1 for line in told.splitlines() if line), "a line for each cell"


def test_no_broker_is_told_with_a_remedy(capsys):
    assert run_tools(["transactions", "list", "--bootstrap-server", "127.0.0.1:1"]) == 1
    assert "no broker answers at 127.0.0.1:1" in capsys.readouterr().err
