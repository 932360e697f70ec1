"""``esp spark sinks`` beside a node: sinks as their tasks commit them, without Spark."""

import json
from collections.abc import Callable

import pyarrow as pa
import pytest

from esp.cli.app import run_tools
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA
from tests.integration.conftest import MakeTopic
from tests.integration.sink_runs import committed_offset, order_of, rows_of_batch, run_batch
from tests.integration.transactions import serve_transactions

Esp = Callable[..., str]
"""``esp(*arguments, status=0)`` runs a command on sinks in this process, and returns what it printed."""


@pytest.fixture(scope="module")
def bootstrap(node: NodeProcess) -> str:
    """The node, which serves transactions."""
    if not AGAINST_KAFKA:
        serve_transactions(node.bootstrap, [node])
    return node.bootstrap


@pytest.fixture
def esp(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Esp:
    """The command at the node."""

    def run(*arguments: str, status: int = 0) -> str:
        found = run_tools(("spark", "sinks", *arguments, "--bootstrap-server", bootstrap))
        printed = capsys.readouterr()
        assert found == status, printed.err
        return printed.out if status == 0 else printed.err

    return run


@pytest.fixture
def flights(bootstrap: str, make_topic: MakeTopic, topic: str) -> str:
    """A topic of two partitions, with a sink that wrote batch 0 to both and batch 1 to one of them."""
    make_topic(partitions=2)
    rows = rows_of_batch(0, 6)
    for batch, numbers in ((0, [0, 1, 0, 1, 0, 1]), (1, [1, 1, 1, 1, 1, 1])):
        named = rows.append_column("partition", pa.array(numbers, pa.int32()))
        run_batch(order_of(bootstrap, topic, batch, 2, sink="flights"), named)
    return topic


def test_sinks_are_listed_shown_and_reset(bootstrap: str, esp: Esp, flights: str, make_topic: MakeTopic) -> None:
    other = make_topic(f"{flights}-other")
    run_batch(order_of(bootstrap, other, 0, 1, sink="flights"))
    listed = json.loads(esp("list", "--json"))
    assert listed == [
        {"sink": "flights", "topic": flights, "partitions": 2, "batch": 1},
        {"sink": "flights", "topic": other, "partitions": 1, "batch": 0},
    ]
    assert esp("list").splitlines()[0].split() == ["SINK", "TOPIC", "PARTITIONS", "BATCH"]
    shown = json.loads(esp("show", "flights", "--topic", flights, "--json"))
    assert shown == [
        {"topic": flights, "partition": 0, "batch": 0, "rows": 3, "partitions": 2},
        {"topic": flights, "partition": 1, "batch": 1, "rows": 6, "partitions": 2},
    ]
    assert esp("show", "flights").splitlines()[1].split() == [flights, "0", "0", "3", "2"]

    assert f"{flights}-1" in esp("reset", "flights", "--topic", flights)
    assert committed_offset(bootstrap, flights, 1, "flights") == 2
    esp("reset", "flights", "--topic", flights, "--execute")
    assert committed_offset(bootstrap, flights, 1, "flights") is None
    assert committed_offset(bootstrap, other, 0, "flights") == 1
    esp("reset", "flights", "--execute")
    assert json.loads(esp("list", "--json")) == []


@pytest.mark.parametrize("arguments", [("show", "nobody"), ("reset", "nobody", "--execute")])
def test_a_sink_that_has_written_nothing_is_told(esp: Esp, arguments: tuple[str, ...]) -> None:
    assert "sink nobody has written nothing" in esp(*arguments, status=1)
