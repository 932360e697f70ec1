"""``esp transactions`` on a node and on Kafka, whose transactional clients are killed; and Kafka's own tool on the same node."""

import json
import shlex
from collections.abc import Iterator
from functools import partial

import pytest

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import NodeProcess
from esp.testing.real_kafka import RealKafka
from tests.integration.conftest import eventually
from tests.integration.open_transactions import AGE_MS, SETTINGS, esp, leave_open, run_esp, told, write_late
from tests.integration.transactions import TIMEOUT_S, read_all, serve_transactions

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module", params=["ours", pytest.param("kafka", marks=pytest.mark.kafka)])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that serves transactions by the newest protocol: ours, and Kafka's."""
    make = Node if request.param == "ours" else partial(RealKafka, tools=request.getfixturevalue("kafka_tools"))
    node = make(tmp_path_factory.mktemp("transactions") / "data", SETTINGS)
    try:
        node.start()
        if request.param == "ours":
            serve_transactions(node.bootstrap, [node])
        yield node
        node.stop()
    finally:
        if node.is_running:
            node.kill()


def rows(text: str) -> list[list[str]]:
    """The words of each line that has any."""
    return [line.split() for line in text.splitlines() if line.strip()]


def test_transaction_of_a_killed_client_is_shown_with_its_owner_and_not_called_hanging(
    served: NodeProcess, topic: str
) -> None:
    at, name = served.bootstrap, f"{topic}-owner"
    leave_open(at, name, topic)
    [listed] = told(at, "list", "--state", "ongoing", "--transactional-id-pattern", f"{name[:20]}.*owner")
    assert (listed["transactional_id"], listed["state"]) == (name, "Ongoing")
    assert told(at, "list", "--producer-id", str(listed["producer_id"])) == [listed]
    assert name not in esp(at, "list", "--duration-filter", str(AGE_MS))[0]
    assert name in esp(at, "list", "--duration-filter", "0")[0]
    assert "not a regular expression" in esp(at, "list", "--transactional-id-pattern", "(", status=1)[1]

    [shown] = told(at, "oldest", "--topic", topic)
    assert shown["transactional_id"] == name
    assert (shown["producer_id"], shown["start_offset"], shown["state"]) == (listed["producer_id"], 0, "Ongoing")
    is_told = isinstance(served, Node)
    assert (shown["client_id"], shown["client_host"]) == (("rdkafka", "127.0.0.1") if is_told else (None, None))
    assert 0 <= shown["age_ms"] < AGE_MS, "the coordinator knows when it began; the record's own time is older"
    [described] = told(at, "describe", "--transactional-id", name)
    assert described["partitions"] == [{"topic": topic, "partition": 0}]
    assert told(at, "find-hanging", "--topic", topic) == []
    where = ("--topic", topic, "--partition", "0", "--start-offset", "0")
    _, error = esp(at, "abort", *where, "--execute", status=1)
    assert "does not hang" in error
    assert f"esp transactions describe --transactional-id {name}" in error
    assert [each["producer_id"] for each in told(at, "oldest", "--topic", topic)] == [listed["producer_id"]]


def test_transaction_that_no_coordinator_has_is_found_and_ended(served: NodeProcess, topic: str) -> None:
    at = served.bootstrap
    offset = write_late(at, served, f"{topic}-late", topic)
    [hanging] = told(at, "find-hanging")
    assert (hanging["topic"], hanging["partition"], hanging["start_offset"]) == (topic, 0, offset)
    where = ("--topic", topic, "--partition", "0", "--start-offset", str(offset))
    said, _ = esp(at, "abort", *where, "--dry-run")
    assert f"Would write the marker that aborts the transaction of producer {hanging['producer_id']} " in said
    assert len(told(at, "find-hanging")) == 1
    said, _ = esp(at, "abort", *where, "--execute")
    assert said.startswith("Wrote the marker")
    assert told(at, "find-hanging") == []
    assert told(at, "oldest", "--topic", topic) == []
    eventually(lambda: read_all(at, topic, 1, partitions=1) == [b"committed"], TIMEOUT_S)


