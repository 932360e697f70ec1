"""Mutations that survive, each with the reason why nobody can notice it, or nobody need."""

from collections.abc import Mapping
from typing import Final

from tests.mutation.operators import WAIT

Key = tuple[str, str, str, str, str]
"""Path, function, operator, what stands there, and what replaces it (:attr:`tests.mutation.operators.Mutation.key`)."""


def _await_before(path: str, function: str, statement: str) -> Key:
    return path, function, "await between", statement, f"{WAIT}; {statement}"


EQUIVALENT: Final[Mapping[Key, str]] = {
    (
        "esp/broker/replication/session.py",
        "ReplicaSession._read_and_reply",
        "operand left out",
        "item.share is not None and item.share.reserved",
        "(item.share is not None)",
    ): "a partition that waits for the device was allowed bytes: if it has a share, these are reserved until the read settles it",
    _await_before(
        "esp/broker/replication/host.py",
        "ReplicaFiles.put_aside",
        "await self._env.cpu.run(directory.schedule_delete_blocking, former_logs, self._env.clock.wall_ms())",
    ): "the logs of a second directory wait for those of the first anyway: what may come between the look and their turn comes there",
    (
        "esp/storage/log_reader.py",
        "LogReader._hand_out",
        "branch never taken",
        "len(sound) == cut",
        "((len(sound) == cut) and False)",
    ): "a place that is not remembered is found by the index: the next read takes longer, and gives the same",
}
"""The reason of each."""
