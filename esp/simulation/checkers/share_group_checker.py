"""Holds share groups (KIP-932), as coordinators show them, against their records in ``__consumer_offsets``."""

from collections.abc import Callable, Iterable
from random import Random

from esp.groups.share.group import ShareGroup
from esp.records.batch import iterate_records
from esp.schemas.share_group_record_codec import decode_share_group_record
from esp.schemas.share_group_records import ShareGroupRecord
from esp.simulation.checkers.group_replay import GroupReplay
from esp.simulation.checkers.replica_view import BatchView


class ShareGroupChecker:
    """See the module.

    Args:
        is_excused: whether more of a group's partition of ``__consumer_offsets`` was lost than is promised (ELECT-5).
        rng: decides what compaction takes.
    """

    def __init__(self, is_excused: Callable[[str], bool], rng: Random) -> None:
        self.replays = 0
        """The number of times that a coordinator's group was held against the replay of its log."""
        self._is_excused = is_excused
        self._rng = rng
        self._replays: dict[str, GroupReplay[ShareGroup, ShareGroupRecord]] = {}

    def on_committed(self, batches: Iterable[BatchView]) -> None:
        """Batches of ``__consumer_offsets`` were seen to be committed for the first time."""
        for batch in batches:
            for record in () if batch.is_control else iterate_records(batch.written()):
                assert record.key is not None, "a compacted topic has keys"
                decoded = decode_share_group_record(record.key, record.value)
                if decoded is not None:
                    self._replay(decoded.key.group_id).apply(decoded)

    def check_replay(self, where: str, group_id: str, committed: ShareGroup | None) -> None:
        """A coordinator shows its committed group, when the log has ended and nothing of it is on its way.

        Args:
            where: the coordinator's name.
            group_id: the group.
            committed: the group, if it is there.

        Raises:
            ViolationError: INV-GROUP-REPLAY.
        """
        if not self._is_excused(group_id):
            self.replays += 1
            self._replay(group_id).check(where, {} if committed is None else values(committed), values)

    def _replay(self, group_id: str) -> GroupReplay[ShareGroup, ShareGroupRecord]:
        found = self._replays.get(group_id)
        if found is None:
            found = self._replays[group_id] = GroupReplay(group_id, ShareGroup, self._rng)
        return found


def values(group: ShareGroup) -> dict[str, object]:
    """All that a group shows."""
    return {
        "epochs": (group.epoch, group.metadata_hash, group.assignment_epoch, group.assigned_ms),
        "members": {member.member_id: member for member in group},
        "targets": dict(group.targets),
        "partitions": group.partitions,
    }
