"""Transaction coordinators that answer as a test tells them; they know nothing of transactions themselves."""

import asyncio

from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

from esp.broker.answer_fields import NO_THROTTLE
from esp.model.errors import ErrorCode
from esp.transactions.responses import PartitionsResult


class PlayedCoordinators:
    """Yes to every question, unless told otherwise; no answer while ``gate`` is closed."""

    def __init__(self):
        self.node_id = 0
        """The node that asks; none of the coordinators is there."""
        self.asked = []
        """The node and the request of each question."""
        self.asked_here = []
        """The questions to this node: producer, partitions, and whether these are added."""
        self.unanswered = []
        """The answers to questions to this node, where ``gate`` is closed: :meth:`answer_here` gives the first."""
        self.says = {}
        """Errors by transactional id and partition."""
        self.fails = None
        """An exception in place of an answer."""
        self.top_error = ErrorCode.none
        self.gate = asyncio.Event()
        self.gate.set()
        self.nodes = {}
        """The coordinators of transactional ids; 1 where none is named."""
        self.on_question = lambda: None

    def find(self, transactional_id):
        return self.nodes.get(transactional_id, 1)

    def say(self, code, partition=0, name="x"):
        self.says[name, partition] = code

    async def call(self, node, request):
        self.asked.append((node, request))
        self.on_question()
        await self.gate.wait()
        if self.fails is not None:
            raise self.fails
        return AddPartitionsToTxnResponse(
            throttle_time=NO_THROTTLE,
            error_code=self.top_error,
            results_by_transaction=() if self.top_error else tuple(map(self._result, request.transactions)),
        )

    def ask_here(self, producer, partitions, *, adds):
        self.asked_here.append((producer, partitions, adds))
        future = asyncio.get_running_loop().create_future()
        name = producer.transactional_id
        errors = {each: self.says.get((name, each.partition), ErrorCode.none) for each in partitions}
        self.unanswered.append((future, PartitionsResult(ErrorCode.none, errors)))
        if self.gate.is_set():
            self.answer_here()
        return future

    def answer_here(self):
        future, result = self.unanswered.pop(0)
        future.set_result(result)

    def _result(self, transaction):
        name = transaction.transactional_id
        return AddPartitionsToTxnResult(
            transactional_id=name,
            topic_results=tuple(
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=tuple(
                        AddPartitionsToTxnPartitionResult(
                            partition_index=partition,
                            partition_error_code=self.says.get((name, partition), ErrorCode.none),
                        )
                        for partition in topic.partitions
                    ),
                )
                for topic in transaction.topics
            ),
        )
