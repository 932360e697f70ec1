"""Finishes produce requests that cannot be done at once: with batches whose codec is not their topic's, or whose transaction is to be
verified, or for very many partitions.

The first are recompressed beside the loop, for the second a coordinator is asked, the third are appended in slices, in turns with other
long requests; all in their order, and by the same rule as any other (:mod:`esp.broker.data_path.produce_appender`). The connection is held
until all of a request is appended, so that nothing of the same producer overtakes it (PRODUCE-8), while other connections go on. At most
two batches are recompressed, of however many connections: that bounds memory (:data:`esp.replication.topic_codec.OPENED_BYTES_MAX`), and
leaves threads for others.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from esp.broker.data_path.delayed_produce import DelayedProduce, Finish
from esp.broker.data_path.produce_appender import (
    Appending,
    ProduceAppender,
    Recompression,
    fail,
    why_refused,
)
from esp.broker.request import Request
from esp.broker.tasks import Tasks
from esp.broker.turns.cpu_share import CpuShare
from esp.broker.turns.long_requests import LongRequests
from esp.model.errors import ApiError, ErrorCode
from esp.ports.env import Env
from esp.protocol.errors import DecodeError
from esp.protocol.produce_codec import ProduceRequest, ProduceResult, encode_produce_response_in_slices
from esp.protocol.progress import SlicedWork
from esp.records.compression import Allocate
from esp.replication.partition_leader import ALL_REPLICAS
from esp.replication.topic_codec import recompress_for_topic
from esp.settings.topic import TopicSettings

AT_A_TIME: Final = 2


class Unfinished(NamedTuple):
    """A produce request some of whose partitions are still to be appended.

    ``results`` are those of the partitions that are done, and become those of all when ``appending`` has done the others. ``finish``
    answers, should they have to be waited for.
    """

    request: Request
    asked: ProduceRequest
    results: list[ProduceResult]
    appending: Appending
    finish: Finish


class LongProduce:
    """Takes over a request that cannot be finished at once.

    Args:
        env: the outside.
        tasks: the tasks in which its coroutines run.
        long_requests: the long requests with which it takes turns.
        appender: appends.
    """

    def __init__(
        self,
        env: Env,
        tasks: Tasks,
        long_requests: LongRequests,
        appender: ProduceAppender,
    ) -> None:
        self._clock = env.clock
        self._cpu = CpuShare(env.cpu, AT_A_TIME)
        self._tasks = tasks
        self._long_requests = long_requests
        self._appender = appender

    def take_over(self, unfinished: Unfinished) -> None:
        """Append the rest of a request, which waits for a recompression or a verification next, and answer."""
        unfinished.request.client.hold.begin()
        self._tasks.start(self._finish(unfinished), name="long produce", for_request=True)

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

        appending = self._appender.appending(request, asked, results, in_slices=True)
        await self._finish(Unfinished(request, asked, results, appending, finish))

    async def _finish(self, unfinished: Unfinished) -> None:
        request, asked, results, appending, finish = unfinished
        delayed = await self._run(appending)
        refusal = None
        if asked.acks == 0:
            refusal = why_refused(results)
        elif delayed is not None:
            delayed.start(self._clock, asked.timeout_ms, finish)
        elif asked.acks == ALL_REPLICAS:
            finish({})
        else:
            await self._reply(request, results)
        request.client.hold.end(refusal)

    async def _run(self, appending: Appending) -> DelayedProduce | None:
        """Do the rest of an appending; return what waits for the commit, if anything does."""
        try:
            awaited = next(appending)
            while not isinstance(awaited, DelayedProduce):
                if awaited is None:
                    await self._long_requests.turns.wait()
                    awaited = next(appending)
                    continue
                if not isinstance(awaited, Recompression):
                    await awaited
                    awaited = next(appending)
                    continue
                try:
                    recompressed = await self._cpu.run(
                        _recompress_copy, *awaited, self._clock.wall_ms(), self._cpu.allocate
                    )
                except ApiError as error:
                    awaited = appending.throw(error)
                else:
                    awaited = appending.send(memoryview(recompressed))
        except StopIteration:
            return None
        return awaited

    async def _reply(self, request: Request, results: Sequence[ProduceResult]) -> None:
        encoding = encode_produce_response_in_slices(request.api_version, request.correlation_id, results)
        request.reply((await self._long_requests.turns.run(encoding),))


def _recompress_copy(records: memoryview, settings: TopicSettings, now_ms: int, allocate: Allocate) -> bytearray:
    """Return the records with the topic's codec. The receive buffer is not changed, and not copied before it is this request's turn."""
    return recompress_for_topic(bytearray(records), settings, now_ms, allocate)
