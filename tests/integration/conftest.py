"""What the tests against a running node share: topics of their own."""

import re
import time
from collections.abc import Callable, Iterator

import pytest
from kafka.admin import KafkaAdminClient

from esp.testing.node_process import NodeProcess

MakeTopic = Callable[..., str]
"""``make_topic(name=None, partitions=1, **settings)`` creates a topic, named after the test if no name is given, and returns its name."""


def eventually(claim: Callable[[], bool], timeout_s: float = 10) -> None:
    """Wait until the claim is true, which a node may first have to learn from its controller."""
    deadline = time.monotonic() + timeout_s
    while not claim():
        assert time.monotonic() < deadline, f"not true within {timeout_s} s"
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
