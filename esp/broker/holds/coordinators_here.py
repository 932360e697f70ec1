"""The group coordinators of this node, asked for the positions of groups (HOLD-4).

Share groups commit no offsets: their coordinator knows of which partitions they have states, and share coordinators, which may be other
nodes', know where these begin.
"""

from collections.abc import Mapping, Sequence

from esp.broker.following import until_follows
from esp.broker.groups.driver import GroupCoordinatorDriver
from esp.broker.services import Services
from esp.groups.held_positions import HeldPosition
from esp.groups.share.requests import DescribeShareGroupOffsets, DescribeShareGroupOffsetsResult
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicPartition

Held = Mapping[str, tuple[TopicPartition, ...]]
"""By share group the partitions that it holds."""


async def find_positions_here(
    services: Services, wanted: Mapping[TopicPartition, Sequence[str]], epochs: Mapping[int, int]
) -> dict[int, list[HeldPosition]]:
    """Return what each coordinator knows; one that leads in another epoch, or has not read its log, is left out.

    So is one with a share group whose start offsets are not heard.

    Args:
        services: the node's parts.
        wanted: by partition the groups that hold it, names and patterns.
        epochs: the partitions of ``__consumer_offsets`` that are asked, with the leader epochs in which the asker believes this node to
            lead them. What a coordinator of another epoch knows may be older than what the asker has to honour.
    """
    found = {}
    shared: dict[int, tuple[GroupCoordinatorDriver, Held]] = {}
    for number, leader_epoch in epochs.items():
        coordinator = services.groups.coordinator_at(number)
        if coordinator is None or coordinator.leader_epoch != leader_epoch:
            continue
        try:
            core = coordinator.core
        except ApiError:
            continue
        found[number] = core.find_held_positions(wanted)
        of_share_groups = core.shares.find_held(wanted)
        if of_share_groups:
            shared[number] = coordinator, of_share_groups
    if shared:
        starts = await _find_starts(services, shared)
        for number in shared:
            if number in starts:
                found[number] += starts[number]
            else:
                del found[number]
    return found


async def _find_starts(
    services: Services, shared: Mapping[int, tuple[GroupCoordinatorDriver, Held]]
) -> dict[int, list[HeldPosition]]:
    """Ask share coordinators, with metadata as new as the question: a former one does not know of offsets that were put back."""
    try:
        await until_follows(services)
        asked = [
            (number, group_id, coordinator.ask(coordinator.core.shares.describe_offsets, _question(group_id, held)))
            for number, (coordinator, of_groups) in shared.items()
            for group_id, held in of_groups.items()
        ]
    except ApiError:
        return {}
    starts: dict[int, list[HeldPosition]] = {number: [] for number in shared}
    for number, group_id, answer in asked:
        told: DescribeShareGroupOffsetsResult = await answer
        if told.error is not ErrorCode.none or any(one.error is not ErrorCode.none for one in told.offsets):
            starts.pop(number, None)
        elif number in starts:
            starts[number] += (HeldPosition(group_id, one.partition, one.start_offset) for one in told.offsets)
    return starts


def _question(group_id: str, held: tuple[TopicPartition, ...]) -> DescribeShareGroupOffsets:
    return DescribeShareGroupOffsets(group_id=group_id, partitions=held)