def test_doctor_finds_a_transaction_that_hangs_and_its_remedy_ends_it(served: NodeProcess, topic: str) -> None:
    at = served.bootstrap
    examine = ("doctor", "--rule", "hanging-transaction,transaction-overdue", "--json", "--bootstrap-server", at)
    leave_open(at, f"{topic}-owner", topic)
    assert json.loads(run_esp(*examine)[0])["findings"] == []
    write_late(at, served, f"{topic}-late", topic)
    [finding] = json.loads(run_esp(*examine, status=1)[0])["findings"]
    [place] = finding["places"]
    assert (finding["rule"], place["name"]) == ("hanging-transaction", f"{topic}-0")
    program, *words = shlex.split(place["remedy"].strip("`"))
    assert program == "esp"
    assert run_esp(*words)[0].startswith("Wrote the marker")
    assert json.loads(run_esp(*examine)[0])["findings"] == []


def test_transaction_that_hangs_is_found_in_the_files_of_a_node_that_is_down(served: NodeProcess, topic: str) -> None:
    at = served.bootstrap
    leave_open(at, f"{topic}-owner", topic)
    offset = write_late(at, served, f"{topic}-late", topic)
    [hanging] = told(at, "find-hanging", "--topic", topic)
    for end in (served.stop, served.kill):
        end()
        said, _ = run_esp(
            "transactions", "find-hanging", "--topic", topic, "--data-dir", str(served.data_dir), "--json"
        )
        served.start()
        assert json.loads(said) == [hanging], "without the node as with it"
    where = ("--topic", topic, "--partition", "0", "--start-offset", str(offset))
    eventually(lambda: esp(at, "abort", *where, "--execute")[0].startswith("Wrote the marker"), TIMEOUT_S)


def test_names_that_are_not_there_are_refused_and_make_no_topic(served: NodeProcess, topic: str) -> None:
    at = served.bootstrap
    leave_open(at, f"{topic}-first", f"{topic}-used")  # then there is a coordinator
    assert "there is no transactional id nobody" in esp(at, "describe", "--transactional-id", "nobody", status=1)[1]
    where = ("--topic", topic, "--partition", "0")
    for verb, more in (("describe-producers", ()), ("find-hanging", ()), ("abort", ("--start-offset", "0"))):
        for _ in range(2):  # the first time could have created it
            assert f"there is no topic {topic}" in esp(at, verb, *where, *more, status=1)[1]


@pytest.mark.kafka
@pytest.mark.parametrize("served", ["ours"], indirect=True)
def test_kafka_s_tool_shows_the_same_and_ends_the_same(
    served: NodeProcess, topic: str, kafka_tools: KafkaTools
) -> None:
    at = served.bootstrap

    def theirs(verb: str, *arguments: str) -> list[list[str]]:
        done = kafka_tools.run("transactions", "--bootstrap-server", at, verb, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return rows(done.stdout)

    def ours(verb: str, *arguments: str) -> list[list[str]]:
        return rows(esp(at, verb, *arguments)[0])

    leave_open(at, f"{topic}-owner", f"{topic}-a")
    offset = write_late(at, served, f"{topic}-late", topic)
    head, *listed = theirs("list")
    assert ours("list") == [head, *sorted(listed)]
    for name in (f"{topic}-owner", f"{topic}-late"):
        mine, its = (show("describe", "--transactional-id", name) for show in (ours, theirs))
        duration = mine[0].index("TransactionDurationMs")
        assert mine[1][duration].isdecimal() is its[1][duration].isdecimal()
        for told_rows in (mine, its):
            del told_rows[1][duration]
        assert mine == its
    where = ("--topic", topic, "--partition", "0")
    assert ours("describe-producers", *where) == theirs("describe-producers", *where)
    assert len(ours("find-hanging", *where)) == 2
    assert ours("find-hanging", *where) == theirs("find-hanging", *where)

    assert theirs("abort", *where, "--start-offset", str(offset)) == []
    assert len(ours("find-hanging", *where)) == 1
    eventually(lambda: read_all(at, topic, 1, partitions=1) == [b"committed"], TIMEOUT_S)
