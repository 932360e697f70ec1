"""Finishes produce requests that cannot be done at once: with batches whose codec is not their topic's, or for very many partitions.

The first are recompressed beside the loop, the second appended in slices, in turns with other long requests; all in their order. The
connection is held until all of a request is appended, so that nothing of the same producer overtakes it (PRODUCE-8), while other
connections go on. At most two batches are recompressed, of however many connections: that bounds memory
(:data:`esp.replication.topic_codec.OPENED_BYTES_MAX`), and leaves threads for others.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from esp.broker.data_path.delayed_produce import DelayedProduce
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.request import Request
from esp.broker.tasks import Tasks
from esp.broker.turns.cpu_share import CpuShare
from esp.broker.turns.long_requests import LongRequests
from esp.model.errors import ApiError, ErrorCode
from esp.ports.env import Env
from esp.protocol.errors import DecodeError
from esp.protocol.produce_codec import (
    ProduceRequest,
    ProduceResult,
    TopicRef,
    encode_produce_response_in_slices,
)
from esp.protocol.progress import SLICE_ELEMENTS, SlicedWork
from esp.replication.partition_leader import ALL_REPLICAS
from esp.replication.refused_batches import RefusedBatches
from esp.replication.topic_codec import RecompressionNeededError, recompress_for_topic
from esp.settings.topic import TopicSettings

AT_A_TIME: Final = 2
ZSTD_FROM: Final = 7
_ACKS: Final = frozenset((-1, 0, 1))

Find = Callable[[TopicRef, int, str | None], HostedPartition]
"""The replica of a topic's partition that a client may produce to; raises ApiError."""

Refuse = Callable[[RefusedBatches, HostedPartition | None, TopicRef, int, memoryview | None, ApiError], ProduceResult]
"""Makes the result of a batch that was refused, and has the connection remember that."""


class Unfinished(NamedTuple):
    """A produce request of which some partitions are done.

    ``results`` are those of the partitions that are done, and become those of all; ``delayed`` waits for partitions among them;
    ``partitions`` are the others. With a ``refusal`` none of them is appended.
    """

    request: Request
    acks: int
    timeout_ms: int
    refusal: ApiError | None
    partitions: Sequence[tuple[TopicRef, int, memoryview | None]]
    results: list[ProduceResult]
    delayed: DelayedProduce


