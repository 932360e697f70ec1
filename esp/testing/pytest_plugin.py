"""Fixtures for tests against a running node; ``pytest_plugins = ["esp.testing.pytest_plugin"]`` in a conftest brings them.

* ``node``: one node, shared by the tests of a module; with defaults, unless the module has a ``node_settings`` of its own.
* ``fresh_node``: makes nodes of a test's own, with settings of its choice.
* ``make_cluster``: makes clusters of a test's own.
* ``cluster``: three nodes, shared by the tests of a module, all of which leave it whole.
* ``kafka_tools``: Kafka's command-line tools.

``ESP_TEST_AGAINST=kafka`` in the environment makes the nodes real Kafka: so tests are proven. ``ESP_REQUIRE_ALL=1`` turns the
skip of a test that cannot run on this machine into a failure.
"""

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from esp.testing.class_archive import with_archive
from esp.testing.cluster import Cluster, MakeNode
from esp.testing.kafka_tools import KafkaTools, ToolsMissingError
from esp.testing.node import Node
from esp.testing.node_networks import NodeNetwork
from esp.testing.node_process import NodeProcess
from esp.testing.real_kafka import AGAINST_KAFKA, RealKafka

REQUIRE_ALL: Final = os.environ.get("ESP_REQUIRE_ALL") == "1"

__all__ = ["AGAINST_KAFKA", "REQUIRE_ALL", "ClusterFactory", "NodeFactory", "skip_or_fail"]

NodeFactory = Callable[..., NodeProcess]
ClusterFactory = Callable[..., Cluster]
"""``factory(settings=None, name="node", start=True)`` makes a node in the test's own directory."""

_nodes_of_tests: Final[list[NodeProcess | Cluster]] = []
"""The nodes and clusters that live now, whose output is shown beside a failure."""


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test because this machine lacks something; fail it where everything is to be tested."""
    if REQUIRE_ALL:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def kafka_tools() -> KafkaTools:
    """Kafka's command-line tools."""
    try:
        return with_archive(KafkaTools.find())
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
def node_settings() -> Mapping[str, str]:
    """The settings of :func:`node` that are not defaults: none, unless a module says otherwise."""
    return {}


@pytest.fixture(scope="module")
def node(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, node_settings: Mapping[str, str]
) -> Iterator[NodeProcess]:
    """A running node, shared by the module's tests: give topics names of their own."""
    made = _make_node(request, tmp_path_factory.mktemp("node") / "data", node_settings)
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


def _node_maker(request: pytest.FixtureRequest) -> MakeNode:
    if AGAINST_KAFKA:
        return partial(RealKafka, tools=request.getfixturevalue("kafka_tools"))
    return Node


@pytest.fixture
def make_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ClusterFactory]:
    """Make clusters of the test's own.

    ``make_cluster(nodes=3, settings=None, node_settings=None, network=None, start=True, **shape)``, where ``shape`` is what else
    :class:`esp.testing.cluster.Cluster` takes; they are killed after the test.
    """
    made: list[Cluster] = []

    def make(
        nodes: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        node_settings: Mapping[int, Mapping[str, str]] | None = None,
        network: NodeNetwork | None = None,
        start: bool = True,
        **shape: Any,
    ) -> Cluster:
        directory = tmp_path / f"cluster-{len(made) + 1}"
        directory.mkdir()
        one = Cluster(
            directory,
            nodes,
            settings,
            node_settings=node_settings,
            make_node=_node_maker(request),
            network=network,
            **shape,
        )
        made.append(one)
        _nodes_of_tests.append(one)
        return one.start() if start else one

    yield make
    for one in made:
        _nodes_of_tests.remove(one)
        one.close()


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three running nodes with the defaults of a cluster: give topics names of their own."""
    made = Cluster(tmp_path_factory.mktemp("cluster"), make_node=_node_maker(request))
    _nodes_of_tests.append(made)
    try:
        made.start()
        yield made
        made.stop()
    finally:
        _nodes_of_tests.remove(made)
        made.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the nodes had to say beside a failure."""
    report = yield
    if report.failed:
        report.sections += [(f"at {node.bootstrap}", node.output) for node in _nodes_of_tests]
    return report
