"""The end of a transaction in one partition, as its coordinator asks for it (WriteTxnMarkers), and the leader's demands on it (TXN-7)."""

from typing import Final, NamedTuple

from esp.model.errors import ApiError, ErrorCode
from esp.replication.replica_log import ProducerFacts
from esp.schemas.transaction_records import NO_PRODUCER_ID

BUMPED_EPOCH_FROM: Final = 2
"""The transaction version from which on markers carry a higher epoch than the data that they end (KIP-890)."""


class EndMarker(NamedTuple):
    """A coordinator's request to commit or abort the transaction of a producer."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int = 0
    """The version of the protocol under which the transaction ran; 0 before version 2 of WriteTxnMarkers."""


def check_end_marker(marker: EndMarker, producer: ProducerFacts | None) -> None:
    """Check a marker against the state of its producer; any marker of an unknown producer is valid.

    A marker that is repeated under the same epoch is valid while no transaction is open: the answer to the first one may have been lost,
    and the coordinator asks until it has one (KAFKA-19999).

    Raises:
        ApiError: INVALID_PRODUCER_EPOCH, or TRANSACTION_COORDINATOR_FENCED for a coordinator that was replaced; UNKNOWN_SERVER_ERROR for a
            marker that no coordinator sends, as in Kafka.
    """
    epoch = marker.producer_epoch
    if epoch < 0 or marker.producer_id == NO_PRODUCER_ID:
        raise ApiError(ErrorCode.unknown_server_error, f"A marker of producer {marker.producer_id} under epoch {epoch}")
    if producer is not None:
        _check_against(marker, producer)
    if marker.transaction_version < 0:
        raise ApiError(ErrorCode.unknown_server_error, f"A marker of transaction version {marker.transaction_version}")


def _check_against(marker: EndMarker, producer: ProducerFacts) -> None:
    epoch = marker.producer_epoch
    must_be_higher = marker.transaction_version >= BUMPED_EPOCH_FROM and producer.transaction_first_offset >= 0
    if epoch < producer.epoch or (must_be_higher and epoch == producer.epoch):
        raise ApiError(
            ErrorCode.invalid_producer_epoch,
            f"A marker of producer {marker.producer_id} came with epoch {epoch}, the last seen is {producer.epoch}",
        )
    if marker.coordinator_epoch < producer.coordinator_epoch:
        raise ApiError(
            ErrorCode.transaction_coordinator_fenced,
            f"A marker of producer {marker.producer_id} came from coordinator epoch {marker.coordinator_epoch}, "
            f"the last seen is {producer.coordinator_epoch}",
        )
