"""Rows that are sent as they come, without transactions: a task that is tried again sends them again."""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from esp.consumer.cluster import Cluster
from esp.consumer.connection import Deadline
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition
from esp.sink.errors import BeginAnewError
from esp.sink.order import BatchOrder
from esp.sink.partition_sender import PartitionSender
from esp.sink.rows import divide
from esp.sink.task import place_rows

_PIECE_BYTES = 8 * 1024 * 1024
"""The bytes of rows that are held to be sent together."""


def send_rows(batches: Iterable[pa.RecordBatch], order: BatchOrder) -> int:
    """Send the rows of a task; return their number.

    Raises:
        ConsumerError: rows cannot be written, or not in time.
    """
    senders: dict[int, PartitionSender] = {}
    count = 0
    with order.target.connect() as cluster:
        for piece in _pieces(batches):
            for rows in divide(place_rows(piece, order)):
                sender = senders.get(rows.partition) or _sender(cluster, order, rows.partition)
                senders[rows.partition] = sender
                _send(sender, rows.batches, order)
                count += rows.size
    return count


def _sender(cluster: Cluster, order: BatchOrder, number: int) -> PartitionSender:
    return PartitionSender(cluster, Partition(order.target.place.topic, number), order.target.write_terms)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterable[list[pa.RecordBatch]]:
    piece: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        piece.append(batch)
        size += batch.nbytes
        if size >= _PIECE_BYTES:
            yield piece
            piece, size = [], 0
    yield piece


def _send(sender: PartitionSender, rows: Sequence[pa.RecordBatch], order: BatchOrder) -> None:
    terms = order.target.write_terms
    deadline = Deadline(terms.timeout_s)
    while True:
        try:
            sender.send(rows, None)
        except BeginAnewError as error:
            if deadline.is_over:
                raise ConsumerError(f"rows were not written within {deadline.timeout_s:g} s: {error}") from error
        else:
            return
        deadline.pause(terms.backoff_s)