class LongProduce:
    """Takes over where a request cannot be finished at once.

    Args:
        env: the outside.
        tasks: where its coroutines live.
        long_requests: with whom it takes turns.
        find: as on the ordinary way.
        refuse: as on the ordinary way.
    """

    def __init__(self, env: Env, tasks: Tasks, long_requests: LongRequests, find: Find, refuse: Refuse) -> None:
        self._clock = env.clock
        self._cpu = CpuShare(env.cpu, AT_A_TIME)
        self._tasks = tasks
        self._long_requests = long_requests
        self._find = find
        self._refuse = refuse

    def recompress(self, unfinished: Unfinished) -> None:
        """Append the rest of a request, whose next batch is to be recompressed, and answer."""
        unfinished.request.client.hold.begin()
        self._tasks.start(self._finish(unfinished), name="recompressing produce")

    def begin(self, request: Request, size: int, decoding: SlicedWork[ProduceRequest]) -> None:
        """Append what a request of ``size`` bytes has for many partitions, and answer."""
        self._long_requests.work(request, size, partial(self._read_and_finish, request, decoding))

    async def _read_and_finish(self, request: Request, decoding: SlicedWork[ProduceRequest]) -> None:
        try:
            asked = await self._long_requests.turns.run(decoding)
        except DecodeError as error:
            request.client.hold.end(str(error))
            return
        results: list[ProduceResult] = []

        def finish(failed: Mapping[int, ErrorCode]) -> None:
            fail(results, failed)
            self._tasks.start(self._reply(request, results), name="long produce")

        refusal = refusal_of_request(asked)
        await self._finish(
            Unfinished(
                request, asked.acks, asked.timeout_ms, refusal, asked.partitions, results, DelayedProduce(finish)
            )
        )

    async def _finish(self, unfinished: Unfinished) -> None:
        request, results = unfinished.request, unfinished.results
        for done, (topic, partition, records) in enumerate(unfinished.partitions):
            if done % SLICE_ELEMENTS == SLICE_ELEMENTS - 1:
                await self._long_requests.turns.wait()
            results.append(await self._append(unfinished, topic, partition, records))
        refusal = None
        if unfinished.acks == 0:
            refusal = next((why_refused(result) for result in results if result.error_code), None)
        elif unfinished.acks == ALL_REPLICAS:
            unfinished.delayed.start(self._clock, unfinished.timeout_ms)
        else:
            await self._reply(request, results)
        request.client.hold.end(refusal)

    async def _reply(self, request: Request, results: Sequence[ProduceResult]) -> None:
        encoding = encode_produce_response_in_slices(request.api_version, request.correlation_id, results)
        request.reply((await self._long_requests.turns.run(encoding),))

    async def _append(
        self, unfinished: Unfinished, topic: TopicRef, partition: int, records: memoryview | None
    ) -> ProduceResult:
        request = unfinished.request
        refused = request.client.refused
        hosted = None
        try:
            if unfinished.refusal is not None:
                raise unfinished.refusal
            hosted = self._find(topic, partition, request.client_id)
            leader = hosted.leading()
            if refused.by_partition:
                refused.check((topic, partition), records, leader.log.producers)
            if records is None:
                raise ApiError(ErrorCode.invalid_record, "A partition without records")
            try:
                base_offset, next_offset, append_time_ms = leader.append(
                    records,
                    unfinished.acks,
                    self._clock.wall_ms(),
                    zstd_allowed=request.api_version >= ZSTD_FROM,
                )
            except RecompressionNeededError:
                recompressed = await self._cpu.run(
                    _recompress_copy, records, hosted.log.settings, self._clock.wall_ms()
                )
                hosted = self._find(topic, partition, request.client_id)
                leader = hosted.leading()
                base_offset, next_offset, append_time_ms = leader.append(
                    memoryview(recompressed), unfinished.acks, self._clock.wall_ms(), any_codec=True
                )
        except ApiError as error:
            return self._refuse(refused, hosted, topic, partition, records, error)
        hosted.appended()
        if unfinished.acks == ALL_REPLICAS and hosted.log.high_watermark < next_offset:
            unfinished.delayed.add(len(unfinished.results), hosted, next_offset, leader.leader_epoch)
        return ProduceResult(topic, partition, 0, base_offset, append_time_ms, hosted.log.log_start_offset)


def _recompress_copy(records: memoryview, settings: TopicSettings, now_ms: int) -> bytearray:
    """What stands where it was received is left as it is; it is not copied before it is this request's turn."""
    return recompress_for_topic(bytearray(records), settings, now_ms)


def refusal_of_request(asked: ProduceRequest) -> ApiError | None:
    """Why nothing of a request is appended, if that is so."""
    if asked.acks not in _ACKS:
        return ApiError(ErrorCode.invalid_required_acks)
    if asked.transactional_id is not None:
        return ApiError(ErrorCode.transactional_id_authorization_failed, "Transactions are not served yet")
    return None


def fail(results: list[ProduceResult], failed: Mapping[int, ErrorCode]) -> None:
    """Put errors, by their places, in the place of what was appended and not acknowledged."""
    for place, code in failed.items():
        topic, partition = results[place][:2]
        results[place] = ProduceResult(topic, partition, code, -1)


def why_refused(result: ProduceResult) -> str:
    """Why a connection ends of which a request without an answer was refused (PRODUCE-4)."""
    return f"produce with acks=0 to {result.topic!r}-{result.partition} failed: {result.error_message}"
