"""A partition before a request and after it: the records that the request has added, and the state that it has left of a producer."""

from collections.abc import Sequence
from typing import Any

from esp.protocol.registry import ApiKey
from tests.conformance.comparer.messages import Plain
from tests.conformance.comparer.setup import WRITTEN
from tests.conformance.comparer.target import Target
from tests.conformance.comparer.transactions.application import Application

_KEY = ApiKey


class Partition:
    """A partition as it was when this object was made.

    Args:
        target: the broker.
        topic: its topic.
        number: its number.
    """

    def __init__(self, target: Target, topic: str = WRITTEN, number: int = 0) -> None:
        self._target = target
        self._topic = topic
        self._number = number
        self.end_offset = self._read_end_offset()

    def _read_end_offset(self) -> int:
        asked = [{"partition_index": self._number, "timestamp": -1}]
        content = {"replica_id": -1, "topics": [{"name": self._topic, "partitions": asked}]}
        (topic,) = self._target.ask(_KEY.LIST_OFFSETS, 2, content)["topics"]
        return int(topic["partitions"][0]["offset"])

    def outcome(self, application: Application) -> dict[str, Any]:
        """The number of records that were added, and the state of the application's producer; offsets are counted from the old end."""
        return {"added": self._read_end_offset() - self.end_offset, "producer": self._producer(application)}

    def _producer(self, application: Application) -> dict[str, Any] | None:
        content = {"topics": [{"name": self._topic, "partition_indexes": [self._number]}]}
        (topic,) = self._target.ask(_KEY.DESCRIBE_PRODUCERS, 0, content)["topics"]
        for producer in topic["partitions"][0]["active_producers"]:
            if producer["producer_id"] == application.producer_id:
                first = producer["current_txn_start_offset"]
                return {
                    "epoch": producer["producer_epoch"],
                    "last_sequence": producer["last_sequence"],
                    "coordinator_epoch": producer["coordinator_epoch"],
                    "transaction_begins_at": None if first < 0 else first - self.end_offset,
                }
        return None


def relative(answer: Plain, partitions: Sequence[Partition]) -> Plain:
    """A Produce answer with offsets that are counted from the old ends of its partitions, by their numbers."""
    if isinstance(answer, list):
        return [relative(each, partitions) for each in answer]
    if not isinstance(answer, dict):
        return answer
    counted = {name: relative(value, partitions) for name, value in answer.items()}
    if counted.get("base_offset", -1) >= 0:
        counted["base_offset"] -= partitions[answer["index"]].end_offset
    return counted
