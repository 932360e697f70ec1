"""Looks at the nodes of a cluster: the metadata quorum, and the log directories of brokers."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from esp.cli.kafka.answers import LogDirInfo, QuorumInfo, log_dir_info
from esp.cli.kafka.client import AdminConnection, ask_for_quorum, check_code
from esp.cli.kafka.library import DescribeLogDirsRequest


class ClusterAdmin(AdminConnection):
    """The nodes of a cluster; see :class:`~esp.cli.kafka.client.AdminConnection`."""

    def quorum(self) -> QuorumInfo:
        """Return the metadata quorum as its leader sees it."""
        found: QuorumInfo = self._ask(ask_for_quorum)
        return found

    def log_dirs(self, brokers: Sequence[int]) -> list[LogDirInfo]:
        """Return the log directories of the brokers with all that is in them, sorted."""

        return sorted(directory for broker in brokers for directory in self._ask(partial(_log_dirs, broker)))


def _log_dirs(broker: int, client: Any) -> list[LogDirInfo]:
    told = client.send(DescribeLogDirsRequest(topics=None), broker).to_dict()
    check_code(told.get("error_code", 0))
    return [log_dir_info(broker, directory) for directory in told["results"]]
