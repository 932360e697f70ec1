"""Commits offsets of a group without members, deletes some of them or the whole group, and asks what is left (KIP-496, KIP-229).

One client does one thing after another, so it is known what each deletion must have taken: a deleted offset is told no more, unless it was
committed again. Faults come between a deletion and its answer (``before_deletion``).
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Final

from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.group_checker import Deletion, GroupChecker
from esp.simulation.workload import group_requests as requests
from esp.simulation.workload.connection import NoAnswerError, RefusedError
from esp.simulation.workload.group_client import LOOK_AGAIN, GroupClient
from esp.simulation.workload.group_requests import Identity
from esp.simulation.workload.history import History
from esp.simulation.workload.offsets_client import OffsetsClient

GROUP: Final = "deleted-now-and-then"

PAUSE_S: Final = (0.05, 1.0)
DELETION_SHARE: Final = 0.35
GROUP_SHARE: Final = 0.3
"""The share of the deletions that take the whole group."""

OFFSET_MAX: Final = 1000

_UNTOUCHED: Final = frozenset({ErrorCode.group_id_not_found, ErrorCode.non_empty_group})
"""Answers of a coordinator that has deleted nothing."""


class OffsetDeleter:
    """A client of a group of its own.

    Args:
        client: asks the coordinator.
        rng: its own stream of randomness.
        history: counts what was done.
        checker: sees what is sent and told.
        partitions: those of which it commits offsets.
    """

    def __init__(
        self,
        client: GroupClient,
        rng: Random,
        history: History,
        checker: GroupChecker,
        partitions: Sequence[TopicPartition],
    ) -> None:
        self.is_stopping = False
        self.before_deletion: Callable[[], None] = lambda: None
        """Called when a deletion is about to be sent."""
        self._client = client
        self._rng = rng
        self._history = history
        self._checker = checker
        self._partitions = tuple(partitions)
        self._offsets = OffsetsClient(client, checker)

    async def run(self) -> None:
        """Commit, delete and ask until told to stop."""
        while not self.is_stopping:
            try:
                await self._act()
            except NoAnswerError as error:
                self._history.on_no_answer(self._name, str(error))
            except RefusedError as error:
                self._history.on_refusal(self._name, error.code.name)
                if error.code in LOOK_AGAIN:
                    self._client.forget_coordinator()
            await asyncio.sleep(self._rng.uniform(*PAUSE_S))

    async def read_back(self) -> None:
        """Ask for all offsets, until there is an answer."""
        while True:
            try:
                await self._offsets.fetch(self._partitions)
            except NoAnswerError:
                await asyncio.sleep(PAUSE_S[1])
            else:
                return

    async def _act(self) -> None:
        """Do one thing, and after a deletion ask what is left.

        Raises:
            NoAnswerError, RefusedError: it may have been done or not.
        """
        rng = self._rng
        chosen = rng.sample(self._partitions, rng.randint(1, len(self._partitions)))
        if rng.random() >= DELETION_SHARE:
            await self._offsets.commit(
                Identity(self._client.group_id), {each: rng.randrange(OFFSET_MAX) for each in chosen}
            )
        elif rng.random() < GROUP_SHARE:
            await self._delete_group()
        else:
            await self._delete_offsets(chosen)
        await self._offsets.fetch(self._partitions)

    async def _delete_group(self) -> None:
        deletions = self._begin(self._partitions)
        request = requests.delete_group(self._client.group_id)
        reply = await self._client.call(ApiKey.DELETE_GROUPS, requests.DELETE_GROUPS_VERSION, request)
        self._end(reply.answer.results[0].error_code, deletions.values(), "groups deleted")

    async def _delete_offsets(self, chosen: Sequence[TopicPartition]) -> None:
        deletions = self._begin(chosen)
        request = requests.delete_offsets(self._client.group_id, chosen)
        reply = await self._client.call(ApiKey.OFFSET_DELETE, requests.OFFSET_DELETE_VERSION, request)
        if reply.answer.error_code is not ErrorCode.none:
            self._end(reply.answer.error_code, deletions.values(), "")
        for topic in reply.answer.topics:
            for part in topic.partitions:
                deletion = deletions[TopicPartition(topic.name, part.partition_index)]
                self._end(part.error_code, (deletion,), "offsets deleted")

    def _begin(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Deletion]:
        self.before_deletion()
        return self._checker.on_deletion_sent(self._client.group_id, partitions)

    def _end(self, code: ErrorCode, deletions: Iterable[Deletion], what: str) -> None:
        """Take an answer in. Raises RefusedError."""
        if code is ErrorCode.none:
            for deletion in deletions:
                self._checker.on_deleted(deletion)
            self._history.on_done(self._name, what, self._client.group_id)
            return
        if code in _UNTOUCHED:
            for deletion in deletions:
                deletion.is_refused = True
        raise RefusedError(code)

    @property
    def _name(self) -> str:
        return self._client.client.name
