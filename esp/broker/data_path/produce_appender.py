"""The rule by which the batches of a produce request are appended to the logs of their partitions, in the order of the request.

It is written once, as a generator (:data:`Appending`) whose waiting is left to the caller, in the manner of :mod:`esp.storage.steps`. Most
requests are appended in one go (:mod:`esp.broker.apis.produce`); requests for very many partitions, and requests with batches of another
codec than their topic's, are not (:mod:`esp.broker.data_path.long_produce`). All checks of a batch are made here, and a second time in
:mod:`esp.broker.data_path.produce_repetitions` only (decision 25).
"""

from collections.abc import Awaitable, Generator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from esp.broker.authorization.access import topic_name
from esp.broker.data_path.delayed_produce import DelayedProduce
from esp.broker.data_path.transactional_batches import (
    Found,
    Guards,
    Verification,
    guard_for,
    plan_verification,
    verifying,
)
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.transactions.level import require_transactions, serves_transactions
from esp.model.acl import AclOperation, Permission, ResourceType
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.produce_codec import ProduceRequest, ProduceResult, TopicRef
from esp.protocol.progress import SLICE_ELEMENTS
from esp.replication.keyless import KeylessRecordsError
from esp.replication.partition_leader import ALL_REPLICAS
from esp.replication.refused_batches import RefusedBatches, while_settling
from esp.replication.topic_codec import RecompressionNeededError
from esp.replication.transaction_clients import TransactionClient
from esp.settings.topic import TopicSettings

ADMIN_CLIENT_ID: Final = "__admin_client"
"""A client that calls itself so may write to the cluster's own topics, as in Kafka."""

_ZSTD_FROM: Final = 7
_ACKS: Final = frozenset((-1, 0, 1))


class Recompression(NamedTuple):
    """The step that an append needs first: these records with the codec of their topic."""

    records: memoryview
    settings: TopicSettings


Appending: TypeAlias = Generator[Recompression | Awaitable[object] | DelayedProduce | None, memoryview | None, None]
"""Appends a request's batches, and yields what it has to wait for.

That is None, for its next turn; a coordinator's answer, to be awaited; a recompression, to be sent its outcome or thrown its ApiError; and
at the very end, if the request wants to wait for the commit of batches that were not committed at
once, what does that: it is still to be started.
"""


