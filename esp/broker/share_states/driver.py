"""The coordinator of one partition of ``__share_group_state`` while this node leads it in one leader epoch.

All records count, in the order of the log, not only the latest of each key: updates add up. The log's beginning is cut off as far as
nothing needs it, as DeleteRecords cuts it, so that the log on followers follows (SHARE-22).
"""

import logging
from functools import partial
from typing import ClassVar, Final

from esp.broker.coordination.driver import AppendEffect, CoordinatorDriver, DriverConfig, give_answer
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.share_states.config import ShareStatesConfig
from esp.model.buffers import Buffer
from esp.model.errors import ApiError
from esp.model.shown_names import in_line
from esp.ports.env import Env
from esp.records.batch import check_batch, iterate_records, read_whole_header
from esp.replication.partition_leader import Appended, delete_records
from esp.share.coordinator.coordinator import ShareCoordinator
from esp.share.coordinator.draft import Topics
from esp.share.coordinator.effects import Answer, Append, Effect

log = logging.getLogger(__name__)

_NAMED_AT_MOST: Final = 5
"""Share partitions that a warning names."""


class ShareCoordinatorDriver(CoordinatorDriver[ShareCoordinator]):
    """The coordinator of the share partitions of one partition, in one leader epoch.

    Args:
        env: the outside.
        hosted: the partition, led by this node.
        config: the node's.
        topics: the cluster's.
    """

    subject: ClassVar = "states of share partitions"

    def __init__(self, env: Env, hosted: HostedPartition, config: ShareStatesConfig, topics: Topics) -> None:
        super().__init__(
            env,
            hosted,
            partial(ShareCoordinator, config.settings, topics),
            DriverConfig(config.codec, config.on_disk_error),
        )
        self._replayed = 0

    def on_topics_gone(self) -> None:
        """Topics were deleted: so are the states of their partitions. While the log is read, that follows when it is."""
        if self._leads() and self._is_loaded:
            self._work(self._core.on_topics_gone(self.now()))

    async def _replay_log(self, end_offset: int) -> int:
        self._replayed = 0
        await self._read(end_offset, self._replay)
        return self._replayed

    def _replay(self, batches: Buffer) -> int:
        view = memoryview(batches)
        position = next_offset = 0
        while position < len(view):
            header = read_whole_header(view[position:])
            batch = view[position : position + header.size]
            check_batch(batch, header)
            if not header.is_control:
                for record in iterate_records(batch):
                    self._core.replay_at(record.offset, record.key, record.value)
                    self._replayed += 1
            position += header.size
            next_offset = header.next_offset
        return next_offset

    def _on_loaded(self) -> None:
        orphans = sorted(self._core.orphans)
        if orphans:
            log.warning(
                "%s has changes of %d share partitions without their beginning, which count as never initialized: %s%s",
                self._hosted.name,
                len(orphans),
                ", ".join(
                    f"{in_line(key.group_id)}:{key.topic_id}:{key.partition}" for key in orphans[:_NAMED_AT_MOST]
                ),
                " and others" if len(orphans) > _NAMED_AT_MOST else "",
            )

    def _append_batch(self, effect: AppendEffect) -> Appended:
        appended = super()._append_batch(effect)
        self._core.on_appended(effect.token, appended[0])
        return appended

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, Append):
            self._append(effect)
        elif isinstance(effect, Answer):
            give_answer(effect)
        else:
            self._prune(effect.offset)

    def _do_at_end(self, effect: Effect) -> None:
        if isinstance(effect, Answer):
            give_answer(effect)

    def _prune(self, offset: int) -> None:
        if not self._leads():
            return
        try:
            delete_records(self._leader.log, offset)
        except ApiError as error:
            log.warning("%s cannot be cut at offset %d: %s", self._hosted.name, offset, error)
        else:
            self._hosted.committed()  # followers are told soon
