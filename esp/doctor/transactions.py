"""Rules about transactions that stay open: readers of committed records wait at the first record of the oldest one."""

from collections.abc import Iterator
from typing import Final

from esp.doctor.rule import Hit, Rule, Severity, at_broker, at_partition, shell_word
from esp.doctor.snapshot import Snapshot
from esp.model.ids import NodeId

_SHOWN: Final = 3
_MS_PER_S: Final = 1000


def _hanging(snapshot: Snapshot) -> Iterator[Hit]:
    for each in snapshot.hanging:
        (topic, number), offset = each.transaction.partition, each.transaction.start_offset
        yield Hit(
            at_partition(each.transaction.partition),
            f"open from offset {offset} on, by producer {each.transaction.producer_id} with epoch {each.transaction.producer_epoch}, "
            f"whose last record is {each.idle_ms // _MS_PER_S} s old",
            f"`esp transactions abort --topic {topic} --partition {number} --start-offset {offset} --execute`",
        )


def _overdue(snapshot: Snapshot) -> Iterator[Hit]:
    for each in snapshot.overdue:
        known = each.transaction
        names = [str(name) for name in sorted(known.partitions)]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        yield Hit(
            at_broker(NodeId(known.coordinator)),
            f"{known.transactional_id} is in state {known.state}, {each.overdue_ms // _MS_PER_S} s past its timeout; "
            f"waiting: {', '.join(names[:_SHOWN]) or 'no partition'}{more}",
            f"see the log of that broker: it names the partition that takes no marker; "
            f"`esp transactions describe --transactional-id {shell_word(known.transactional_id)}`",
        )


RULES: Final = (
    Rule(
        "hanging-transaction",
        Severity.ERROR,
        "transactions that are open in a partition and that no coordinator will end",
        "Consumers that read committed records stop there for ever, and compaction does not go beyond.",
        "`esp transactions abort --topic TOPIC --partition NUMBER --start-offset OFFSET --execute`",
        _hanging,
    ),
    Rule(
        "transaction-overdue",
        Severity.ERROR,
        "transactions that their coordinator does not end in time",
        "Consumers that read committed records stop at them, and their producers cannot begin another one.",
        "see the log of the coordinator: it names the partition that takes no marker",
        _overdue,
    ),
)
"""The rules in the order in which findings of one severity are shown."""
