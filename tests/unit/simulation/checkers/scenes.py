"""Nodes for tests of checkers: real logs on simulated disks, and of everything else what a checker asks for."""

from types import SimpleNamespace

from esp.model.ids import TopicId, TopicPartition
from esp.records.batch_header import read_header
from esp.simulation.checkers.replica_view import ReplicaView
from tests.unit.storage.helpers import PARTITION, TOPIC_ID, append, new_disk, new_log

KEY = (TOPIC_ID, PARTITION.partition)


class Hosted:
    """A replica; leading is told by an object with an epoch and an in-sync set."""

    def __init__(self, log, topic_id: TopicId = TOPIC_ID, name: TopicPartition = PARTITION) -> None:
        self.log = log
        self.topic_id = topic_id
        self.name = name
        self.leader = None
        self.is_offline = False

    def lead(self, epoch, *, isr=(1, 2, 3)):
        self.leader = SimpleNamespace(
            leader_epoch=epoch,
            state=SimpleNamespace(isr=isr, partition_epoch=0),
            maximal_isr=set(isr),
            has_enough_replicas=lambda: len(isr) > 1,
        )


class Node:
    """A node with one replica of one partition."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.name = f"node {node_id}"
        self.lives = 1
        self.disk = new_disk()
        self.clock = SimpleNamespace(latest_wall_ms=lambda: 0)
        self.directory, self.log = new_log(self.disk)
        self.hosted = Hosted(self.log)
        replicas = SimpleNamespace(by_topic={TOPIC_ID: {PARTITION.partition: self.hosted}})
        self.broker = SimpleNamespace(broker=SimpleNamespace(running=SimpleNamespace(replicas=replicas)), running=None)

    def take(self, data: bytes) -> None:
        """Append a copy of a batch that another node has, as it stands there."""
        self.log.append(data, read_header(data), 0)


def nodes_with(batches: int, count: int = 3) -> list[Node]:
    """Nodes whose logs are alike."""
    nodes = [Node(number) for number in range(1, count + 1)]
    for _ in range(batches):
        append_to_all(nodes)
    return nodes


def append_to_all(nodes, **batch) -> bytes:
    """Append one batch to all logs; returns its bytes."""
    data = append(nodes[0].log, **batch)
    for node in nodes[1:]:
        node.take(data)
    return data


def view_of(node: Node) -> ReplicaView:
    """A node's replica as its files show it."""
    view = ReplicaView(node.name, node.disk, node.log.path, TOPIC_ID, node.log.log_start_offset)
    view.read_to(node.log.log_end_offset)
    return view
