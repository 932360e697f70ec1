"""WriteTxnMarkers (27), versions 1-2: coordinators end transactions in the partitions that this node leads (TXN-7, TXN-10).

Version 2 says by which transaction version a marker is checked; before it is 0.
"""

from collections.abc import Coroutine
from typing import Any

from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kio.static.primitive import i32

from esp.broker.data_path.marker_writer import write_markers
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.replication.end_marker import EndMarker


def handle(
    services: Services, _request: Request, message: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Coroutine[Any, Any, WriteTxnMarkersResponse]:
    """Append each marker to each partition that is named with it."""
    codes = write_markers(services, ((_end_marker(asked), _partitions(asked)) for asked in message.markers))
    return _later(message, codes) if isinstance(codes, Coroutine) else _response(message, codes)


async def _later(
    message: WriteTxnMarkersRequest, codes: Coroutine[Any, Any, list[ErrorCode]]
) -> WriteTxnMarkersResponse:
    return _response(message, await codes)


def _end_marker(asked: WritableTxnMarker) -> EndMarker:
    return EndMarker(
        asked.producer_id,
        asked.producer_epoch,
        asked.transaction_result,
        asked.coordinator_epoch,
        asked.transaction_version,
    )


def _partitions(asked: WritableTxnMarker) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in asked.topics for number in topic.partition_indexes]


def _response(message: WriteTxnMarkersRequest, codes: list[ErrorCode]) -> WriteTxnMarkersResponse:
    rest = iter(codes)
    return WriteTxnMarkersResponse(
        markers=tuple(
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=tuple(
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=tuple(
                            WritableTxnMarkerPartitionResult(partition_index=i32(partition), error_code=next(rest))
                            for partition in topic.partition_indexes
                        ),
                    )
                    for topic in marker.topics
                ),
            )
            for marker in message.markers
        )
    )
