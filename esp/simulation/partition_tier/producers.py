"""The producers of a simulated partition: one that is promised everything, and one that is promised nothing."""

from collections.abc import Callable
from typing import Final

from crc32c import crc32c

from esp.model.errors import ErrorCode
from esp.records.batch_header import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE,
    SIZE_BEFORE_LENGTH_ENDS,
    TRANSACTIONAL_BIT,
    BatchHeader,
    pack_header,
)
from esp.simulation.partition_tier.node import PartitionNode
from esp.simulation.partition_tier.profile import SECOND_US
from esp.simulation.partition_tier.world import PartitionWorld

PRODUCE_TIMEOUT_US: Final = 2 * SECOND_US
PAYLOAD_BYTES: Final = 8
STREAM_INTERVAL_US: Final = 300
"""Less than a fetch takes there and back."""


class PartitionProducers:
    """Two clients of the partition.

    Args:
        world: the partition's brokers, and the way to them.
        draw_size: draws the number of records in the next batch.
    """

    def __init__(self, world: PartitionWorld, draw_size: Callable[[], int]) -> None:
        self._world = world
        self._draw_size = draw_size
        self._payloads = 0
        self._producer = (1, 0)
        self._wanted: bytes | None = None
        self._records = 1
        """The number of records of the batch that is wanted."""
        self._request_id = 0

    def start(self) -> None:
        """Begin after a second."""
        self._world.later(SECOND_US, self._produce)
        self._world.later(SECOND_US, self._produce_unsafely)

    def is_waiting_for(self, request_id: int) -> bool:
        """True if the answer to this request still counts."""
        return request_id == self._request_id

    def _produce(self) -> None:
        """An idempotent producer with acks=all: one batch after another, each repeated until it is acknowledged."""
        if self._wanted is None:
            self._payloads += 1
            self._wanted = self._payloads.to_bytes(PAYLOAD_BYTES, "big")
            self._records = self._draw_size()
        self._request_id += 1
        leader = self._believed_leader()
        if leader is not None and not self._world.is_cut_off(leader.node_id):
            batch = make_batch(self._wanted, *self._producer, self._records)
            self._world.later(
                self._world.delay_us(),
                self._world.arrive,
                leader,
                leader.incarnation,
                leader.on_produce,
                (batch, self._request_id, -1),
            )
        self._world.later(PRODUCE_TIMEOUT_US, self.on_produced, self._request_id, ErrorCode.request_timed_out, -1)

    def _believed_leader(self) -> PartitionNode | None:
        if self._world.random.random() < 0.1:
            return self._world.random.choice(self._world.nodes)
        leader = self._world.controller.image.partition.leader
        return None if leader < 0 else self._world.nodes[leader]

    def on_produced(self, request_id: int, error: ErrorCode, base_offset: int) -> None:
        """The answer to a request, or REQUEST_TIMED_OUT if none came; only the first one to the last request counts."""
        if request_id != self._request_id:
            return
        self._request_id += 1
        delay_us = 100_000
        producer_id, sequence = self._producer
        if error is ErrorCode.none:
            assert self._wanted is not None
            self._world.note(f"acknowledged {base_offset}")
            self._world.checks.acknowledged(base_offset, self._wanted)
            self._wanted = None
            self._producer = producer_id, sequence + self._records
            delay_us = self._world.profile.produce_interval_us
            if self._world.is_quiet:
                return
        elif error is ErrorCode.out_of_order_sequence_number and not self._world.checks.durability_is_owed:
            self._producer = producer_id + 1, 0
        self._world.later(delay_us, self._produce)

    def _produce_unsafely(self) -> None:
        """A producer with acks=1, which leaves uncommitted records at a replica that believes to lead."""
        if self._world.is_quiet:
            return
        self._payloads += 1
        batch = make_batch(self._payloads.to_bytes(PAYLOAD_BYTES, "big"), -1, -1, self._draw_size())
        node = self._world.random.choice(self._world.nodes)
        if not self._world.is_cut_off(node.node_id):
            self._world.arrive(node, node.incarnation, node.on_produce, (batch, -1, 1))
        self._world.later(
            int(self._world.profile.produce_interval_us * self._world.random.expovariate(1)), self._produce_unsafely
        )

    def stream(self, end_us: int) -> None:
        """Let one batch after another come to the leader, with acks=1, up to a moment."""
        world = self._world
        leader = world.controller.image.partition.leader
        if leader >= 0:
            self._payloads += 1
            batch = make_batch(self._payloads.to_bytes(PAYLOAD_BYTES, "big"), -1, -1)
            node = world.nodes[leader]
            world.arrive(node, node.incarnation, node.on_produce, (batch, -1, 1))
        if world.now_us < end_us:
            world.later(STREAM_INTERVAL_US, self.stream, end_us)


def make_batch(
    payload: bytes, producer_id: int, sequence: int, records: int = 1, *, epoch: int = 0, is_transactional: bool = False
) -> bytes:
    """A batch, as far as a broker looks at it: records are not opened."""
    header = BatchHeader(
        base_offset=0,
        batch_length=HEADER_SIZE - SIZE_BEFORE_LENGTH_ENDS + len(payload),
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=TRANSACTIONAL_BIT if is_transactional else 0,
        last_offset_delta=records - 1,
        base_timestamp=-1,
        max_timestamp=-1,
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else epoch,
        base_sequence=sequence,
        record_count=records,
    )
    data = pack_header(header) + payload
    return pack_header(header._replace(crc=crc32c(data[ATTRIBUTES_OFFSET:]))) + payload
