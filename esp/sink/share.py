"""The share of a partition in a batch, as the sink commits it beside the number of the next batch."""

import json
from typing import Final, NamedTuple

from esp.consumer.group_messages import Committed

GROUP_PREFIX: Final = "esp-sink."
"""The beginning of the names of the groups of sinks, and of their transactional ids."""


def group_of(sink: str) -> str:
    """The group in which a sink commits."""
    return GROUP_PREFIX + sink


def transactional_id_of(sink: str, topic: str, partition: int) -> str:
    """The transactional id that writes to a partition for a sink: the newest of its producers fences all others."""
    return f"{GROUP_PREFIX}{sink}.{topic}.{partition}"


NO_BATCH: Final = -1
"""The number of the batch in the share of a partition that has none yet."""


class Share(NamedTuple):
    """The rows of a batch that go to one partition.

    Attributes:
        batch: the number of the batch.
        rows: the number of the rows.
        keys: a hash of their keys that does not depend on their order.
        partitions: the number of partitions among which the rows of the batch were divided.
        partitions_next: the number for the batches after it; None: the same.
    """

    batch: int
    rows: int
    keys: int
    partitions: int
    partitions_next: int | None = None

    @property
    def division_next(self) -> int:
        """The number of partitions among which the rows of the next batch are divided."""
        return self.partitions if self.partitions_next is None else self.partitions_next

    def to_committed(self) -> Committed:
        """The offset that is committed with the rows: the next batch, and beside it the share."""
        told = {"batch": self.batch, "rows": self.rows, "keys": f"{self.keys:016x}", "partitions": self.partitions}
        if self.partitions_next is not None:
            told["next"] = self.partitions_next
        return Committed(self.batch + 1, json.dumps(told, separators=(",", ":")))


def read_share(committed: Committed) -> Share | None:
    """Return the share that was committed; None if another program committed."""
    try:
        told = json.loads(committed.metadata)
        share = Share(told["batch"], told["rows"], int(told["keys"], 16), told["partitions"], told.get("next"))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    is_whole = all(type(number) is int and number >= 0 for number in (*share[1:4], share.division_next))
    is_whole = is_whole and type(share.batch) is int and share.batch >= NO_BATCH
    return share if is_whole and committed.offset == share.batch + 1 else None
