"""AlterPartition (56), versions 2-3: a leader changes the in-sync set of its partitions (ISR-6 to ISR-8)."""

from kio.schema.alter_partition.v2 import request as v2
from kio.schema.alter_partition.v3 import request as v3
from kio.schema.alter_partition.v3.response import AlterPartitionResponse, PartitionData, TopicData
from kio.schema.types import BrokerId
from kio.static.primitive import i8, i32

from esp.broker.answer_fields import NO_THROTTLE, broker_ids
from esp.broker.controller.services import ControllerServices
from esp.broker.request import Request
from esp.controller.alter_partition import UNCHECKED_EPOCH, IsrProposal, decide_alter_partition
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import ZERO_UUID, BrokerEpoch, LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.schemas.metadata_records import RECOVERED, RECOVERING


async def handle_at_controller(
    services: ControllerServices,
    _request: Request,
    message: v3.AlterPartitionRequest | v2.AlterPartitionRequest,
) -> AlterPartitionResponse:
    """Answer each partition with its new state, or why it has none."""
    changes = [
        _change(TopicId(topic.topic_id or ZERO_UUID), partition)
        for topic in message.topics
        for partition in topic.partitions
    ]
    controller = services.controller
    sender, broker_epoch = NodeId(message.broker_id), BrokerEpoch(message.broker_epoch)
    results = iter(
        await controller.commit(
            lambda image: decide_alter_partition(image, sender, broker_epoch, changes),
            "Alter partition",
        )
    )
    return AlterPartitionResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        topics=tuple(
            TopicData(
                topic_id=topic.topic_id,
                partitions=tuple(_answer(partition.partition_index, next(results)) for partition in topic.partitions),
            )
            for topic in message.topics
        ),
    )


def _change(topic_id: TopicId, partition: v3.PartitionData | v2.PartitionData) -> IsrProposal:
    if isinstance(partition, v2.PartitionData):  # it knows nothing of broker epochs
        new_isr = tuple((NodeId(node), UNCHECKED_EPOCH) for node in partition.new_isr)
    else:
        new_isr = tuple(
            (NodeId(state.broker_id), BrokerEpoch(state.broker_epoch)) for state in partition.new_isr_with_epochs
        )
    return IsrProposal(
        topic_id=topic_id,
        partition=partition.partition_index,
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        partition_epoch=partition.partition_epoch,
        new_isr=new_isr,
        recovering=partition.leader_recovery_state == RECOVERING,
    )


def _answer(number: i32, result: PartitionState | ApiError) -> PartitionData:
    if isinstance(result, ApiError):
        return PartitionData(
            partition_index=number,
            error_code=result.code,
            leader_id=BrokerId(0),
            leader_epoch=i32(0),
            partition_epoch=i32(0),
        )
    return PartitionData(
        partition_index=number,
        error_code=ErrorCode.none,
        leader_id=BrokerId(result.leader),
        leader_epoch=i32(result.leader_epoch),
        isr=broker_ids(result.isr),
        leader_recovery_state=i8(RECOVERING if result.recovering else RECOVERED),
        partition_epoch=i32(result.partition_epoch),
    )
