"""Holds that an administrator breaks, by DeleteRecords or DeleteTopics, and the offsets that groups lose so (HOLD-7).

It is asked before the deletion. With a topic the offsets of groups go, and with records the start offsets of share groups move. An
administrator does not wait for long: where coordinators or leaders do not answer in time, it is said that they did not.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from esp.broker.groups.log_ends import find_log_ends, find_log_starts
from esp.broker.services import Services
from esp.broker.waiting import time_limit
from esp.model.ids import TopicPartition
from esp.model.retention_hold import BrokenHold
from esp.model.shown_names import in_line
from esp.replication.log_holds import GroupHold
from esp.settings.topic_overrides import read_hold_groups

log = logging.getLogger(__name__)

ASK_TIMEOUT_MS: Final = 2_000
"""Coordinators and leaders that live answer within some milliseconds."""


class HeldLog(NamedTuple):
    """The offsets of a partition that has readers to wait for, as they were before a deletion."""

    groups: tuple[GroupHold, ...]
    start_offset: int | None
    """None: its leader has not said."""
    end_offset: int | None


HeldLogs = Mapping[TopicPartition, HeldLog]


async def find_held_logs(services: Services, partitions: Iterable[TopicPartition], timeout_ms: int) -> HeldLogs:
    """Ask how far groups have read those among the partitions that they hold; of others nothing is asked.

    Args:
        services: the node's parts.
        partitions: that are to lose records.
        timeout_ms: the client's patience, of which no more than ``ASK_TIMEOUT_MS`` is used.
    """
    wanted = {}
    for partition in partitions:
        names = _hold_groups(services, partition)
        if names:
            wanted[partition] = names
    if not wanted:
        return {}
    try:
        async with time_limit(services.env.clock, min(timeout_ms, ASK_TIMEOUT_MS)):
            starts, ends, positions = await asyncio.gather(
                find_log_starts(services, wanted), find_log_ends(services, wanted), services.holds.ask(wanted)
            )
    except TimeoutError:
        starts, ends, positions = {}, {}, dict.fromkeys(wanted)
    return {
        partition: HeldLog(
            services.holds.find_groups(
                services.replicas.find(*partition), names, positions[partition], ends.get(partition)
            ),
            starts.get(partition),
            ends.get(partition),
        )
        for partition, names in wanted.items()
    }


def tell_broken_holds(
    services: Services, held_logs: HeldLogs, below: Mapping[TopicPartition, int | None], by: str
) -> None:
    """Say of each group what it has lost, in the log and in the counts.

    Args:
        services: the node's parts.
        held_logs: as they were found before.
        below: by partition the offset below which the records are gone, None where all of them are; of others nothing was deleted.
        by: the deletion's name.
    """
    for partition, held in held_logs.items():
        if partition not in below or not held.groups:
            continue
        limit = below[partition]
        end_offset = held.end_offset if limit is None else limit
        if held.start_offset is None or end_offset is None:
            log.warning(
                "%s: groups %s hold its records, which are deleted by %s; it is not known what they had not read",
                partition,
                ", ".join(in_line(group.group_id) for group in held.groups),
                by,
            )
        elif held.start_offset < end_offset:
            services.holds.on_broken(partition, held.groups, [BrokenHold(by, held.start_offset, end_offset)])


def _hold_groups(services: Services, partition: TopicPartition) -> tuple[str, ...]:
    topic = services.metadata.image.topics_by_name.get(partition.topic)
    if topic is None or not 0 <= partition.partition < len(topic.partitions):
        return ()
    return read_hold_groups(topic.configs)
