"""The positions of groups, asked of all coordinators that may know some: a leader does it right before retention takes something (HOLD-4).

First the node catches up with the metadata log. So the epochs that it names are those of all coordinators that have answered a commit
before it asked, and what a coordinator of that epoch knows includes the commit. An asker that is cut off finds no leader of the quorum, and
hears nothing.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from esp.broker.connections.peer import PeerUnavailableError
from esp.broker.following import until_follows
from esp.broker.holds.coordinators_here import find_positions_here
from esp.broker.services import Services
from esp.groups.held_positions import HeldPosition
from esp.groups.partitioning import partition_for
from esp.model.errors import ApiError
from esp.model.ids import OFFSETS_TOPIC, NodeId, TopicPartition
from esp.protocol.held_positions import CoordinatorData, HeldTopicData, ListGroupsRequest, ListGroupsResponse
from esp.protocol.registry import ApiKey
from esp.replication.log_holds import is_pattern

log = logging.getLogger(__name__)

ASK_TIMEOUT_MS: Final = 5_000
"""Retention can wait, and comes again; a node that has vanished must not hold up the other logs for long."""

Wanted = Mapping[TopicPartition, tuple[str, ...]]
Heard = dict[TopicPartition, dict[str, int] | None]
"""By partition the offsets of its groups; None where not all coordinators have told that may know one."""


class PositionQuestions:
    """Asks for a node; implements :class:`esp.broker.replication.retention_holds.Questions`.

    Args:
        services: the node's parts.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    async def ask(self, wanted: Wanted) -> Heard:
        """Return what the coordinators know.

        Args:
            wanted: by partition the groups that hold it, names and patterns.
        """
        try:
            await until_follows(self._services)
        except ApiError as error:
            log.info("coordinators are not asked what is read: %s", error)
            return dict.fromkeys(wanted)
        topic = self._services.metadata.image.topics_by_name.get(OFFSETS_TOPIC)
        numbers = range(0 if topic is None else len(topic.partitions))
        needed = {partition: _coordinators_of(names, len(numbers)) for partition, names in wanted.items()}
        by_node: dict[NodeId, dict[int, int]] = {}
        if topic is not None:
            for number in sorted(frozenset().union(*needed.values())):
                state = topic.partitions[number]
                by_node.setdefault(state.leader, {})[number] = state.leader_epoch
        answers: dict[int, list[HeldPosition]] = {}
        for answer in await asyncio.gather(*(self._ask(node, wanted, epochs) for node, epochs in by_node.items())):
            answers |= answer
        heard: Heard = {
            partition: {} if answers.keys() >= coordinators else None for partition, coordinators in needed.items()
        }
        for positions in answers.values():
            for position in positions:
                of_groups = heard.get(position.partition)
                if of_groups is not None:
                    known = of_groups.get(position.group_id, position.offset)
                    of_groups[position.group_id] = min(known, position.offset)
        return heard

    async def _ask(
        self, node_id: NodeId, wanted: Wanted, epochs: Mapping[int, int]
    ) -> Mapping[int, list[HeldPosition]]:
        if node_id == self._services.node_id:
            return await find_positions_here(self._services, wanted, epochs)
        request = ListGroupsRequest(
            states_filter=(),
            types_filter=(),
            held_topics=tuple(_topics(wanted)),
            coordinators=tuple(CoordinatorData(partition=number, leader_epoch=epochs[number]) for number in epochs),
        )
        try:
            peer = self._services.peers.find(node_id)
            answer: ListGroupsResponse = await peer.call(ApiKey.LIST_GROUPS, request, timeout_ms=ASK_TIMEOUT_MS)
        except PeerUnavailableError as error:
            log.info("node %d does not tell what is read: %s", node_id, error)
            return {}
        return {
            told.partition: [
                HeldPosition(each.group_id, TopicPartition(each.topic, each.partition), each.offset)
                for each in told.positions
            ]
            for told in answer.coordinators or ()
        }


def _coordinators_of(names: Iterable[str], count: int) -> frozenset[int]:
    """The partitions of ``__consumer_offsets`` that the groups may belong to, of so many; none as long as there are none."""
    if any(map(is_pattern, names)):
        return frozenset(range(count))
    return frozenset(partition_for(name, count) for name in names) if count else frozenset()


def _topics(wanted: Wanted) -> Iterable[HeldTopicData]:
    alike: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for partition, names in wanted.items():
        alike.setdefault((partition.topic, names), []).append(partition.partition)
    for (name, groups), numbers in alike.items():
        yield HeldTopicData(name=name, groups=groups, partitions=tuple(numbers))
