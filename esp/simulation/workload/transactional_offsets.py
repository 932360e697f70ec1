"""The offsets of a group without members, each committed within a transaction, as an application does that consumes and produces, or beside
one, as an administrator does."""

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from typing import Final

from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.transaction_history import OutsideOffset, ToldOffset, TransactionHistory
from esp.simulation.nodes_tier.transaction_profile import TRANSACTIONAL_TOPIC
from esp.simulation.workload import group_requests, transaction_requests
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.group_client import LOOK_AGAIN, GroupClient
from esp.simulation.workload.group_dialects import CURRENT
from esp.simulation.workload.group_requests import Identity
from esp.transactions.requests import Producer

SOURCE: Final = TopicPartition(TRANSACTIONAL_TOPIC, 0)
"""The partition of which offsets are committed; it has to be there."""


class TransactionalOffsets:
    """Commits and asks for the offset of one application. Each transaction has a number of its own, which is the offset that it commits.

    Args:
        client: asks the group's coordinator.
        transactional_id: of the application.
        transactions: takes what was told.
        numbers: shared by all instances of the application.
    """

    def __init__(
        self, client: GroupClient, transactional_id: str, transactions: TransactionHistory, numbers: Iterator[int]
    ) -> None:
        self.client = client
        self._transactional_id = transactional_id
        self._transactions = transactions
        self._numbers = numbers

    @staticmethod
    def new_numbers() -> Iterator[int]:
        """The numbers of an application's transactions."""
        return itertools.count()

    def next_number(self) -> int:
        """The number of the next transaction."""
        return next(self._numbers)

    async def commit(self, version: int, producer: Producer, offset: int) -> ErrorCode:
        """Ask once that the offset is committed with the transaction; returns the answer.

        Args:
            version: of the transaction protocol.
            producer: of the transaction.
            offset: to be committed.

        Raises:
            NoAnswerError: there is none.
        """
        request = transaction_requests.commit_offset(
            version, self._transactional_id, self.client.group_id, producer, SOURCE, offset
        )
        reply = await self.client.call(
            ApiKey.TXN_OFFSET_COMMIT, transaction_requests.COMMIT_OFFSET_VERSIONS[version], request
        )
        code = ErrorCode(reply.answer.topics[0].partitions[0].error_code)
        if code in LOOK_AGAIN:
            self.client.forget_coordinator()
        return code

    async def commit_outside(self) -> None:
        """Commit the next number outside of the open transaction, as an administrator does that sets an offset; once."""
        loop = asyncio.get_running_loop()
        outside = OutsideOffset(self._transactional_id, self.next_number(), loop.time())
        self._transactions.offsets_outside.append(outside)
        request = group_requests.commit(
            Identity(self.client.group_id), {SOURCE: outside.offset}, f"{outside.offset}", CURRENT.commit
        )
        with contextlib.suppress(NoAnswerError):
            reply = await self.client.call(ApiKey.OFFSET_COMMIT, CURRENT.commit, request)
            code = ErrorCode(reply.answer.topics[0].partitions[0].error_code)
            if code is ErrorCode.none:
                outside.acked_s = loop.time()
            elif code in LOOK_AGAIN:
                self.client.forget_coordinator()

    async def ask(self) -> None:
        """Ask what is committed, once no transaction is open that has something to say about it.

        Raises:
            NoAnswerError: there is no answer, or one is open.
        """
        reply = await self.client.call(
            ApiKey.OFFSET_FETCH,
            CURRENT.fetch,
            group_requests.fetch_offsets(self.client.group_id, [SOURCE], CURRENT.fetch),
        )
        (group,) = reply.answer.groups
        code = ErrorCode(group.error_code)
        if code is ErrorCode.none:
            part = group.topics[0].partitions[0]
            code = ErrorCode(part.error_code)
        if code is not ErrorCode.none:
            if code is not ErrorCode.unstable_offset_commit:
                self.client.forget_coordinator()
            raise NoAnswerError(code.name)
        self._transactions.offsets_told.append(
            ToldOffset(self._transactional_id, int(part.committed_offset), reply.asked_s, reply.is_newest)
        )
