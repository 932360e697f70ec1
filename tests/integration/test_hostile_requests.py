"""Every way to spoil a request of every served API and version, sent to a running node: an answer or a closed connection, nothing else."""

from collections.abc import Iterable

import pytest
from kio.index import load_request_schema

from esp.protocol.registry import SERVED, ServedApi
from esp.testing.node_process import NodeProcess
from tests.integration import messages
from tests.integration.wire import Wire, frame
from tests.unit.protocol.hostile import Mutant, example, requests

PING_ID = 77


def send_all(node: NodeProcess, mutants: Iterable[Mutant]) -> int:
    """Send mutants, each with a good request behind it; return how many ended their connection."""
    closed = 0
    wire = Wire(node)
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
                wire = Wire(node)
            except TimeoutError:
                pytest.fail(f"neither an answer nor an end: {mutant.what}")
    finally:
        wire.socket.close()
    return closed


@pytest.mark.parametrize("api", SERVED.values(), ids=lambda api: api.name)
def test_spoilt_requests_are_answered_or_end_their_connection(node: NodeProcess, api: ServedApi) -> None:
    before = node.rss_bytes()
    with Wire(node) as bystander:
        closed = 0
        for version in range(api.min_version, api.max_version + 1):
            closed += send_all(node, requests(example(load_request_schema(api.key, version))))
            assert bystander.call(messages.metadata()).cluster_id
        assert closed
    assert node.rss_bytes() - before < 50_000_000
