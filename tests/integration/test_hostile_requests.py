"""Every way to spoil a request of every served API and version, sent to a running node: an answer or a closed connection, nothing else.

Clients' listener and controllers' listener each get what they serve.
"""

from collections.abc import Iterable, Mapping

import pytest
from kio.index import load_request_schema
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData

from esp.protocol.registry import SERVED_ON, ListenerKind, ServedApi
from esp.testing.node_process import NodeProcess
from tests.integration import messages
from tests.integration.wire import Wire, frame
from tests.unit.protocol.hostile import Mutant, example, requests

PING_ID = 77


@pytest.fixture(scope="module")
def ports(node: NodeProcess) -> Mapping[ListenerKind, int]:
    """Where the node listens; its controller listener it names as a voter of the quorum."""
    topic = TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(partition_index=0),))
    with Wire(node) as wire:
        (voter,) = wire.call(DescribeQuorumRequest(topics=(topic,))).nodes
    return {ListenerKind.BROKER: node.port, ListenerKind.CONTROLLER: voter.listeners[0].port}


def send_all(node: NodeProcess, port: int, mutants: Iterable[Mutant]) -> int:
    """Send mutants, each with a good request behind it; return how many ended their connection."""
    closed = 0
    wire = Wire(node, port=port)
    try:
        for mutant in mutants:
            try:
                wire.socket.sendall(mutant.data + frame(messages.api_versions(), PING_ID))
                while wire.read().correlation_id != PING_ID:
                    pass
            except (EOFError, ConnectionError):
                assert not mutant.is_valid, f"closed the connection: {mutant.what}"
                closed += 1
                wire.socket.close()
                wire = Wire(node, port=port)
            except TimeoutError:
                pytest.fail(f"neither an answer nor an end: {mutant.what}")
    finally:
        wire.socket.close()
    return closed


@pytest.mark.parametrize(
    ("kind", "api"),
    [(kind, api) for kind in ListenerKind for api in SERVED_ON[kind].values()],
    ids=lambda value: value.value if isinstance(value, ListenerKind) else value.name,
)
def test_spoilt_requests_are_answered_or_end_their_connection(
    node: NodeProcess, ports: Mapping[ListenerKind, int], kind: ListenerKind, api: ServedApi
) -> None:
    before = node.rss_bytes()
    with Wire(node) as bystander:
        closed = 0
        for version in range(api.min_version, api.max_version + 1):
            closed += send_all(node, ports[kind], requests(example(load_request_schema(api.key, version))))
            assert bystander.call(messages.metadata()).cluster_id
        assert closed
    assert node.rss_bytes() - before < 50_000_000


@pytest.mark.parametrize("kind", ListenerKind)
def test_an_api_that_the_other_kind_of_listener_serves_ends_the_connection(
    node: NodeProcess, ports: Mapping[ListenerKind, int], kind: ListenerKind
) -> None:
    for other in ListenerKind:
        for api in SERVED_ON[other].values():
            if kind not in api.listeners:
                with Wire(node, port=ports[kind]) as wire:
                    wire.socket.sendall(frame(example(load_request_schema(api.key, api.max_version)), 1))
                    assert wire.is_closed_by_node(), api.name
