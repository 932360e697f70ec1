"""Captures of a node's topics: what files hold, where they are cut, and what a start finds; runners that die, and two of one name."""

import datetime as dt
from pathlib import Path

import pytest

from esp.capture.cutting import Limits
from esp.consumer.messages import Partition
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA
from tests.integration.capture_runs import capture, names_in, offsets_in, produce, rows_in
from tests.integration.conftest import MakeTopic
from tests.integration.transactions import serve_transactions

DAY = dt.datetime(2026, 11, 26, 12, tzinfo=dt.UTC)
DAY_MS = int(DAY.timestamp() * 1000)


@pytest.fixture(scope="module")
def node_settings() -> dict[str, str]:
    return {
        "transaction.state.log.num.partitions": "2",
        "offsets.topic.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
        "log.message.timestamp.after.max.ms": str(2**62),
    }


@pytest.fixture(scope="module")
def bootstrap(node: NodeProcess) -> str:
    """The node, which serves transactions."""
    if not AGAINST_KAFKA:
        serve_transactions(node.bootstrap, [node])
    return node.bootstrap


def test_records_become_rows_of_a_file_with_their_offsets_in_its_name(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    make_topic(partitions=2)
    produce(bootstrap, topic, [b"a", b"b", b"c"], time_ms=lambda number: DAY_MS + number)
    assert capture(bootstrap, topic, tmp_path) == []
    assert [name.path for name in names_in(tmp_path)] == [f"{topic}/dt=2026-11-26/0-0-3.parquet"]
    rows = rows_in(tmp_path)
    assert rows.column_names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert rows.to_pylist()[1] == {
        "key": b"key-1",
        "value": b"b",
        "topic": topic,
        "partition": 0,
        "offset": 1,
        "timestamp": DAY + dt.timedelta(milliseconds=1),
        "timestampType": 0,
        "headers": None,
    }
    assert capture(bootstrap, topic, tmp_path) == []
    assert len(names_in(tmp_path)) == 1, "no file is empty"
    produce(bootstrap, topic, [b"d"], time_ms=lambda _: DAY_MS)
    produce(bootstrap, topic, [b"e"], partition=1, time_ms=lambda _: DAY_MS)
    capture(bootstrap, topic, tmp_path)
    assert [(name.partition.number, name.first, name.end) for name in names_in(tmp_path)] == [
        (0, 0, 3),
        (0, 3, 4),
        (1, 0, 1),
    ]


def test_files_are_cut_at_days_and_at_a_size(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    make_topic()
    produce(bootstrap, topic, [b"x"] * 6, time_ms=lambda number: DAY_MS + (number // 3) * 86_400_000)
    capture(bootstrap, topic, tmp_path)
    assert [name.path.split("/", 1)[1] for name in names_in(tmp_path)] == [
        "dt=2026-11-26/0-0-3.parquet",
        "dt=2026-11-27/0-3-6.parquet",
    ]
    produce(bootstrap, topic, [b"%07d" % number * 30 for number in range(4000)], time_ms=lambda _: DAY_MS)
    capture(bootstrap, topic, tmp_path, limits=Limits(900.0, 250_000))
    sizes = [(tmp_path / name.path).stat().st_size for name in names_in(tmp_path)]
    assert len(sizes) > 4
    assert max(sizes) < 300_000
    assert offsets_in(tmp_path, Partition(topic, 0)) == [*range(4006)]
