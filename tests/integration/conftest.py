"""What the tests against a running node share: topics of their own."""

import gc
import re
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

from esp.testing.node_process import NodeProcess

MakeTopic = Callable[..., str]
"""``make_topic(name=None, partitions=1, **settings)`` creates a topic, named after the test if no name is given, and returns its name."""

UNCLOSED_SOCKET = r"unclosed <(socket|ssl\.SSLSocket)|unclosed transport <|Unclosed AIOKafkaConnection"
"""kafka-python and aiokafka now and then leave one to the collector, of a connection that ended while something was under way."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Do not blame the test in which such a socket is found."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(f"ignore:({UNCLOSED_SOCKET}):ResourceWarning"))


@pytest.fixture(autouse=True, scope="module")
def _leave_no_sockets() -> Iterator[None]:
    """Let such sockets go before tests follow that have no part in them."""
    yield
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", UNCLOSED_SOCKET, ResourceWarning)
        gc.collect()


def eventually(claim: Callable[[], bool], timeout_s: float = 10, tell: Callable[[], str] | None = None) -> None:
    """Wait until the claim is true, which a node may first have to learn from its controller; the error of one that stays false ends with
    the text of ``tell``.
    """
    deadline = time.monotonic() + timeout_s
    while not claim():
        assert time.monotonic() < deadline, f"not true within {timeout_s} s" + (f": {tell()}" if tell else "")
        time.sleep(0.02)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name for the test's own topic, which does not exist yet."""
    return re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)[:200]


@pytest.fixture(scope="module")
def admin(node: NodeProcess) -> Iterator[KafkaAdminClient]:
    """kafka-python's admin client of the shared node."""
    client = KafkaAdminClient(bootstrap_servers=node.bootstrap)
    yield client
    client.close()


@pytest.fixture
def make_topic(admin: KafkaAdminClient, topic: str) -> MakeTopic:
    """Create topics on the shared node."""

    def make(name: str | None = None, partitions: int = 1, **settings: object) -> str:
        name = name or topic
        configs = {key.replace("_", "."): str(value) for key, value in settings.items()}
        admin.create_topics({name: {"num_partitions": partitions, "configs": configs}}, wait_for_metadata=True)
        return name

    return make
