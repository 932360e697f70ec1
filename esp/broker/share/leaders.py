"""All share partitions and share sessions of a node.

A share partition is made by the first request that needs it, and forgotten when it has ended. A session ends by its member's last request
or with its connection; what its member holds is released then.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final

from esp.broker.authorization.access import Access
from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.replication.host import ReplicaHost
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.request import ClientContext, Request
from esp.broker.share.led_partition import LedSharePartition, Parts
from esp.broker.share.requests import PartitionAnswer, ShareAcknowledging, ShareFetch
from esp.controller.image import ClusterImage
from esp.model.acl import AclOperation, Permission, ResourceType
from esp.model.errors import ApiError, ErrorCode
from esp.schemas.share_state_records import ShareStateKey
from esp.settings.broker import BrokerSettings
from esp.share.group_settings import ShareGroupSettings, share_group_settings
from esp.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, ShareSession, ShareSessions, WantedPartition

_MEMBER_ID_MAX: Final = 36

Pending = dict[WantedPartition, asyncio.Future[ErrorCode] | PartitionAnswer]
"""The results of a request's words on records: there, or still to come."""


class ShareLeaders:
    """See the module.

    Args:
        settings: the node's.
        metadata: as clients are told.
        replicas: the replicas here.
        access: what clients may do.
        parts: the parts of the node that share partitions work with.
    """

    def __init__(
        self, settings: BrokerSettings, metadata: MetadataCache, replicas: ReplicaHost, access: Access, parts: Parts
    ) -> None:
        self.metadata: Final = metadata
        self.clock: Final = parts.searching.clock
        self.max_bytes: Final = settings.fetch_max_bytes
        self._node: Final = settings
        self._replicas: Final = replicas
        self._access: Final = access
        self._parts: Final = parts
        self._sessions: Final = ShareSessions(settings.group_share_max_share_sessions)
        self._watched: Final[set[ClientContext]] = set()
        """The connections whose end ends sessions."""
        self._groups: Final[dict[str, dict[WantedPartition, LedSharePartition]]] = {}
        self._settings: Final[dict[str, tuple[Mapping[str, str], ShareGroupSettings]]] = {}
        self._no_configs: Final[Mapping[str, str]] = {}

    # Sessions.

    def begin_fetch(self, request: Request, asked: ShareFetch) -> ShareSession:
        """The session that a fetch belongs to, opened or gone on with.

        Raises:
            ApiError: INVALID_REQUEST, GROUP_AUTHORIZATION_FAILED, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH,
                SHARE_SESSION_LIMIT_REACHED.
        """
        acknowledging = asked.acknowledging
        key, epoch = acknowledging.key, acknowledging.epoch
        self._check_member(request, key)
        if acknowledging.is_renewing and any((asked.max_bytes, asked.min_bytes, asked.max_records, asked.max_wait_ms)):
            raise ApiError(
                ErrorCode.invalid_request, "A request that renews records fetches none: its limits must be 0."
            )
        if epoch == INITIAL_EPOCH:
            if acknowledging.words:
                raise ApiError(
                    ErrorCode.invalid_request, "The request that opens a share session acknowledges nothing."
                )
            if request.is_abandoned:  # its end has been seen, and would not end the session
                raise ApiError(ErrorCode.share_session_not_found)
            session, ended = self._sessions.open(key, request.client, asked.wanted)
            self._watch(request.client)
            if ended is not None:
                self._release(ended)
            return session
        session = self._sessions.resume(key, epoch)
        if epoch != FINAL_EPOCH:
            self._sessions.update(session, asked.wanted, asked.forgotten)
        return session

    def begin_acknowledging(self, request: Request, asked: ShareAcknowledging) -> ShareSession:
        """The session that acknowledgements belong to.

        Raises:
            ApiError: INVALID_REQUEST, GROUP_AUTHORIZATION_FAILED, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        self._check_member(request, asked.key)
        if asked.epoch == INITIAL_EPOCH:
            raise ApiError(ErrorCode.invalid_share_session_epoch)
        return self._sessions.resume(asked.key, asked.epoch)

    def end_session(self, session: ShareSession) -> None:
        """The member has sent the last request of a session."""
        self._sessions.close(session)
        self._release(session)

    def _check_member(self, request: Request, key: SessionKey) -> None:
        group = Permission(AclOperation.READ, ResourceType.GROUP, key.group_id)
        if self._access.refuses(request.client, group):
            raise ApiError(ErrorCode.group_authorization_failed)
        if not key.group_id or not 1 <= len(key.member_id) <= _MEMBER_ID_MAX:
            raise ApiError(
                ErrorCode.invalid_request, "A share session has a group and a member id of 1 to 36 characters."
            )

    def _watch(self, client: ClientContext) -> None:
        if client not in self._watched:
            self._watched.add(client)
            client.at_end.append(partial(self._on_connection_end, client))

    def _on_connection_end(self, client: ClientContext) -> None:
        self._watched.discard(client)
        for session in self._sessions.end_connection(client):
            self._release(session)

    def _release(self, session: ShareSession) -> None:
        for share in tuple(self._groups.get(session.key.group_id, {}).values()):
            share.release_member(session.key.member_id)

    # Share partitions.

    def find(self, request: Request, wanted: WantedPartition) -> HostedPartition:
        """The replica of a partition that this node leads, for a client that may read it now.

        Raises:
            ApiError: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
        """
        topic_id, partition = wanted
        topic = self.metadata.image.topics_by_id.get(topic_id)
        if topic is not None and self._access.refuses(
            request.client, Permission(AclOperation.READ, ResourceType.TOPIC, topic.name)
        ):
            raise ApiError(ErrorCode.topic_authorization_failed)
        hosted = self._replicas.by_topic_id.get(topic_id.bytes, {}).get(partition)
        if hosted is None:
            raise ApiError(self.metadata.why_not_here(topic_id.bytes, partition))
        hosted.leading()
        return hosted

    def obtain(self, request: Request, key: SessionKey, wanted: WantedPartition) -> LedSharePartition:
        """A share partition of which a member wants records; it may be about to begin.

        Raises:
            ApiError: those of :meth:`find`.
        """
        hosted = self.find(request, wanted)
        group = self._groups.setdefault(key.group_id, {})
        found = group.get(wanted)
        if found is not None:
            found.tend()  # it is forgotten if it has ended
            found = group.get(wanted)
        if found is None:
            found = LedSharePartition(
                ShareStateKey(key.group_id, *wanted),
                hosted,
                partial(self._settings_of, key.group_id),
                self._parts,
                self._forget,
            )
            self._groups.setdefault(key.group_id, {})[wanted] = found
            found.begin()
        return found

    def acknowledge(self, request: Request, asked: ShareAcknowledging) -> Pending:
        """Take a member's words on records."""
        pending: Pending = {}
        for wanted, batches in asked.words.items():
            try:
                self.find(request, wanted)
                share = self._groups.get(asked.key.group_id, {}).get(wanted)
                if share is None:
                    raise ApiError(ErrorCode.invalid_record_state, "The member has no records of this partition here.")
                future = share.acknowledge(asked.key.member_id, batches, allows_renew=asked.is_renewing)
            except ApiError as error:
                pending[wanted] = PartitionAnswer(
                    acknowledge_error=error.code, acknowledge_message=error.message or None
                )
            else:
                pending[wanted] = PartitionAnswer() if future is None else future
        return pending

    def lock_duration_ms(self, group_id: str) -> int:
        """The time for which a member keeps records."""
        return self._settings_of(group_id).partition.record_lock_duration_ms

    def _forget(self, share: LedSharePartition) -> None:
        group_id, topic_id, partition = share.key
        group = self._groups.get(group_id, {})
        wanted = WantedPartition(topic_id, partition)
        if group.get(wanted) is share:
            del group[wanted]
        if not group:
            self._groups.pop(group_id, None)
            self._settings.pop(group_id, None)

    def _settings_of(self, group_id: str) -> ShareGroupSettings:
        image: ClusterImage = self.metadata.image
        configs = image.group_configs.get(group_id, self._no_configs)
        known = self._settings.get(group_id)
        if known is None or known[0] is not configs:
            known = configs, share_group_settings(configs, self._node)
            if group_id in self._groups:  # else a member could have any number of names kept
                self._settings[group_id] = known
        return known[1]
