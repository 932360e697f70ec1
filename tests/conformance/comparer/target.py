"""One of the two brokers: answers a request of any API and version in plain values."""

import uuid
from collections.abc import Mapping
from typing import Any, Final

from esp.protocol.registry import SERVED, ApiKey
from esp.testing.node_process import NodeProcess
from tests.conformance.comparer.messages import Plain, plain, request_of
from tests.integration.wire import Wire

CLOSED: Final = "the connection was closed"
NO_ANSWER: Final = "no answer"
TIMEOUT_S: Final = 30
"""For a JVM that has just started, on a machine that is busy."""


class Target:
    """A running broker.

    Args:
        name: what it is called in reports.
        node: the running node.
    """

    def __init__(self, name: str, node: NodeProcess) -> None:
        self.name = name
        self.node = node
        self._wire: Wire | None = None
        self._topic_ids: dict[str, uuid.UUID] = {}

    def ask(self, key: ApiKey, version: int, content: Mapping[str, Any]) -> Plain:
        """The answer, or in its place CLOSED or NO_ANSWER."""
        if self._wire is None:
            self._wire = Wire(self.node, TIMEOUT_S)
        try:
            answer = plain(self._wire.call(request_of(SERVED[key], version, content)))
        except (EOFError, ConnectionError):
            self.close()
            return CLOSED
        except TimeoutError:
            self.close()
            return NO_ANSWER
        return answer

    def topic_id(self, name: str) -> uuid.UUID:
        """The id of a topic that is there."""
        if name not in self._topic_ids:
            (topic,) = self.ask(ApiKey.METADATA, 12, {"topics": [{"name": name, "topic_id": None}]})["topics"]
            assert topic["topic_id"] is not None, f"{self.name} has no topic {name}"
            self._topic_ids[name] = topic["topic_id"]
        return self._topic_ids[name]

    def texts_to_mask(self) -> dict[str, str]:
        """What stands in texts of this broker only, and what is shown in its place."""
        return {
            str(self.node.data_dir): "<directory>",
            f":{self.node.port}": ":<port>",
        }

    def close(self) -> None:
        """End the connection; the next request makes another."""
        if self._wire is not None:
            self._wire.socket.close()
            self._wire = None
