"""Produce (0), versions 3-13: the hot path in.

Each partition's batch goes from the receive buffer through the leader's checks into the log; the request is answered at once if all of it
is committed by then, or if it does not ask for that. Version 13 names topics by id. Versions 0-2 are advertised and not served:
old librdkafka compresses only then. Requests of these versions end the connection, as in Kafka.

Deviation from Kafka: records inside a batch are not opened, unless their topic has another codec; header fields are held against one
another.
"""

from esp.broker.data_path.delayed_produce import DelayedProduce, Finish
from esp.broker.data_path.long_produce import LongProduce, Unfinished
from esp.broker.data_path.produce_appender import ProduceAppender, fail, why_refused
from esp.broker.data_path.produce_repetitions import ProduceRepetitions, begins_transaction, can_be_repeated
from esp.broker.request import LATER, NEVER, Answer, Request
from esp.broker.services import Services
from esp.broker.tasks import Tasks
from esp.broker.turns.long_requests import LongRequests
from esp.model.errors import ErrorCode
from esp.protocol.errors import DecodeError
from esp.protocol.produce_codec import (
    ProduceRequest,
    ProduceResult,
    begin_decoding_produce,
    encode_produce_response,
    read_acks,
)


class RefusedWithoutAnswerError(DecodeError):
    """A produce request that wants no answer was refused: ending the connection is all that can tell its sender (PRODUCE-4)."""


class ProduceHandler:
    """Appends the batches that producers send.

    Args:
        services: the node's parts.
        tasks: the tasks in which requests wait that cannot be finished at once.
        long_requests: the long requests, with which requests for many partitions take turns.
    """

    def __init__(self, services: Services, tasks: Tasks, long_requests: LongRequests) -> None:
        self._clock = services.env.clock
        self._appender = ProduceAppender(services)
        self._long = LongProduce(services.env, tasks, long_requests, self._appender)

    def handle(self, request: Request, body: memoryview) -> Answer:
        """Append every partition's batch; see :mod:`esp.broker.connections.dispatcher` for the answer.

        Raises:
            DecodeError: the body is no Produce request, or one with acks=0 was refused.
        """
        version = request.api_version
        asked = begin_decoding_produce(body, version)
        if not isinstance(asked, ProduceRequest):
            self._long.begin(request, len(body), asked)
            return NEVER if read_acks(body, version) == 0 else LATER
        acks = asked.acks
        results: list[ProduceResult] = []
        appending = self._appender.appending(request, asked, results, in_slices=False)
        for awaited in appending:
            if isinstance(awaited, DelayedProduce):
                awaited.start(self._clock, asked.timeout_ms, _finish(request, results))
                return LATER
            self._long.take_over(Unfinished(request, asked, results, appending, _finish(request, results)))
            return NEVER if acks == 0 else LATER
        if acks == 0:
            refusal = why_refused(results)
            if refusal is not None:
                raise RefusedWithoutAnswerError(refusal)
            return NEVER
        if len(results) == 1 and not results[0].error_code:
            self._remember(request, asked, results[0].base_offset)
        return (encode_produce_response(version, request.correlation_id, results),)

    def _remember(self, request: Request, asked: ProduceRequest, base_offset: int) -> None:
        """Answer repetitions of a request for one partition by the shorter way, from now on."""
        if not can_be_repeated(request.api_version, asked.transactional_id):
            return
        topic, partition, records = asked.partitions[0]
        hosted = self._appender.find(topic, partition, request)
        if (
            asked.transactional_id is not None
            and records is not None
            and begins_transaction(hosted, records, base_offset)
        ):
            return  # it went the ordinary way, as the first batch of the next transaction will; a second batch is worth a short way
        client = request.client
        shortcut = client.shortcut
        if not isinstance(shortcut, ProduceRepetitions):
            shortcut = ProduceRepetitions(request, asked.transactional_id, self._clock, self._appender)
            client.shortcut = shortcut
        shortcut.remember(request, asked, hosted)


def _finish(request: Request, results: list[ProduceResult]) -> Finish:
    """Return the function that answers a request when it has waited for its commit."""

    def finish(failed: dict[int, ErrorCode]) -> None:
        fail(results, failed)
        # One commit answers several requests of a producer; each write of its own would be a system call, and wake the producer.
        answer = encode_produce_response(request.api_version, request.correlation_id, results)
        request.reply((answer,), at_once=False)

    return finish
