"""LIVE-ISR: a cluster that is left alone comes to rest, with everything where it belongs."""

from collections.abc import Collection, Iterable, Mapping

from esp.controller.image import ClusterImage
from esp.controller.partition_change import is_online
from esp.model.ids import NO_NODE, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.simulation.checkers import probe
from esp.simulation.checkers.replica_checker import ReplicaChecker
from esp.simulation.excuses import Excuse, note
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.rot import find_rotten_copies
from esp.simulation.workload.history import LaneKey


def find_stranded(image: ClusterImage, core: Collection[int]) -> list[tuple[TopicId, int]]:
    """Partitions without a leader that wait for an operator, or for a node that never recovers.

    Where the minimum is one, the last in-sync replica may have come to be alone while the core was chosen. In runs beyond the promise every
    disk with a complete copy may be gone; and a last known leader that lost power may have lost the whole of a log that was never flushed
    (BRK-11). INV-LAST-COPY holds that there is a candidate within the promise.
    """
    stranded = []
    for topic, state in image.partitions():
        candidates = {*state.isr, *state.elr, *state.last_known_elr}
        is_gone = not any(_has_disk(image, state, node) for node in candidates)
        is_left = image.min_insync_replicas(topic, len(state.replicas)) == 1 and not candidates.intersection(core)
        if state.leader == NO_NODE and (is_left or is_gone):
            if not is_gone:
                note(Excuse.STRANDED_OUTSIDE)
            stranded.append((topic.topic_id, state.partition))
    return stranded


def _has_disk(image: ClusterImage, state: PartitionState, node_id: NodeId) -> bool:
    """True if a replica's directory is on the disk with which its broker registered last (ELECT-1), or if the broker is gone."""
    broker = image.brokers.get(node_id)
    return broker is None or is_online(state, broker)


def find_helpless(image: ClusterImage, core: Collection[int], replicas: ReplicaChecker) -> list[tuple[TopicId, int]]:
    """Partitions that no replica may lead until an operator has decided something, or a node that never recovers is back."""
    waiting = [
        key for topic, state in image.partitions() if replicas.awaits_help(key := (topic.topic_id, state.partition))
    ]
    return [*find_stranded(image, core), *waiting]


def find_unconverged(image: ClusterImage, nodes: Iterable[SimulatedNode], replicas: ReplicaChecker) -> list[str]:
    """The problems that remain before LIVE-ISR holds, as sentences.

    Args:
        image: the metadata that counts.
        nodes: the nodes that serve and reach one another.
        replicas: what the replicas hold.
    """
    core = {node.node_id: node for node in nodes}
    stranded = find_stranded(image, core)
    found = [
        f"{node.name} has metadata up to {probe.image(node).offset} of {image.offset}"
        for node in core.values()
        if probe.image(node).topics_by_id != image.topics_by_id
    ]
    found += [
        f"broker {broker_id} is fenced"
        for broker_id, broker in image.brokers.items()
        if broker.fenced and broker_id in core
    ]
    for topic, state in image.partitions():
        name = f"{topic.name}-{state.partition}"
        key = (topic.topic_id, state.partition)
        if replicas.awaits_help(key) or key in stranded:
            continue
        if state.is_reassigning and set(state.target_replicas) <= core.keys():
            found.append(f"{name} is still being reassigned: {state.target_replicas} of {state.replicas}")
        expected = {replica for replica in state.replicas if replica in core}
        if set(state.isr) != expected or state.leader not in expected:
            found.append(f"{name} has the leader {state.leader} and the ISR {state.isr}, not {sorted(expected)}")
        ends = set()
        for node_id in sorted(expected):
            view = replicas.views.get(node_id, {}).get(key)
            ends.add((view.high_watermark, view.end_offset) if view is not None else None)
        if len(ends) > 1 or any(end is None or end[0] != end[1] for end in ends):
            found.append(f"{name} has replicas with (high watermark, log end) {sorted(map(str, ends))}")
    return found


def find_silent_lanes(lanes: Mapping[LaneKey, float], since_s: float, image: ClusterImage) -> list[LaneKey]:
    """Partitions to which an idempotent producer got nothing through since a moment (LIVE-PRODUCE), of topics that are still there."""
    return [lane for lane, acked_s in lanes.items() if acked_s < since_s and lane.topic_id in image.topics_by_id]


def find_rot_in_service(nodes: Iterable[SimulatedNode]) -> list[str]:
    """Sealed segments that have rotted from the log start on and are counted on though others could do without them (REC-4)."""
    found = []
    for node in nodes:
        rotten = {target.path: target for target in find_rotten_copies(node.disk)}
        for hosted in probe.hosted_partitions(node):
            state = hosted.state
            if state is None or hosted.is_offline or set(state.isr) <= {node.node_id}:
                continue
            sealed_end = f"{hosted.log.path}/{hosted.log.sealed_end_offset:020d}.log"
            found += [
                f"{node.name} has rot in {path}"
                for path, target in sorted(rotten.items())
                if path.startswith(f"{hosted.log.path}/")
                and path < sealed_end
                and max(target.content.rotten) >= target.bytes_below(hosted.log.log_start_offset)
            ]
    return found
