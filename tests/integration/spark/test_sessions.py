"""Source, stream, sink and lag of ``format("esp")`` in the sessions of users: under Spark Connect, and on a standalone cluster."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

from esp.testing.node_process import NodeProcess
from esp.testing.ports import free_port
from esp.testing.pytest_plugin import AGAINST_KAFKA
from tests.integration.capture_runs import produce
from tests.integration.conftest import MakeTopic
from tests.integration.source_rows import Read
from tests.integration.spark.connect_server import ConnectServer
from tests.integration.spark.programs import run_program_with_log
from tests.integration.spark.session import HAS_CONNECT, QUICK_START
from tests.integration.spark.standalone import HOST, StandaloneCluster
from tests.integration.transactions import serve_transactions

RECORDS = 60
PARTITIONS = 2
_TIMEOUT_S = 240

RunProgram = Callable[[Sequence[str]], None]


@pytest.fixture
def run_user_program(
    node: NodeProcess, admin: KafkaAdminClient, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> RunProgram:
    """Runs a user's program by a session, and looks at what it saw and left."""

    def run(session: Sequence[str]) -> None:
        if not AGAINST_KAFKA:
            serve_transactions(node.bootstrap, [node])
        source = make_topic(partitions=PARTITIONS)
        target = make_topic(f"{topic}-target", partitions=3)
        for partition in range(PARTITIONS):
            produce(node.bootstrap, source, (b"%d" % number for number in range(partition, RECORDS, 2)), partition)
        name = f"s-{free_port()}"
        arguments = (*("--bootstrap", node.bootstrap, "--source", source, "--target", target), "--name", name)
        printed, log = run_program_with_log(
            "tests.integration.spark.user_program",
            (*arguments, "--directory", str(tmp_path), *session),
            tmp_path,
            _TIMEOUT_S,
        )
        ends = {(source, partition): RECORDS // PARTITIONS for partition in range(PARTITIONS)}
        assert json.loads(printed.splitlines()[-1]) == {
            "batch": [RECORDS, sum(range(RECORDS))],
            "stream": RECORDS,
            "behind": [[topic, partition, end, 0] for (topic, partition), end in ends.items()],
        }
        copied = Read(node.bootstrap, subscribe=target, kafka__isolation__level="read_committed").rows()
        assert sorted(int(row.value or b"") for row in copied) == list(range(RECORDS))
        for query in ("files", "copy"):
            group = f"spark.{query}-{name}"
            found = admin.list_group_offsets({group: None})[group]
            assert {tuple(partition): each.offset for partition, each in found.items()} == ends, log[-5000:]

    return run


@pytest.mark.skipif(not HAS_CONNECT, reason="the packages of Spark Connect are those of PySpark 4.0")
@pytest.mark.timeout(500)
def test_under_spark_connect(run_user_program: RunProgram, tmp_path: Path) -> None:
    server = ConnectServer(tmp_path)
    try:
        run_user_program(["--remote", server.url])
    except AssertionError as error:
        error.add_note(server.log())
        raise
    finally:
        server.stop()


@pytest.mark.timeout(600)  # five JVMs on a few cores
def test_on_a_standalone_cluster_of_two_workers(run_user_program: RunProgram, tmp_path: Path) -> None:
    standalone = StandaloneCluster(tmp_path, workers=2)
    settings = {
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.driver.port": str(free_port()),
        "spark.blockManager.port": str(free_port()),
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": f"{QUICK_START} -Djava.io.tmpdir={tmp_path}",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    try:
        run_user_program(
            ["--master", standalone.master, *(f"--conf={name}={value}" for name, value in settings.items())]
        )
        [application] = standalone.state()["completedapps"]
        assert (application["name"], application["cores"]) == ("user_program", 2)
    finally:
        standalone.stop()
