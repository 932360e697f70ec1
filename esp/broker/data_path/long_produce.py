"""Finishes produce requests with batches whose codec is not their topic's: recompressed beside the loop, appended in their order.

Its connection is held until all of a request is appended, so that nothing of the same producer overtakes it (PRODUCE-8), while other
connections go on. At most two batches are worked at, of however many connections: that bounds memory
(:data:`esp.replication.topic_codec.OPENED_BYTES_MAX`), and leaves threads for others.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from esp.broker.connections.request import Request
from esp.broker.cpu_share import CpuShare
from esp.broker.data_path.delayed_produce import DelayedProduce
from esp.broker.replicas.hosted_partition import HostedPartition
from esp.broker.tasks import Tasks
from esp.model.errors import ApiError, ErrorCode
from esp.ports.env import Env
from esp.protocol.produce_codec import ProduceResult, TopicRef, encode_produce_response
from esp.replication.partition_leader import ALL_REPLICAS, Appended, PartitionLeader
from esp.replication.topic_codec import RecompressionNeededError, recompress_for_topic

AT_A_TIME: Final = 2

Find = Callable[[TopicRef, int, str | None], HostedPartition]
"""The replica of a topic's partition that a client may produce to; raises ApiError."""

Refuse = Callable[[HostedPartition | None, TopicRef, int, ApiError], ProduceResult]
"""Makes the result of a batch that was refused."""


class Unfinished(NamedTuple):
    """A produce request of which some partitions are done.

    ``results`` are those of the partitions that are done, and become those of all; ``delayed`` waits for partitions among them;
    ``partitions`` are the others.
    """

    request: Request
    acks: int
    timeout_ms: int
    zstd_allowed: bool
    partitions: Sequence[tuple[TopicRef, int, memoryview | None]]
    results: list[ProduceResult]
    delayed: DelayedProduce


class RecompressingProduce:
    """Takes over where a request cannot be finished at once.

    Args:
        env: the outside.
        tasks: where its coroutines live.
        find: as on the ordinary way.
        refuse: as on the ordinary way.
    """

    def __init__(self, env: Env, tasks: Tasks, find: Find, refuse: Refuse) -> None:
        self._clock = env.clock
        self._cpu = CpuShare(env.cpu, AT_A_TIME)
        self._tasks = tasks
        self._find = find
        self._refuse = refuse

    def begin(self, unfinished: Unfinished) -> None:
        """Append the rest of a request when it can be done, and answer."""
        copied = [
            (topic, partition, None if records is None else bytearray(records))
            for topic, partition, records in unfinished.partitions
        ]
        unfinished.request.client.hold.begin()
        self._tasks.start(self._finish(unfinished, copied), name="recompressing produce")

    async def _finish(
        self, unfinished: Unfinished, partitions: Sequence[tuple[TopicRef, int, bytearray | None]]
    ) -> None:
        request, results = unfinished.request, unfinished.results
        for topic, partition, records in partitions:
            results.append(await self._append(unfinished, topic, partition, records))
        refusal = None
        if unfinished.acks == 0:
            refusal = next((refusal_of(result) for result in results if result.error_code), None)
        elif unfinished.acks == ALL_REPLICAS:
            unfinished.delayed.start(self._clock, unfinished.timeout_ms)
            unfinished.delayed.look()
        else:
            request.reply((encode_produce_response(request.api_version, request.correlation_id, results),))
        request.client.hold.end(refusal)

    async def _append(
        self, unfinished: Unfinished, topic: TopicRef, partition: int, records: bytearray | None
    ) -> ProduceResult:
        hosted = None
        try:
            hosted = self._find(topic, partition, unfinished.request.client_id)
            leader = hosted.leading()
            if records is None:
                raise ApiError(ErrorCode.invalid_record, "A partition without records")
            try:
                base_offset, next_offset, append_time_ms = self._append_to(leader, unfinished, records)
            except RecompressionNeededError:
                records = await self._cpu.run(recompress_for_topic, records, hosted.log.settings, self._clock.wall_ms())
                hosted = self._find(topic, partition, unfinished.request.client_id)
                leader = hosted.leading()
                base_offset, next_offset, append_time_ms = leader.append(
                    memoryview(records), unfinished.acks, self._clock.wall_ms(), any_codec=True
                )
        except ApiError as error:
            return self._refuse(hosted, topic, partition, error)
        hosted.appended()
        if unfinished.acks == ALL_REPLICAS:
            unfinished.delayed.add(len(unfinished.results), hosted, next_offset, leader.leader_epoch)
        return ProduceResult(topic, partition, 0, base_offset, append_time_ms, hosted.log.log_start_offset)

    def _append_to(self, leader: PartitionLeader, unfinished: Unfinished, records: bytearray) -> Appended:
        return leader.append(
            memoryview(records), unfinished.acks, self._clock.wall_ms(), zstd_allowed=unfinished.zstd_allowed
        )


def refusal_of(result: ProduceResult) -> str:
    """Why a connection ends of which a request without an answer was refused (PRODUCE-4)."""
    return f"produce with acks=0 to {result.topic!r}-{result.partition} failed: {result.error_message}"
