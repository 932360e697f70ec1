"""The end of members of share groups: they leave, or are silent for too long. Their sessions are here."""

import logging
from functools import partial
from typing import Final

from esp.groups.consumer.topics import hash_topics
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.member_timers import MemberTimers
from esp.groups.share.group import ShareGroup
from esp.groups.share.operation import ShareOperation
from esp.groups.share.progress import ShareProgress
from esp.groups.timing import share_timing_of
from esp.model.now import Now
from esp.schemas.consumer_group_records import GroupEpochValue, TargetEpochValue
from esp.schemas.share_group_records import ShareGroupRecordType

_logger = logging.getLogger(__name__)

_Type = ShareGroupRecordType
_RETRY_MS: Final = 1_000
"""The time after which a member that could not be fenced, as the log took nothing, is looked at again."""


class ShareDepartures:
    """Takes members out of their groups, and holds the timers by which that happens.

    Args:
        state: the coordinator's state.
        progress: knows what was seen of the topics.
    """

    def __init__(self, state: CoordinatorState, progress: ShareProgress) -> None:
        self._state = state
        self._progress = progress
        self._sessions = MemberTimers(state.deadlines, self._on_expired)

    def begin(self, now: Now) -> None:
        """All records are replayed: members have their full time from now on."""
        for group in self._state.shares.newest():
            for member in group:
                self.restart_session(group, member.member_id, now)

    def restart_session(self, group: ShareGroup, member_id: str, now: Now) -> None:
        """The member has shown that it lives."""
        timing = share_timing_of(group.group_id, self._state.topics, self._state.settings)
        self.put_off_session(group.group_id, member_id, timing.session_timeout_ms, now)

    def put_off_session(self, group_id: str, member_id: str, timeout_ms: int, now: Now) -> None:
        """The same, where the group's session timeout is known already."""
        self._sessions.restart(group_id, member_id, timeout_ms, now)

    def expel(self, operation: ShareOperation, member_id: str) -> None:
        """Take a member out: the others get its partitions with the next assignment."""
        for type_ in (_Type.CURRENT, _Type.TARGET, _Type.MEMBER):
            operation.put(type_, None, member_id)
        group = operation.group
        self._sessions.cancel(group.group_id, member_id)
        epoch = group.epoch + 1
        operation.put(_Type.GROUP_EPOCH, GroupEpochValue(epoch, hash_topics(self._state.topics, group.topic_names)))
        if not len(group):
            operation.put(_Type.TARGET_EPOCH, TargetEpochValue(epoch, group.assigned_ms))
            self._progress.forget(group.group_id)

    def on_undone(self, group_id: str, now: Now) -> None:
        """The log has not taken what was decided: members that have no time running have their full time again."""
        self._progress.forget(group_id)
        group = self._state.shares.find(group_id)
        for member in () if group is None else group:
            if group is not None and not self._sessions.is_running(group_id, member.member_id):
                self.restart_session(group, member.member_id, now)

    def _on_expired(self, group_id: str, member_id: str, now: Now) -> None:
        group = self._state.shares.find(group_id)
        if group is None or group.find(member_id) is None:
            return
        _logger.info("group %s: member %s is fenced: it was silent for too long", group_id, member_id)
        operation = ShareOperation(self._state, group_id)
        self.expel(operation, member_id)
        operation.finish(now, lambda _error, _now: None, undone=partial(self._on_not_fenced, group_id, member_id))

    def _on_not_fenced(self, group_id: str, member_id: str, now: Now) -> None:
        self.on_undone(group_id, now)
        group = self._state.shares.find(group_id)
        if group is not None and group.find(member_id) is not None:
            self._sessions.restart(group_id, member_id, _RETRY_MS, now)
