"""AssignReplicasToDirs (73): a broker says where it has put its replicas (KIP-858)."""

from kio.schema.assign_replicas_to_dirs.v0.request import AssignReplicasToDirsRequest
from kio.schema.assign_replicas_to_dirs.v0.response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.controller.services import ControllerServices
from esp.broker.request import Request
from esp.controller.directories import decide_assign_directories
from esp.model.errors import ErrorCode
from esp.model.ids import ZERO_UUID, BrokerEpoch, DirectoryId, NodeId, TopicId


async def handle_at_controller(
    services: ControllerServices, _request: Request, message: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    """Answer each replica with success or why there is none."""
    wanted = [
        (DirectoryId(directory.id_ or ZERO_UUID), TopicId(topic.topic_id or ZERO_UUID), partition.partition_index)
        for directory in message.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]
    controller = services.controller
    node_id, broker_epoch = NodeId(message.broker_id), BrokerEpoch(message.broker_epoch)
    errors = iter(
        await controller.commit(
            lambda image: decide_assign_directories(image, node_id, broker_epoch, wanted),
            "Assign replicas to directories",
        )
    )
    codes = (ErrorCode.none if error is None else error.code for error in errors)
    return AssignReplicasToDirsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        directories=tuple(
            DirectoryData(
                id_=directory.id_,
                topics=tuple(
                    TopicData(
                        topic_id=topic.topic_id,
                        partitions=tuple(
                            PartitionData(partition_index=partition.partition_index, error_code=next(codes))
                            for partition in topic.partitions
                        ),
                    )
                    for topic in directory.topics
                ),
            )
            for directory in message.directories
        ),
    )
