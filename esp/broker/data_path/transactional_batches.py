"""The transactional batches of a produce request, which their partitions' leaders let in only with a guard (TXN-4).

Only requests with a transactional id come here. A batch whose transaction is open in its partition already is appended like any other; for
the others the coordinator is asked first. Unless it answers at once the connection is held meanwhile
(:mod:`esp.broker.data_path.long_produce`), so that the batches of a producer stay in their order.

No coordinator is asked about a batch whose checksum is wrong. Its producer, epoch and sequence may be wrong, too, and so would be the
answer: its sender would be fenced for what happened on the way, and the next batches would overtake it (PROD-11).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.transactions.verifier import UNANSWERED, Asking, Producer, Protocol, TransactionVerifier, Unverified
from esp.model.errors import ApiError, ErrorCode
from esp.records.batch_header import HEADER_SIZE, MAGIC, TRANSACTIONAL_BIT, read_fields
from esp.replication.partition_leader import PartitionLeader
from esp.replication.produced_batch import is_sound
from esp.replication.transaction_clients import TransactionClient
from esp.replication.verification import OPEN, UNVERIFIED, Guard

_ABORTABLE_FROM: Final = 11
_IMPLICIT_FROM: Final = 12

Found = tuple[HostedPartition, memoryview] | None
"""A partition of the request that this node has, with its records; None for one that is refused anyway."""


class GuardedBatch(NamedTuple):
    """The right of one batch to enter the log of the leader that was asked; or the reason why it has none."""

    leader: PartitionLeader
    guard: Guard | ApiError


Guards = Sequence[GuardedBatch | None]
"""By the place of the partition in the request; None for a batch that is not transactional, or has no leader here."""


class Verification(NamedTuple):
    """The batches of a request that may enter their logs on their coordinator's word only."""

    producer: Producer
    protocol: Protocol
    batches: list[Unverified]
    places: list[int]
    """The batches' places in the request."""
    guards: list[GuardedBatch | None]
    """The guards of the other batches."""


def plan_verification(
    version: int,
    transactional_id: str,
    found: Sequence[Found],
    client: TransactionClient,
) -> Guards | Verification:
    """Return the guards of a request's batches, or the batches that :func:`verifying` gets guards for.

    Args:
        version: the request's.
        transactional_id: the request's.
        found: its partitions, in order.
        client: its sender.

    Raises:
        ApiError: INVALID_PRODUCER_ID_MAPPING if the batches are of several producers, as Kafka has it.
    """
    protocol = Protocol.OLD
    if version >= _ABORTABLE_FROM:
        protocol = Protocol.IMPLICIT if version >= _IMPLICIT_FROM else Protocol.ABORTABLE
    producer: Producer | None = None
    batches: list[Unverified] = []
    places: list[int] = []
    guards: list[GuardedBatch | None] = [None] * len(found)
    for place, each in enumerate(found):
        if each is None or len(each[1]) < HEADER_SIZE:
            continue
        hosted, records = each
        _, _, _, magic, _, attributes, _, _, _, producer_id, epoch, sequence, _ = read_fields(records)
        if magic != MAGIC or not attributes & TRANSACTIONAL_BIT or hosted.leader is None:
            continue
        if producer_id < 0:  # in no transaction, whatever its attribute says
            guards[place] = GuardedBatch(hosted.leader, UNVERIFIED)
            continue
        is_open = hosted.log.producers.has_open_transaction(producer_id, epoch)
        if not is_open and not is_sound(records):
            guards[place] = GuardedBatch(hosted.leader, UNVERIFIED)  # for the leader to refuse
            continue
        if producer is None:
            producer = Producer(transactional_id, producer_id, epoch)
        elif producer_id != producer.producer_id or epoch != producer.producer_epoch:
            raise ApiError(ErrorCode.invalid_producer_id_mapping, "The batches of one request are of several producers")
        if is_open:
            guards[place] = GuardedBatch(hosted.leader, OPEN)
            continue
        batches.append(Unverified(hosted, hosted.leader, sequence, client))
        places.append(place)
    if producer is None or not batches:
        return guards
    return Verification(producer, protocol, batches, places, guards)


def verifying(verifier: TransactionVerifier, verification: Verification) -> Asking[Guards]:
    """Get the guards of all batches of the request; the coordinator is asked if it has to be."""
    producer, protocol, batches, places, guards = verification
    results = yield from verifier.verifying(producer, batches, protocol)
    for place, batch, result in zip(places, batches, results, strict=True):
        guards[place] = GuardedBatch(batch.leader, _for_producer(result, protocol))
    return guards


def _for_producer(result: Guard | ApiError, protocol: Protocol) -> Guard | ApiError:
    """NOT_ENOUGH_REPLICAS if the coordinator's answer says nothing: producers send the same again. Clients of transaction version 2 know
    CONCURRENT_TRANSACTIONS here.
    """
    if not isinstance(result, ApiError) or result.code not in UNANSWERED:
        return result
    if result.code is ErrorCode.concurrent_transactions and protocol is Protocol.IMPLICIT:
        return result
    return ApiError(ErrorCode.not_enough_replicas, result.message)


def guard_for(guarded: GuardedBatch | None, leader: PartitionLeader) -> Guard | None:
    """The guard with which ``leader`` appends; None for a batch that is not transactional.

    Raises:
        ApiError: the batch is refused. A leader that took over meanwhile asks for itself when the batch comes again.
    """
    if guarded is None:
        return None
    if isinstance(guarded.guard, ApiError):
        raise guarded.guard
    if guarded.leader is not leader:
        raise ApiError(ErrorCode.not_leader_or_follower)
    return guarded.guard
