"""The group coordinators of this node, asked for the positions of groups (HOLD-4)."""

from collections.abc import Mapping, Sequence

from esp.broker.groups.coordinators import GroupCoordinators
from esp.groups.held_positions import HeldPosition
from esp.model.errors import ApiError
from esp.model.ids import TopicPartition


def find_positions_here(
    groups: GroupCoordinators, wanted: Mapping[TopicPartition, Sequence[str]], epochs: Mapping[int, int]
) -> dict[int, list[HeldPosition]]:
    """Return what each coordinator knows; one that leads in another epoch, or has not read its log, is left out.

    Args:
        groups: the coordinators.
        wanted: by partition the groups that hold it, names and patterns.
        epochs: the partitions of ``__consumer_offsets`` that are asked, with the leader epochs in which the asker believes this node to
            lead them. What a coordinator of another epoch knows may be older than what the asker has to honour.
    """
    found = {}
    for number, leader_epoch in epochs.items():
        coordinator = groups.coordinator_at(number)
        if coordinator is None or coordinator.leader_epoch != leader_epoch:
            continue
        try:
            found[number] = coordinator.core.find_held_positions(wanted)
        except ApiError:
            continue
    return found
