"""Reads the letters of a dead-letter queue once, over any number of runs: the place where the next run begins is committed for a group.

A run that commits is the one member of that group while it lasts. The coordinator so keeps two runs apart: the second one is refused, and a
run that was silent for too long can commit nothing more.
"""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from esp.cli.kafka.answers import ConsumedRecord, PartitionId, RefusedError
from esp.cli.kafka.client import connect, told_to_the_operator
from esp.cli.kafka.consumer import consumed
from esp.cli.kafka.groups import GroupsAdmin
from esp.cli.kafka.library import KafkaConsumer, OffsetAndMetadata, TopicPartition
from esp.cli.kafka.subscription import subscribe
from esp.model.errors import ErrorCode, OperatorError

_POLL_MS: Final = 500
_SESSION_MS: Final = 10_000
"""The time after which the coordinator forgets a run that was killed."""
_JOIN_S: Final = 30
"""The longest wait for the partitions: the coordinator lets the first member of a group wait for others, 3 s by default."""


class LetterReader:
    """Reads a queue from the committed offsets to the ends that it has at the start. A context manager.

    Args:
        servers: bootstrap servers.
        queue: the topic.
        group: the group whose offsets are the progress.
        commits: whether the progress is committed; without it, nothing keeps other runs away.

    Raises:
        OperatorError: in every method: no broker answers, there is no such topic, or another run is under way.
    """

    def __init__(self, servers: str, queue: str, group: str, *, commits: bool) -> None:
        self._servers = servers
        self._queue = queue
        self._group = group
        self._commits = commits
        self._client: Any = None
        self._ends: dict[PartitionId, int] = {}
        self._next: dict[PartitionId, int] = {}

    def __enter__(self) -> Self:
        if self._commits:
            self._wait_until_alone()
        self._client = connect(
            KafkaConsumer,
            self._servers,
            group_id=self._group,
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            session_timeout_ms=_SESSION_MS,
        )
        try:
            self._begin()
        except BaseException:
            self._client.close()
            raise
        return self

    def _wait_until_alone(self) -> None:
        """Wait for a run that was killed to be forgotten."""
        deadline = time.monotonic() + _SESSION_MS / 1_000 + 2
        while members := self._members():
            if time.monotonic() > deadline:
                raise self._another(", ".join(members))
            time.sleep(0.5)

    def _members(self) -> list[str]:
        """The hosts of the group's members."""
        with GroupsAdmin(self._servers) as admin:
            try:
                return [member.host for member in admin.describe(self._group).members]
            except RefusedError as error:
                if error.code is not ErrorCode.group_id_not_found:
                    raise
                return []

    def _another(self, where: str) -> OperatorError:
        return OperatorError(
            f"another run redrives for the group {self._group} ({where})",
            "Wait until it has ended, or see the group: esp groups describe --members --group " + self._group,
        )

    def _begin(self) -> None:
        """Find out where to begin and to end."""
        with told_to_the_operator(self._servers):
            numbers = self._client.partitions_for_topic(self._queue)
            if not numbers:
                raise OperatorError(f"there is no topic {self._queue}", "See the topics: esp topics --list")
            chosen = [TopicPartition(self._queue, number) for number in sorted(numbers)]
            if self._commits:
                self._join(chosen)
            else:
                self._client.assign(chosen)
            first, ends = self._client.beginning_offsets(chosen), self._client.end_offsets(chosen)
            for each in chosen:
                committed = self._client.committed(each)
                start = min(ends[each], max(first[each], first[each] if committed is None else committed))
                self._client.seek(each, start)
                name = PartitionId(each.topic, each.partition)
                self._next[name], self._ends[name] = start, ends[each]

    def _join(self, chosen: Sequence[Any]) -> None:
        """Become the one member of the group."""
        subscribe(self._client, self._queue)
        deadline = time.monotonic() + _JOIN_S
        while not self._client.assignment() and time.monotonic() < deadline:
            # Records that come by this are read again: the place to begin is sought after it.
            self._client.poll(_POLL_MS)
        self._require_all(len(chosen))

    def _require_all(self, count: int) -> None:
        if self._commits and len(self._client.assignment()) < count:
            raise self._another("it began at the same time")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    @property
    def left(self) -> int:
        """The offsets that are still to be read."""
        return sum(self._ends[each] - self._next[each] for each in self._ends)

    def poll(self) -> list[ConsumedRecord]:
        """Return the next letters; none if there were none for a moment, or all are read."""
        if not self.left:
            return []
        with told_to_the_operator(self._servers):
            fetched = self._client.poll(_POLL_MS)
            self._require_all(len(self._ends))
            letters = [consumed(record) for records in fetched.values() for record in records]
            for name in self._next:  # the position passes offsets without records too
                self._next[name] = min(self._ends[name], self._client.position(TopicPartition(*name)))
        return [each for each in letters if each.offset < self._ends[PartitionId(each.topic, each.partition)]]

    def give_back(self, letters: Sequence[ConsumedRecord]) -> None:
        """Count letters that were returned as still to be read; they are the last ones that were returned of their partitions."""
        for each in letters:
            name = PartitionId(each.topic, each.partition)
            if each.offset < self._next[name]:
                self._next[name] = each.offset
                self._client.seek(TopicPartition(*name), each.offset)

    def commit(self, next_offsets: Mapping[PartitionId, int]) -> None:
        """The next run begins here."""
        offsets = {TopicPartition(*each): OffsetAndMetadata(offset, "", -1) for each, offset in next_offsets.items()}
        if offsets:
            with told_to_the_operator(self._servers):
                self._client.commit(offsets)
