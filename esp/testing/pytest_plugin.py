"""Fixtures for tests against a running node; ``pytest_plugins = ["esp.testing.pytest_plugin"]`` in a conftest brings them.

* ``node``: one node with defaults, shared by the tests of a module.
* ``fresh_node``: makes nodes of a test's own, with settings of its choice.
* ``kafka_tools``: Kafka's command-line tools.

``ESP_TEST_AGAINST=kafka`` in the environment makes the nodes real Kafka: so tests are proven. ``ESP_REQUIRE_ALL=1`` turns the
skip of a test that cannot run on this machine into a failure.
"""

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Final, NoReturn

import pytest

from esp.testing.kafka_tools import KafkaTools, ToolsMissingError
from esp.testing.node import Node
from esp.testing.node_process import NodeProcess
from esp.testing.real_kafka import RealKafka

AGAINST_KAFKA: Final = os.environ.get("ESP_TEST_AGAINST") == "kafka"
REQUIRE_ALL: Final = os.environ.get("ESP_REQUIRE_ALL") == "1"

NodeFactory = Callable[..., NodeProcess]
"""``factory(settings=None, name="node", start=True)`` makes a node in the test's own directory."""

_nodes_of_tests: Final[list[NodeProcess]] = []
"""The nodes that live now, whose output is shown beside a failure."""


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test because this machine lacks something; fail it where everything is to be tested."""
    if REQUIRE_ALL:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def kafka_tools() -> KafkaTools:
    """Kafka's command-line tools."""
    try:
        return KafkaTools.find()
    except ToolsMissingError as error:
        skip_or_fail(str(error))


def _make_node(request: pytest.FixtureRequest, data_dir: Path, settings: Mapping[str, str] | None) -> NodeProcess:
    made: NodeProcess = Node(data_dir, settings)
    if AGAINST_KAFKA:
        made = RealKafka(data_dir, settings, tools=request.getfixturevalue("kafka_tools"))
    _nodes_of_tests.append(made)
    return made


def _end(node: NodeProcess) -> None:
    _nodes_of_tests.remove(node)
    if node.is_running:
        node.kill()


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A running node with default settings, shared by the module's tests: give topics names of their own."""
    made = _make_node(request, tmp_path_factory.mktemp("node") / "data", None)
    try:
        made.start()
        yield made
        made.stop()
    finally:
        _end(made)


@pytest.fixture
def fresh_node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NodeFactory]:
    """Make nodes of the test's own: ``fresh_node(settings, name="node", start=True)``; they are killed after the test."""
    made: list[NodeProcess] = []

    def make(settings: Mapping[str, str] | None = None, *, name: str = "node", start: bool = True) -> NodeProcess:
        one = _make_node(request, tmp_path / name, settings)
        made.append(one)
        return one.start() if start else one

    yield make
    for one in made:
        _end(one)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the nodes had to say beside a failure."""
    report = yield
    if report.failed:
        report.sections += [(f"node on port {node.port}", node.output) for node in _nodes_of_tests]
    return report