class ProduceAppender:
    """Appends the batches of produce requests.

    Args:
        services: the node's parts.
    """

    def __init__(self, services: Services) -> None:
        self._clock = services.env.clock
        self._replicas = services.replicas
        self._metadata = services.metadata
        self._verifier = services.verifier
        self.access = services.access

    def appending(
        self,
        request: Request,
        asked: ProduceRequest,
        results: list[ProduceResult],
        delayed: DelayedProduce | None = None,
        *,
        in_slices: bool,
    ) -> Appending:
        """Append the batch of each partition, or refuse it.

        Args:
            request: that it belongs to.
            asked: its body.
            results: gets the result of each partition, in the order of the request.
            delayed: waits for partitions that were appended before, if any has to be waited for.
            in_slices: whether to yield after each slice, and for each recompression and verification. Otherwise all is appended in one go,
                at one time; the first batch that needs to wait for one of these ends that: after a turn of their own it and the rest are
                appended in slices.
        """
        if asked.acks not in _ACKS:
            refusal = ApiError(ErrorCode.invalid_required_acks)
            return self._append(request, asked, results, delayed, refusal=refusal, guards=None, in_slices=in_slices)
        if asked.transactional_id is not None:
            return self._append_of_transaction(request, asked, results, delayed, in_slices=in_slices)
        return self._append(request, asked, results, delayed, refusal=None, guards=None, in_slices=in_slices)

    def _append_of_transaction(
        self,
        request: Request,
        asked: ProduceRequest,
        results: list[ProduceResult],
        delayed: DelayedProduce | None,
        *,
        in_slices: bool,
    ) -> Appending:
        """Append the batches of a request with a transactional id, once the coordinator has confirmed what it is to be asked (TXN-4)."""
        guards: Guards | None = None
        refusal = None
        try:
            planned = self._plan_verification(request, asked)
        except ApiError as error:
            refusal = error
        else:
            if isinstance(planned, Verification):
                asking = verifying(self._verifier, planned)
                try:
                    awaited = next(asking)
                    if not in_slices:
                        in_slices = True
                        yield None
                    while True:
                        yield awaited
                        awaited = next(asking)
                except StopIteration as stop:
                    guards = stop.value
            else:
                guards = planned
        yield from self._append(request, asked, results, delayed, refusal=refusal, guards=guards, in_slices=in_slices)

    def _append(
        self,
        request: Request,
        asked: ProduceRequest,
        results: list[ProduceResult],
        delayed: DelayedProduce | None,
        *,
        refusal: ApiError | None,
        guards: Guards | None,
        in_slices: bool,
    ) -> Appending:
        """Append the batch of each partition, each with its guard, or refuse all."""
        acks, partitions = asked.acks, asked.partitions
        refused, before = request.client.refused, len(results)
        zstd_allowed = request.api_version >= _ZSTD_FROM
        now_ms = 0 if in_slices else self._clock.wall_ms()
        for topic, partition, records in partitions:
            if in_slices and (len(results) - before) % SLICE_ELEMENTS == SLICE_ELEMENTS - 1:
                yield None
            hosted = None
            try:
                if refusal is not None:
                    if acks not in _ACKS:  # a denied topic is refused as one, whatever else is wrong (AUTHZ-5)
                        self._require_permission(topic, request)
                    raise refusal
                hosted = self.find(topic, partition, request)
                leader = hosted.leader or hosted.leading()
                if refused.by_partition:
                    refused.check((topic, partition), records, leader.log.producers)
                if records is None:
                    raise ApiError(ErrorCode.invalid_record, "A partition without records")
                guard = None if guards is None else guard_for(guards[len(results) - before], leader)
                try:
                    time_ms = now_ms or self._clock.wall_ms()
                    appended = leader.append(records, acks, time_ms, zstd_allowed=zstd_allowed, guard=guard)
                except RecompressionNeededError:
                    if not in_slices:
                        yield None
                        rest = asked._replace(partitions=partitions[len(results) - before :])
                        yield from self.appending(request, rest, results, delayed, in_slices=True)
                        return
                    recompressed = yield Recompression(records, hosted.log.settings)
                    assert isinstance(recompressed, memoryview), "a recompression is sent its outcome"
                    hosted = self.find(topic, partition, request)
                    leader = hosted.leading()
                    guard = None if guards is None else guard_for(guards[len(results) - before], leader)
                    appended = leader.append(recompressed, acks, self._clock.wall_ms(), any_codec=True, guard=guard)
            except ApiError as error:
                results.append(self.refuse(refused, hosted, topic, partition, records, error))
                continue
            base_offset, next_offset, append_time_ms = appended
            hosted.appended()
            log = hosted.log
            if acks == ALL_REPLICAS and log.high_watermark < next_offset:
                delayed = delayed or DelayedProduce()
                delayed.add(len(results), hosted, next_offset, leader.leader_epoch)
            results.append(ProduceResult(topic, partition, 0, base_offset, append_time_ms, log.log_start_offset))
        if delayed is not None:
            yield delayed

    def _plan_verification(self, request: Request, asked: ProduceRequest) -> Guards | Verification:
        """See :func:`~esp.broker.data_path.transactional_batches.plan_verification`.

        Raises:
            ApiError: nothing of the request is appended.
        """
        assert asked.transactional_id is not None, "without a transactional id there is no transaction"
        require_transactions(self._metadata.image)
        if self.access.refuses(
            request.client, Permission(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, asked.transactional_id)
        ):
            raise ApiError(ErrorCode.transactional_id_authorization_failed)
        found: list[Found] = []
        for topic, partition, records in asked.partitions:
            try:
                hosted = self.find(topic, partition, request)
            except ApiError:
                found.append(None)
            else:
                found.append(None if records is None else (hosted, records))
        client = TransactionClient(request.client_id, request.client.address.host)
        return plan_verification(request.api_version, asked.transactional_id, found, client)

    def refuse(
        self,
        refused: RefusedBatches,
        hosted: HostedPartition | None,
        topic: TopicRef,
        partition: int,
        records: memoryview | None,
        error: ApiError,
    ) -> ProduceResult:
        """The result of a batch that was refused; its connection remembers that in ``refused``."""
        if error.code is ErrorCode.kafka_storage_error and isinstance(error.__cause__, OSError):
            assert hosted is not None, "the disk fails where a replica is"
            self._replicas.on_disk_error(hosted, error)
        if hosted is not None and hosted.took_over_us is not None:
            error = while_settling(error, self._clock.monotonic_us() - hosted.took_over_us)
        refused.refuse((topic, partition), records, error.code)
        record_errors: list[tuple[int, str | None]] = []
        if isinstance(error, KeylessRecordsError):
            assert hosted is not None, "records are looked at where a replica is"
            text = f"Compacted topic cannot accept message without key in topic partition {hosted.name}"
            record_errors = [(number, text) for number in error.numbers]
        return ProduceResult(topic, partition, error.code, -1, error_message=error.message, record_errors=record_errors)

    def serves_transactions(self) -> bool:
        """False if each request with a transactional id is refused."""
        return serves_transactions(self._metadata.image)

    def find(self, topic: TopicRef, partition: int, request: Request) -> HostedPartition:
        """The replica of a topic's partition that a request's client may produce to.

        Raises:
            ApiError: there is none; TOPIC_AUTHORIZATION_FAILED, before it is known if there is one.
        """
        self._require_permission(topic, request)
        replicas = self._replicas
        here = replicas.by_topic.get(topic) if isinstance(topic, str) else replicas.by_topic_id.get(topic)
        hosted = here.get(partition) if here is not None else None
        if hosted is None:
            raise ApiError(self._metadata.why_not_here(topic, partition))
        if hosted.is_internal and request.client_id != ADMIN_CLIENT_ID:
            raise ApiError(ErrorCode.invalid_topic_exception)
        return hosted

    def _require_permission(self, topic: TopicRef, request: Request) -> None:
        """Raises ApiError: TOPIC_AUTHORIZATION_FAILED, the client may not write to the topic, whether or not it is there."""
        if self.access.is_open:
            return
        name = topic_name(self._metadata.image, topic)
        if name is not None and self.access.refuses(
            request.client, Permission(AclOperation.WRITE, ResourceType.TOPIC, name)
        ):
            raise ApiError(ErrorCode.topic_authorization_failed)


def fail(results: list[ProduceResult], failed: Mapping[int, ErrorCode]) -> None:
    """Put errors, by their places, in the place of what was appended and not acknowledged."""
    for place, code in failed.items():
        topic, partition = results[place][:2]
        results[place] = ProduceResult(topic, partition, code, -1)


def why_refused(results: Sequence[ProduceResult]) -> str | None:
    """Why a connection ends of which a request without an answer was refused, if one was (PRODUCE-4)."""
    for result in results:
        if result.error_code:
            return f"produce with acks=0 to {result.topic!r}-{result.partition} failed: {result.error_message}"
    return None
