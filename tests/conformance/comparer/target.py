"""One of the two brokers: answers a request of any API and version in plain values."""

import uuid
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from esp.protocol.messages import decode_response
from esp.protocol.registry import SERVED, ApiKey, ListenerKind
from esp.testing.node_process import NodeProcess
from tests.conformance.comparer.messages import Plain, plain, request_of
from tests.integration.wire import Wire, frame

CLOSED: Final = "the connection was closed"
NO_ANSWER: Final = "no answer"
ADMIN: Final = "admin"
ADMIN_PASSWORD: Final = "admin-secret"
_WITH_NO_TIME: Final = (
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
)
"""The APIs whose answers may have the time -1, which kio's reader refuses."""
TIMEOUT_S: Final = 30
"""For a JVM that has just started, on a machine that is busy."""


class Target:
    """A running broker.

    Args:
        name: what it is called in reports.
        node: the running node, broker and controller.
        controller_port: of its controller listener.
        admin_port: of the listener at which an administrator logs in, where there are rules of access.
    """

    def __init__(self, name: str, node: NodeProcess, controller_port: int, admin_port: int | None = None) -> None:
        self.name = name
        self.node = node
        self._controller_port = controller_port
        self._admin_port = admin_port
        self._admin: Wire | None = None
        self._wires: dict[ListenerKind, Wire] = {}
        self._topic_ids: dict[str, uuid.UUID] = {}

    def ask(
        self, key: ApiKey, version: int, content: Mapping[str, Any], listener: ListenerKind = ListenerKind.BROKER
    ) -> Plain:
        """The answer, or in its place CLOSED or NO_ANSWER."""
        if listener not in self._wires:
            port = self._controller_port if listener is ListenerKind.CONTROLLER else None
            self._wires[listener] = Wire(self.node, TIMEOUT_S, port=port)
        try:
            request = request_of(SERVED[key], version, content)
            wire = self._wires[listener]
            answer = plain(_call(wire, key, request) if key in _WITH_NO_TIME else wire.call(request))
        except (EOFError, ConnectionError):
            self.close()
            return CLOSED
        except TimeoutError:
            self.close()
            return NO_ANSWER
        return answer

    def ask_as_admin(self, key: ApiKey, version: int, content: Mapping[str, Any]) -> Plain:
        """The answer to a client that may do everything: where there are rules of access, the administrator."""
        if self._admin_port is None:
            return self.ask(key, version, content)
        if self._admin is None:
            self._admin = Wire(self.node, TIMEOUT_S, port=self._admin_port)
            self._admin.log_in(ADMIN, ADMIN_PASSWORD)
        return plain(self._admin.call(request_of(SERVED[key], version, content)))

    def topic_id(self, name: str) -> uuid.UUID:
        """The id of a topic that is there."""
        if name not in self._topic_ids:
            (topic,) = self.ask_as_admin(ApiKey.METADATA, 12, {"topics": [{"name": name, "topic_id": None}]})["topics"]
            assert topic["topic_id"] is not None, f"{self.name} has no topic {name}"
            self._topic_ids[name] = topic["topic_id"]
        return self._topic_ids[name]

    def epoch_in_share_group(self, group_id: str) -> int:
        """The epoch of the member of a share group that has one; 0 when it has left."""
        (group,) = self.ask_as_admin(ApiKey.SHARE_GROUP_DESCRIBE, 1, {"group_ids": [group_id]})["groups"]
        return int(group["members"][0]["member_epoch"]) if group["members"] else 0

    def texts_to_mask(self) -> dict[str, str]:
        """What stands in texts of this broker only, and what is shown in its place."""
        return {
            str(self.node.data_dir): "<directory>",
            f":{self.node.port}": ":<port>",
            f":{self._controller_port}": ":<controller port>",
        }

    @cached_property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return str(self.ask_as_admin(ApiKey.DESCRIBE_CLUSTER, 1, {"endpoint_type": 1})["cluster_id"])

    @cached_property
    def quorum(self) -> Mapping[str, Any]:
        """What DescribeQuorum says of the metadata log."""
        asked = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        answer: Plain = self.ask_as_admin(ApiKey.DESCRIBE_QUORUM, 2, {"topics": asked})
        return answer["topics"][0]["partitions"][0]

    def close(self) -> None:
        """End the connections; the next request makes another."""
        for wire in self._wires.values():
            wire.socket.close()
        self._wires.clear()
        if self._admin is not None:
            self._admin.socket.close()
            self._admin = None


def _call(wire: Wire, key: ApiKey, request: Any) -> Any:
    """The answer by the node's own reader."""
    wire.socket.sendall(frame(request, 1))
    version = request.__version__
    tag_bytes = 1 if SERVED[key].is_flexible(version) else 0
    return decode_response(key, version, wire.read().rest[tag_bytes:])
