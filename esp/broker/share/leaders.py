"""All share partitions and share sessions of a node.

A share partition is made by the first request that needs it, and forgotten when it has ended, or when no member has fetched of it or held
a record for :data:`IDLE_US`: so those of groups that are deleted, or have gone, leave. A session ends by its member's last request or with
its connection; what its member holds is released then.

Requests and sessions may name thousands of partitions, so what is done for each of them is done in slices. A release that takes its turns
is done at a share partition before the same member can come there with its next session.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Final

from esp.broker.authorization.access import Access
from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.replication.host import ReplicaHost
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.request import ClientContext, Request
from esp.broker.share.led_partition import LedSharePartition, Parts
from esp.broker.share.requests import PartitionAnswer, ShareAcknowledging, ShareFetch
from esp.broker.turns.turns import Turns
from esp.controller.image import ClusterImage
from esp.model.acl import AclOperation, Permission, ResourceType
from esp.model.errors import ApiError, ErrorCode
from esp.model.features import DEAD_LETTERS_FROM, SHARE_VERSION
from esp.protocol.progress import AT_ONCE_ELEMENTS, SLICE_ELEMENTS, Progress, SlicedWork, slices
from esp.schemas.share_state_records import ShareStateKey
from esp.settings.broker import BrokerSettings
from esp.share.group_settings import ShareGroupSettings, share_group_settings
from esp.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, ShareSession, ShareSessions, WantedPartition

IDLE_US: Final = 300_000_000
"""A share partition that has been without use for so long is read again when it is needed."""

_LOOK_FOR_IDLE_US: Final = 60_000_000

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
        self.turns: Final[Turns] = parts.turns
        self.max_bytes: Final = settings.fetch_max_bytes
        self._node: Final = settings
        self._replicas: Final = replicas
        self._access: Final = access
        self._parts: Final = parts
        self._sessions: Final = ShareSessions(settings.group_share_max_share_sessions)
        self._watched: Final[set[ClientContext]] = set()
        """The connections whose end ends sessions."""
        self._groups: Final[dict[str, dict[WantedPartition, LedSharePartition]]] = {}
        self._settings: Final[dict[str, tuple[Mapping[str, str], bool, ShareGroupSettings]]] = {}
        self._no_configs: Final[Mapping[str, str]] = {}
        self._to_release: Final[dict[SessionKey, dict[LedSharePartition, None]]] = {}
        """The share partitions at which members have not been released yet whose sessions have ended."""
        self._is_releasing = False
        self._is_looking_for_idle = False

    # Sessions.

    def begin_fetch(self, request: Request, asked: ShareFetch) -> SlicedWork[ShareSession]:
        """The session that a fetch belongs to, opened or gone on with.

        Raises:
            ApiError: INVALID_REQUEST, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED.
        """
        acknowledging = asked.acknowledging
        key, epoch = acknowledging.key, acknowledging.epoch
        _check_member(key)
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
            session, ended = self._sessions.open(key, request.client, len(asked.wanted))
            self._watch(request.client)
            if ended is not None:
                self._release([ended])
        else:
            session = self._sessions.resume(key, epoch)
        if epoch != FINAL_EPOCH:
            yield from self._update(session, asked)
        return session

    def _update(self, session: ShareSession, asked: ShareFetch) -> SlicedWork[None]:
        progress = Progress(AT_ONCE_ELEMENTS // SLICE_ELEMENTS)
        forgets = asked.acknowledging.epoch != INITIAL_EPOCH  # a new session has nothing to forget
        changes = chain(
            ((wanted, ()) for wanted in slices(asked.wanted)),
            (((), forgotten) for forgotten in slices(asked.forgotten if forgets else ())),
        )
        try:
            for wanted, forgotten in changes:
                if progress.count_one():
                    yield
                if session.has_ended:
                    return
                self._sessions.update(session, wanted, forgotten)
        except ApiError:
            if asked.acknowledging.epoch == INITIAL_EPOCH:
                self.end_session(session)
            raise

    def begin_acknowledging(self, asked: ShareAcknowledging) -> ShareSession:
        """The session that acknowledgements belong to.

        Raises:
            ApiError: INVALID_REQUEST, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        _check_member(asked.key)
        if asked.epoch == INITIAL_EPOCH:
            raise ApiError(ErrorCode.invalid_share_session_epoch)
        return self._sessions.resume(asked.key, asked.epoch)

    def end_session(self, session: ShareSession) -> None:
        """The member has sent the last request of a session, which may have ended already."""
        self._sessions.close(session)
        self._release([session])

    def _watch(self, client: ClientContext) -> None:
        if client not in self._watched:
            self._watched.add(client)
            client.at_end.append(partial(self._on_connection_end, client))

    def _on_connection_end(self, client: ClientContext) -> None:
        self._watched.discard(client)
        self._release(self._sessions.end_connection(client))

    # The end of what members hold.

    def _release(self, ended: Iterable[ShareSession]) -> None:
        """Sessions have ended: release what their members hold, at once if that is little."""
        for session in ended:
            shares = self._groups.get(session.key.group_id)
            if shares:
                self._to_release.setdefault(session.key, {}).update(dict.fromkeys(shares.values()))
        if self._to_release and not self._is_releasing:
            self._is_releasing = True
            work = self._releasing()
            try:
                next(work)
            except StopIteration:
                return
            self._parts.tasks.start(self._go_on_releasing(work), name="release records of members that have gone")

    def _releasing(self) -> Iterator[None]:
        progress = Progress(AT_ONCE_ELEMENTS)
        while self._to_release:
            key = next(iter(self._to_release))
            shares = self._to_release[key]
            while shares:
                if progress.count_one():
                    yield
                if shares:
                    self._release_at(next(iter(shares)), key)
            if self._to_release.get(key) is shares:
                del self._to_release[key]
        self._is_releasing = False

    async def _go_on_releasing(self, work: Iterator[None]) -> None:
        for _slice in work:
            await self.turns.wait()

    def _release_at(self, share: LedSharePartition, key: SessionKey) -> None:
        """Release there what a member holds by a session that has ended, if that has not been done yet."""
        shares = self._to_release.get(key)
        if shares is not None and share in shares:
            del shares[share]
            share.release_member(key.member_id)

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

    def obtain(
        self, request: Request, key: SessionKey, wanted: WantedPartition, *, opens_session: bool
    ) -> LedSharePartition:
        """A share partition of which a member wants records; it may be about to begin.

        Args:
            request: the member's.
            key: of the member's session.
            wanted: the partition.
            opens_session: whether the request is the first of its session. It begins again what is at rest: the group may have been empty,
                and its offsets altered by an administrator, since the state was read (SHARE-49).

        Raises:
            ApiError: those of :meth:`find`.
        """
        hosted = self.find(request, wanted)
        group = self._groups.setdefault(key.group_id, {})
        found = group.get(wanted)
        if found is not None:
            found.tend()  # it is forgotten if it has ended
            if opens_session and found.is_idle(self.clock.monotonic_us()):
                found.end(ErrorCode.none)
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
            self._look_for_idle_later()
        self._release_at(found, key)
        return found

    def look(self, group_id: str, wanted: WantedPartition) -> LedSharePartition | None:
        """A share partition that is in memory, for describing."""
        return self._groups.get(group_id, {}).get(wanted)

    def acknowledge(self, request: Request, asked: ShareAcknowledging) -> SlicedWork[Pending]:
        """Take a member's words on records."""
        pending: Pending = {}
        progress = Progress(AT_ONCE_ELEMENTS)
        for wanted, batches in asked.words.items():
            if progress.count_one():
                yield
            try:
                self.find(request, wanted)
                share = self._groups.get(asked.key.group_id, {}).get(wanted)
                if share is None:
                    raise ApiError(ErrorCode.invalid_record_state, "The member has no records of this partition here.")
                self._release_at(share, asked.key)
                future = yield from share.acknowledge(asked.key.member_id, batches, allows_renew=asked.is_renewing)
            except ApiError as error:
                pending[wanted] = PartitionAnswer(
                    acknowledge_error=error.code, acknowledge_message=error.message or None
                )
            else:
                pending[wanted] = PartitionAnswer() if future is None else future
        return pending

    def _look_for_idle_later(self) -> None:
        if not self._is_looking_for_idle:
            self._is_looking_for_idle = True
            self._parts.tasks.start(self._look_for_idle(), name="forget share partitions that are not used")

    async def _look_for_idle(self) -> None:
        """For as long as there are share partitions, end those that were not used for a while."""
        while self._groups:
            await self.clock.sleep_us(_LOOK_FOR_IDLE_US)
            used_since_us = self.clock.monotonic_us() - IDLE_US
            shares = [share for group in self._groups.values() for share in group.values()]
            for some in slices(shares):
                await self.turns.wait()
                for share in some:
                    if share.is_idle(used_since_us):
                        share.end(ErrorCode.none)
        self._is_looking_for_idle = False

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
        allows_dead_letters = image.features.get(SHARE_VERSION, 0) >= DEAD_LETTERS_FROM
        known = self._settings.get(group_id)
        if known is None or known[0] is not configs or known[1] is not allows_dead_letters:
            settings = share_group_settings(configs, self._node, allows_dead_letters=allows_dead_letters)
            known = configs, allows_dead_letters, settings
            if group_id in self._groups:  # else a member could have any number of names kept
                self._settings[group_id] = known
        return known[2]


def _check_member(key: SessionKey) -> None:
    if not key.group_id or not 1 <= len(key.member_id) <= _MEMBER_ID_MAX:
        raise ApiError(ErrorCode.invalid_request, "A share session has a group and a member id of 1 to 36 characters.")
