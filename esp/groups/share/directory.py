"""The share groups of a coordinator, and the epochs that deleted ones had reached (SHARE-50)."""

from typing import Final

from esp.groups.assigned_group import FIRST_EPOCH
from esp.groups.keyed_groups import KeyedGroups
from esp.groups.share.group import ShareGroup
from esp.schemas.consumer_group_records import GroupEpochValue
from esp.schemas.share_group_records import ShareGroupRecord, ShareGroupRecordType

ENDED_MAX: Final = 10_000
"""The most deleted groups that are remembered one by one: some megabytes."""


class ShareGroups(KeyedGroups[ShareGroup, ShareGroupRecord]):
    """Groups by their id. A group that comes about under the name of a deleted one begins in that one's last epoch."""

    def __init__(self) -> None:
        super().__init__(self._begin)
        self._last_epochs: Final[dict[str, int]] = {}
        """The epochs that deleted groups had reached, by name; those deleted last come last."""
        self._least_first_epoch = FIRST_EPOCH
        """The epoch in which a group begins whose name is not remembered."""

    def apply(self, record: ShareGroupRecord) -> ShareGroupRecord:
        """As for all groups; a tombstone of a group epoch leaves the epoch to the next group of that name."""
        inverse = super().apply(record)
        if record.value is None and isinstance(inverse.value, GroupEpochValue):
            assert record.key.type is ShareGroupRecordType.GROUP_EPOCH, "only this key has an epoch"
            self._remember(record.key.group_id, inverse.value.epoch)
        return inverse

    def _begin(self, group_id: str) -> ShareGroup:
        return ShareGroup(group_id, self._last_epochs.get(group_id, self._least_first_epoch))

    def _remember(self, group_id: str, epoch: int) -> None:
        self._last_epochs.pop(group_id, None)
        self._last_epochs[group_id] = epoch
        if len(self._last_epochs) > ENDED_MAX:
            oldest = next(iter(self._last_epochs))
            self._least_first_epoch = max(self._least_first_epoch, self._last_epochs.pop(oldest))
