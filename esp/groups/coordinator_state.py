"""The state that the parts of a coordinator share."""

from dataclasses import dataclass

from esp.groups.appends import Appends
from esp.groups.backlog import Backlog
from esp.groups.consumer.directory import ConsumerGroups
from esp.groups.consumer.topics import TopicCatalog
from esp.groups.deadlines import Deadlines
from esp.groups.directory import GroupDirectory
from esp.groups.effects import Outbox
from esp.groups.offset_store import OffsetStore
from esp.groups.settings import GroupSettings
from esp.groups.share.directory import ShareGroups
from esp.ports.random import Random


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """The state of one coordinator, and its ways out."""

    settings: GroupSettings
    random: Random
    outbox: Outbox
    deadlines: Deadlines
    appends: Appends
    directory: GroupDirectory
    """The groups of the classic protocol, and of nothing but offsets."""
    consumers: ConsumerGroups
    """The groups of KIP-848."""
    shares: ShareGroups
    """The groups of KIP-932."""
    topics: TopicCatalog
    """The topics that there are."""
    offsets: OffsetStore
    backlog: Backlog
    """The work that goes on in slices."""

    def has_group_of_other_protocol(self, group_id: str) -> bool:
        """True if there is a group of this name that is not a share group."""
        return self.directory.find(group_id) is not None or self.consumers.find(group_id) is not None
