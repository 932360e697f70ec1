"""Damaged files: the node mends what it can and says so, or refuses to run and names the file; nothing acknowledged is given up for it."""

import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode

from esp.records.batch_header import HEADER_SIZE
from esp.simulation.checkers.client_history import Outcome, check
from esp.testing.node import Node
from esp.testing.node_process import NodeError, NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA, NodeFactory
from esp.testing.segment_files import read_batch_headers, segment_paths
from tests.integration import messages
from tests.integration.conftest import eventually
from tests.integration.load import Load, read_everything
from tests.integration.wire import Wire

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="our own messages and remedies")

RECORDS = 3000

Ended = Callable[[str], NodeProcess]


@pytest.fixture(scope="module")
def data_dirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What a node leaves that was stopped and one that was killed: a topic "t" of several segments with 3,000 records in 300 batches."""
    made = {}
    for ending in ("stop", "kill"):
        with Node(tmp_path_factory.mktemp(ending) / "data") as node:
            create(node)
            fill(node, 0, RECORDS)
            getattr(node, ending)()
        assert len(segment_paths(node.log_dirs, "t")) > 2
        made[ending] = node.data_dir
    return made


@pytest.fixture
def ended(fresh_node: NodeFactory, data_dirs: dict[str, Path]) -> Ended:
    """A node that has ended so, on files of its own."""

    def make(ending: str) -> NodeProcess:
        node = fresh_node(start=False)
        shutil.copytree(data_dirs[ending], node.data_dir)
        return node

    return make


def create(node: NodeProcess, segment_bytes: int = 1_048_576) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("t", 1, 1, config={"segment.bytes": str(segment_bytes)})])["t"].result(20)


def fill(node: NodeProcess, start: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "batch.num.messages": 10, "linger.ms": 5, "log_level": 0})
    for i in range(start, end):
        producer.produce("t", b"%d" % i + b" " * 1000, b"k")
        producer.poll(0)
    assert producer.flush(30) == 0


def numbers(node: NodeProcess) -> list[int]:
    return [read.number for read in read_everything(node, "t")]


def partition_dir(node: NodeProcess) -> Path:
    return node.data_dir / "t-0"


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["gone", "garbage", "cut"])
@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_damaged_index_is_made_anew(ended: Ended, suffix: str, damage: str, ending: str) -> None:
    node = ended(ending)
    for path in partition_dir(node).glob(f"*{suffix}"):
        content = path.read_bytes()
        if damage == "gone":
            path.unlink()
        elif damage == "garbage":
            path.write_bytes(bytes(reversed(range(240))))
        else:
            path.write_bytes(content[: len(content) // 2 + 1])
    node.start()
    assert numbers(node) == list(range(RECORDS))
    with Wire(node) as wire:
        for header in read_batch_headers(node.log_dirs, "t")[::37]:
            answer = wire.call(messages.list_offsets("t", header.max_timestamp)).topics[0].partitions[0]
            assert 0 <= answer.offset <= header.last_offset
    fill(node, RECORDS, RECORDS + 10)
    assert numbers(node) == list(range(RECORDS + 10))


@pytest.mark.parametrize("ending", ["stop", "kill"])
@pytest.mark.parametrize(
    "content",
    [b"", b"0\n1\nt 0 not-a-number\n", b"0\n5\nt 0 3\n", b"\xff" * 50],
    ids=["empty", "no number", "cut", "noise"],
)
@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"]
)
def test_damaged_checkpoint_costs_no_record(ended: Ended, name: str, content: bytes, ending: str) -> None:
    node = ended(ending)
    (node.data_dir / name).write_bytes(content)
    assert_starts_whole_or_names(node, name)


@pytest.mark.parametrize("ending", ["stop", "kill"])
@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata", "*.snapshot"])
def test_damaged_file_of_a_partition_costs_no_record(ended: Ended, name: str, ending: str) -> None:
    node = ended(ending)
    (partition_dir(node) / "leader-epoch-checkpoint").stat()
    for path in partition_dir(node).glob(name):
        path.write_bytes(b"garbage")
    assert_starts_whole_or_names(node, name.strip("*"))


def assert_starts_whole_or_names(node: NodeProcess, name: str) -> None:
    """The node serves every record and takes new ones; or it refuses to run, and says because of which file."""
    try:
        node.start()
    except NodeError:
        assert node.exit_status == 1
        message = node.stderr_path.read_text()
        assert "Traceback" not in message, message
        assert name in message
        return
    assert numbers(node) == list(range(RECORDS))
    fill(node, RECORDS, RECORDS + 10)
    assert numbers(node) == list(range(RECORDS + 10))


@pytest.mark.parametrize("content", [b"", b"garbage", b"version=1\nnode.id=1\n", b"\xff" * 100])
def test_damaged_meta_properties_are_named(ended: Ended, content: bytes) -> None:
    node = ended("stop")
    path = node.data_dir / "meta.properties"
    path.write_bytes(content)
    with pytest.raises(NodeError):
        node.start()
    assert node.exit_status == 1
    assert str(path) in node.stderr_path.read_text()
    assert "Traceback" not in node.stderr_path.read_text()


def test_torn_last_batch_is_cut_off_after_a_kill(ended: Ended) -> None:
    node = ended("kill")
    last = segment_paths(node.log_dirs, "t")[-1]
    content = last.read_bytes()
    last.write_bytes(content + content[: HEADER_SIZE + 100])  # a batch that was never acknowledged, half written
    node.start()
    assert numbers(node) == list(range(RECORDS))
    fill(node, RECORDS, RECORDS + 10)
    assert numbers(node) == list(range(RECORDS + 10))


def test_flipped_bit_in_an_old_segment_is_no_record_of_somebody_elses(ended: Ended) -> None:
    """A reader gets an error it can see, or the records before and none that is wrong; other topics go on."""
    node = ended("stop")
    first = segment_paths(node.log_dirs, "t")[0]
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    first.write_bytes(content)
    node.start()
    with pytest.raises((KafkaException, AssertionError)) as told:
        read_everything(node, "t", timeout_s=5)
    assert "not read to their end" in str(told.value) or told.value.args[0].code() in {
        KafkaError._BAD_MSG,
        KafkaError.INVALID_MSG,
        KafkaError.KAFKA_STORAGE_ERROR,
    }
    with Wire(node) as wire:
        assert messages.send_batch(wire, "t", None)[0] != ErrorCode.none
        assert wire.call(messages.metadata("t")).topics[0].error_code == ErrorCode.none


def test_full_disk_is_told_to_the_producer_and_costs_nothing_acknowledged(fresh_node: NodeFactory) -> None:
    node = fresh_node()
    create(node, 1 << 30)
    with Load(node, "t", padding=20_000, message_timeout_ms=6000) as load:
        load.wait_for_acks(20)
        # no file may grow beyond what the first segment has now: a write beyond it fails, as on a full disk
        limit = max(path.stat().st_size for path in segment_paths(node.log_dirs, "t")) + 100_000
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        eventually(lambda: bool(load.errors), timeout_s=30)
        load.finish()
    assert load.errors, "no producer was told of the full disk"
    assert {error.code() for error in load.errors} <= {
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError._PURGE_QUEUE,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    }
    assert any(word in node.stderr_path.read_text() for word in ("t-0", str(node.data_dir)))
    if node.is_running:
        node.kill()
    else:
        assert node.exit_status not in (0, None)
    node.start()
    sent = [s for s in load.sent if s.outcome is Outcome.ACKED]
    unknown = [s._replace(outcome=Outcome.UNKNOWN) for s in load.sent if s.outcome is not Outcome.ACKED]
    assert len(sent) >= 20
    assert check([*sent, *unknown], read_everything(node, "t")) == []
    fill(node, 0, 10)
