"""The requests of a producer and their answers, one version of each API, as in :mod:`esp.consumer.messages`."""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from esp.consumer.group_messages import Committed, encode_offsets, encode_partitions
from esp.consumer.messages import Api, Partition, checked
from esp.model.buffers import Buffer
from esp.protocol.errors import DecodeError
from esp.protocol.primitives import (
    pack_nullable_text,
    pack_uvarint,
    read_compact_count,
    read_compact_nullable_text,
    read_compact_text,
    skip_tagged_fields,
)

PRODUCE: Final = Api(0, 9, "Produce", True)
INIT_PRODUCER_ID: Final = Api(22, 4, "InitProducerId", True)
ADD_PARTITIONS_TO_TXN: Final = Api(24, 3, "AddPartitionsToTxn", True)
ADD_OFFSETS_TO_TXN: Final = Api(25, 3, "AddOffsetsToTxn", True)
END_TXN: Final = Api(26, 3, "EndTxn", True)
TXN_OFFSET_COMMIT: Final = Api(28, 3, "TxnOffsetCommit", True)

_NO_TAGS: Final = b"\0"
_NO_GENERATION: Final = -1
_ALL_REPLICAS: Final = -1


class ProducerId(NamedTuple):
    """The id of a producer, and its epoch: the newest of a transactional id counts."""

    number: int = -1
    epoch: int = -1


class Owner(NamedTuple):
    """A transactional id, and the producer that it is."""

    transactional_id: str
    producer: ProducerId

    def encode(self) -> bytes:
        """The fields with which the requests of a transaction begin."""
        return pack_nullable_text(self.transactional_id, flexible=True) + struct.pack(">qh", *self.producer)


class Produced(NamedTuple):
    """The answer to a batch; ``message`` says more of an error."""

    error: int
    message: str


def encode_init_producer_id(transactional_id: str, timeout_ms: int) -> bytes:
    """A question for a new epoch of a transactional id; it ends the transaction of the epoch before.

    Args:
        transactional_id: the id.
        timeout_ms: the time after which the coordinator aborts a transaction of this epoch.
    """
    return (
        pack_nullable_text(transactional_id, flexible=True) + struct.pack(">iqh", timeout_ms, *ProducerId()) + _NO_TAGS
    )


@checked
def decode_init_producer_id(body: memoryview) -> tuple[int, ProducerId]:
    """The error code, and the producer.

    Raises:
        DecodeError: the bytes are no such answer.
    """
    error, number, epoch = struct.unpack_from(">hqh", body, 4)
    return error, ProducerId(number, epoch)


def encode_add_partitions(owner: Owner, partitions: Sequence[Partition]) -> bytes:
    """Partitions that a transaction is about to write to."""
    return owner.encode() + encode_partitions(partitions) + _NO_TAGS


def encode_add_offsets(owner: Owner, group: str) -> bytes:
    """A group whose offsets a transaction is about to commit."""
    return owner.encode() + pack_nullable_text(group, flexible=True) + _NO_TAGS


def encode_end(owner: Owner, *, is_commit: bool) -> bytes:
    """The end of a transaction."""
    return owner.encode() + struct.pack(">b", is_commit) + _NO_TAGS


@checked
def decode_error(body: memoryview) -> int:
    """The error code of an answer that has nothing else: to AddOffsetsToTxn and EndTxn.

    Raises:
        DecodeError: the bytes are no such answer.
    """
    (error,) = struct.unpack_from(">h", body, 4)
    return int(error)


def encode_txn_offset_commit(owner: Owner, group: str, offsets: Mapping[Partition, Committed]) -> bytes:
    """Offsets of a group without members, in a transaction."""
    return b"".join(
        (
            pack_nullable_text(owner.transactional_id, flexible=True),
            pack_nullable_text(group, flexible=True),
            struct.pack(">qhi", *owner.producer, _NO_GENERATION),
            encode_offsets(offsets),
        )
    )


def encode_produce(transactional_id: str | None, partition: Partition, batch: Buffer, timeout_ms: int) -> bytes:
    """A batch for one partition, acknowledged by all in-sync replicas."""
    return b"".join(
        (
            pack_nullable_text(transactional_id, flexible=True),
            struct.pack(">hi", _ALL_REPLICAS, timeout_ms),
            pack_uvarint(2),
            pack_nullable_text(partition.topic, flexible=True),
            pack_uvarint(2),
            struct.pack(">i", partition.number),
            pack_uvarint(len(batch) + 1),
            batch,
            _NO_TAGS + _NO_TAGS + _NO_TAGS,
        )
    )


@checked
def decode_produce(body: memoryview) -> Produced:
    """Return the answer for the one batch that was sent.

    Raises:
        DecodeError: the bytes are no such answer.
    """
    topics, position = read_compact_count(body, 0, 3)
    if topics == 1:
        _, position = read_compact_text(body, position)
        partitions, position = read_compact_count(body, position, 30)
    if topics != 1 or partitions != 1:
        raise DecodeError("Produce: an answer that is not about one partition")
    (error,) = struct.unpack_from(">h", body, position + 4)
    count, position = read_compact_count(body, position + 30, 6)
    first = ""
    for _ in range(count):
        message, position = read_compact_nullable_text(body, position + 4)
        position = skip_tagged_fields(body, position)
        first = first or message or ""
    message, position = read_compact_nullable_text(body, position)
    return Produced(error, first or message or "")
