"""All share partitions that this node coordinates: a driver for each partition of ``__share_group_state`` that it leads."""

import asyncio
import base64
import importlib
from typing import TYPE_CHECKING, ClassVar, Final

from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.coordination.coordinators import PartitionCoordinators
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.share_states.config import ShareStatesConfig
from esp.broker.share_states.topics import MetadataTopics
from esp.broker.tasks import Tasks
from esp.controller.image import ClusterDelta, ClusterImage
from esp.model.errors import ApiError
from esp.model.features import SHARE_VERSION
from esp.model.ids import SHARE_STATES_TOPIC
from esp.ports.env import Env
from esp.schemas.share_state_records import ShareStateKey
from esp.share.coordinator.requests import Refused, Request, Result

if TYPE_CHECKING:
    from esp.broker.share_states.driver import ShareCoordinatorDriver

_DRIVER: Final = "esp.broker.share_states.driver"
"""Loaded when there are share groups, so that the start of a node does not wait for it."""

_ID_BYTES: Final = 16


class ShareCoordinators(PartitionCoordinators["ShareCoordinatorDriver"]):
    """Begins a coordinator as this node comes to lead its partition, and finds the one of a share partition.

    Args:
        env: the outside.
        config: the facts of the node that coordinators rest on.
        metadata: as clients are told.
        tasks: the tasks in which coordinators load.
    """

    topic: ClassVar = SHARE_STATES_TOPIC
    subject: ClassVar = "states of share partitions"

    def __init__(self, env: Env, config: ShareStatesConfig, metadata: MetadataCache, tasks: Tasks) -> None:
        super().__init__(metadata, tasks)
        self._env = env
        self._config = config
        self._topics = MetadataTopics(metadata)

    @property
    def feature_level(self) -> int:
        """The cluster's ``share.version``: at 0 there are no share groups."""
        return self._metadata.image.features.get(SHARE_VERSION, 0)

    def coordinator_of(self, key: ShareStateKey) -> "ShareCoordinatorDriver":
        """The coordinator that has a share partition.

        Raises:
            ApiError: NOT_COORDINATOR.
        """
        return self._of_key(coordinator_key(key))

    def ask(self, request: Request) -> asyncio.Future[Result]:
        """Ask the coordinator of this node that has a share partition; the answer may be there already."""
        try:
            coordinator = self.coordinator_of(request.key)
            return coordinator.ask(coordinator.core.handle, request)
        except ApiError as error:
            refused: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
            refused.set_result(Refused(error.code, error.message))
            return refused

    def on_metadata(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """States end with their topics; those in the trash when they are purged (TRASH-3)."""
        if delta.purged_topics or any(topic_id not in image.trashed_topics for topic_id in delta.deleted_topics):
            for coordinator in self:
                coordinator.on_topics_gone()
        self.forget_ended()

    def _new_driver(self, hosted: HostedPartition) -> "ShareCoordinatorDriver":
        driver: type[ShareCoordinatorDriver] = importlib.import_module(_DRIVER).ShareCoordinatorDriver
        return driver(self._env, hosted, self._config, self._topics)


def coordinator_key(key: ShareStateKey) -> str:
    """The text by which a share partition's coordinator is found: its hash tells the partition of ``__share_group_state``."""
    topic_id = base64.urlsafe_b64encode(key.topic_id.bytes).decode().rstrip("=")
    return f"{key.group_id}:{topic_id}:{key.partition}"


def is_coordinator_key(text: str) -> bool:
    """True if a text has the form of :func:`coordinator_key`: a group, which may have colons, an id, a number."""
    group_id, _, rest = text.rpartition(":")[0].rpartition(":")
    try:
        int(text.rpartition(":")[2])
        return bool(group_id) and len(base64.b64decode(rest + "==", altchars=b"-_", validate=True)) == _ID_BYTES
    except ValueError:
        return False
