"""The offset at which a leader's log would start after a power loss, by the bytes on its device."""

from esp.model.ids import TopicPartition
from esp.simulation.checkers import probe
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.storage.checkpoints import decode_checkpoint
from esp.storage.layout import LOG_START_FILE


def find_durable_log_start(node: SimulatedNode, name: TopicPartition, leader_epoch: int) -> int | None:
    """The offset, by the checkpoint of the log directory that holds the log.

    None if the node does not lead the partition in this epoch any more, or that checkpoint has rotted.
    """
    hosted = next((hosted for hosted in probe.hosted_partitions(node) if hosted.name == name), None)
    leader = hosted.leader if hosted is not None and node.is_alive else None
    if hosted is None or leader is None or leader.leader_epoch != leader_epoch or node.disk_was_faulty:
        return None
    directory, _, _ = hosted.log.path.rpartition("/")
    content = node.disk.content(f"{directory}/{LOG_START_FILE}")
    if content is not None and content.rotten:
        return None
    written = decode_checkpoint(bytes(content.durable)) if content is not None else {}
    return max(written.get(name, 0), hosted.log.first_segment_offset)
