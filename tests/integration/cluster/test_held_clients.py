"""``esp quotas held`` on a cluster: the clients that its brokers hold, added up, and the broker that cannot be asked."""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from esp.cli.app import run_tools
from esp.testing.cluster import Cluster
from tests.integration.conftest import eventually

pytestmark = pytest.mark.timeout(240)

RATE = 1_000
BATCH = b"x" * 30_000
"""At a rate of 1,000 a second, of which ten seconds come at once, a client that has sent it waits for 20 s."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def run(servers: str, *arguments: str, status: int = 0) -> tuple[str, str]:
    """Run a command in this process; return what it printed and what it said on stderr."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        done = run_tools([arguments[0], "--bootstrap-server", servers, *arguments[1:]])
    out.seek(0)
    printed = out.read()
    assert done == status, (arguments, printed, err.getvalue())
    return printed, " ".join(err.getvalue().split())


def held(servers: str, *arguments: str, status: int = 0) -> dict[str, Any]:
    return dict(json.loads(run(servers, "quotas", "held", "--json", *arguments, status=status)[0]))


def test_clients_are_added_up_over_the_brokers_and_one_that_does_not_answer_is_named(cluster: Cluster) -> None:
    servers = cluster.bootstrap
    topics = [NewTopic(f"t{number}", 1, replica_assignment=[[number]]) for number in cluster.nodes]
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for made in admin.create_topics(topics).values():
        made.result(30)
    run(servers, "quotas", "set", "--client-id-default", f"producer_byte_rate={RATE}")
    assert run(servers, "quotas", "held")[0] == "No client is held.\n"
    greedy = KafkaProducer(bootstrap_servers=servers, client_id="greedy", linger_ms=0)
    modest = KafkaProducer(bootstrap_servers=servers, client_id="modest", linger_ms=0)
    try:
        modest.send("t1", b"x").get(30)
        for number in cluster.nodes:
            greedy.send(f"t{number}", BATCH).get(30)
        found = held(servers)
        assert found["unknown"] == []
        [client] = found["held"]
        assert (client["user"], client["client_id"], client["address"]) == ("ANONYMOUS", "greedy", "127.0.0.1")
        assert (client["quota"], client["entity"]) == ("producer_byte_rate", {"client-id": None})
        assert client["connections"] == 3
        assert [each["broker"] for each in client["brokers"]] == sorted(cluster.nodes)
        assert 10_000 < client["waits_ms"] <= 25_000
        assert held(servers, "--client-id", "modest")["held"] == []

        cluster.nodes[3].pause()
        out, said = run(servers, "quotas", "held", "--client-id", "greedy", status=1)
        assert f"broker 3 is not counted: the broker at {cluster.nodes[3].bootstrap} did not answer" in said
        row = out.splitlines()[1].split()
        assert row[:7] == ["user", "ANONYMOUS,", "client", "id", "greedy", "127.0.0.1", "2"]
        assert row[9] == "1,2"

        cluster.nodes[3].resume()
        run(servers, "quotas", "remove", "--client-id-default")
        eventually(lambda: held(servers)["held"] == [], 30)
    finally:
        for producer in (greedy, modest):
            producer.close()
    cluster.nodes[2].kill()
    assert "broker 2 is not counted: no broker answers at" in run(servers, "quotas", "held", status=1)[1]
