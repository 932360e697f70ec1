"""The share groups of a coordinator."""

from esp.groups.keyed_groups import KeyedGroups
from esp.groups.share.group import ShareGroup
from esp.schemas.share_group_records import ShareGroupRecord


class ShareGroups(KeyedGroups[ShareGroup, ShareGroupRecord]):
    """Groups by their id."""

    def __init__(self) -> None:
        super().__init__(ShareGroup)
