"""Whether a cluster that is left alone comes to rest, with everything where it belongs."""

from collections.abc import Iterable

from esp.controller.image import ClusterImage
from esp.simulation.checkers import probe
from esp.simulation.checkers.replica_checker import ReplicaChecker
from esp.simulation.node import SimulatedNode
from esp.simulation.workload.history import SentBatch


def find_unconverged(image: ClusterImage, nodes: Iterable[SimulatedNode], replicas: ReplicaChecker) -> list[str]:
    """What is not yet as LIVE-ISR wants it, as sentences.

    Args:
        image: the metadata that counts.
        nodes: those that serve and reach one another.
        replicas: what the replicas hold.
    """
    core = {node.node_id: node for node in nodes}
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
        if replicas.awaits_help((topic.topic_id, state.partition)):
            continue
        expected = {replica for replica in state.replicas if replica in core}
        if set(state.isr) != expected or state.leader not in expected:
            found.append(f"{name} has the leader {state.leader} and the ISR {state.isr}, not {sorted(expected)}")
        ends = set()
        for node_id in sorted(expected):
            view = replicas.views.get(node_id, {}).get((topic.topic_id, state.partition))
            ends.add((view.high_watermark, view.end_offset) if view is not None else None)
        if len(ends) > 1 or any(end is None or end[0] != end[1] for end in ends):
            found.append(f"{name} has replicas with (high watermark, log end) {sorted(map(str, ends))}")
    return found


def find_silent_lanes(batches: Iterable[SentBatch], since_s: float, image: ClusterImage) -> list[str]:
    """Partitions to which an idempotent producer got nothing through since a moment (LIVE-PRODUCE)."""
    last: dict[tuple[str, str, int], float] = {}
    for batch in batches:
        if batch.is_idempotent and batch.topic_id in image.topics_by_id:
            key = (batch.producer, batch.topic, batch.partition)
            last[key] = max(last.get(key, -1.0), batch.acked_s)
    return [
        f"{producer} to {topic}-{number}" for (producer, topic, number), acked_s in last.items() if acked_s < since_s
    ]
