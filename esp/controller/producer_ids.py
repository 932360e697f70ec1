"""Blocks of producer ids (PROD-10): each id is handed out once in the life of a cluster."""

from typing import Final

from esp.controller.brokers import require_broker_epoch
from esp.controller.decision import Decision
from esp.controller.image import ClusterImage
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import BrokerEpoch, NodeId
from esp.schemas.metadata_records import ProducerIdsRecord
from esp.settings.setting import LONG_MAX

BLOCK_SIZE: Final = 1000


def decide_producer_id_block(image: ClusterImage, node_id: NodeId, broker_epoch: BrokerEpoch) -> Decision[range]:
    """Give a broker the next block.

    Raises:
        ApiError: STALE_BROKER_EPOCH, if the broker has registered anew meanwhile; UNKNOWN_SERVER_ERROR, if there is no block left.
    """
    require_broker_epoch(image, node_id, broker_epoch)
    if image.next_producer_id > LONG_MAX - BLOCK_SIZE:
        raise ApiError(
            ErrorCode.unknown_server_error,
            "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
        )
    block = range(image.next_producer_id, image.next_producer_id + BLOCK_SIZE)
    assert 0 <= block.start < block.stop, "each id is handed out once (PROD-10)"
    record = ProducerIdsRecord(broker_id=node_id, broker_epoch=broker_epoch, next_producer_id=block.stop)
    return Decision((record,), block)
