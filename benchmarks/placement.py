"""Measures the planner: CPU time and quality of plans for a large cluster. Usage: python -m benchmarks.placement [--brokers N] [...].

Replicas are thrown at random onto all brokers but some that are new. The bound beside a spread's bytes is what full brokers have above the
band of tolerance, or what others lack below it, whichever is more: no plan that evens out bytes can copy less.
"""

import argparse
import time
from collections import Counter
from random import Random
from typing import Final

from esp.model.ids import NodeId
from esp.placement.cluster_view import BrokerView, ClusterView, PartitionView
from esp.placement.intents import Drain, PlannedIntent, Spread, Swap
from esp.placement.limits import MIB, Limits
from esp.placement.plan import Plan
from esp.placement.planner import make_plan
from esp.placement.shares import fair_shares

_FACTOR: Final = 3
_TOPICS: Final = 200


def make_view(rng: Random, *, brokers: int, new: int, partitions: int, racks: int, sigma: float) -> ClusterView:
    """A cluster whose sizes are log-normal with a median of 100 MiB."""
    old_by_rack: dict[int, list[int]] = {}
    for node in range(brokers - new):
        old_by_rack.setdefault(node % racks, []).append(node)
    used: Counter[NodeId] = Counter()
    made = []
    for number in range(partitions):
        chosen = rng.sample(sorted(old_by_rack), _FACTOR)
        replicas = tuple(NodeId(rng.choice(old_by_rack[rack])) for rack in chosen)
        size_bytes = int(100 * MIB * rng.lognormvariate(0, sigma))
        for node in replicas:
            used[node] += size_bytes
        topic, partition = f"topic-{number % _TOPICS}", number // _TOPICS
        made.append(PartitionView(topic, partition, replicas, replicas[0], replicas, size_bytes, 2))
    capacity = int(max(used.values()) / 0.8)
    views = (
        BrokerView(NodeId(node), f"rack-{node % racks}", True, False, capacity, used[NodeId(node)])
        for node in range(brokers)
    )
    return ClusterView("benchmark", tuple(views), tuple(made))


def least_bytes(view: ClusterView, tolerance: float) -> float:
    """The least number of bytes that any plan copies to bring all brokers into the band of bytes."""
    racks: dict[str | None, list[NodeId]] = {}
    for broker in view.brokers:
        racks.setdefault(broker.rack, []).append(broker.broker_id)
    shares = fair_shares(racks, {_FACTOR: sum(partition.size_bytes for partition in view.partitions)})
    held = {broker.broker_id: broker.disk_used_bytes for broker in view.brokers}
    groups = list(racks.values()) if len(racks) == _FACTOR else [list(held)]
    return sum(
        max(
            sum(max(0.0, held[node] - shares[node] * (1 + tolerance)) for node in group),
            sum(max(0.0, shares[node] * (1 - tolerance) - held[node]) for node in group),
        )
        for group in groups
    )


def main() -> None:
    """Plan, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    brokers, limits = arguments.brokers, Limits()
    print(
        "cluster                    intent   CPU-s   moves  steps   copied GB   of bound   bytes most/mean   replicas"
    )
    for racks, new, sigma in ((10, 0, 1.0), (10, brokers // 5, 1.0), (3, brokers // 11, 1.0), (5, brokers // 3, 0.0)):
        rng = Random(arguments.seed)
        view = make_view(rng, brokers=brokers, new=new, partitions=arguments.partitions, racks=racks, sigma=sigma)
        intents: tuple[PlannedIntent, ...] = (
            Spread(),
            Drain((NodeId(0), NodeId(1))),
            Swap(NodeId(0), NodeId(racks)),
        )
        for intent in intents:
            began = time.process_time()
            plan = make_plan(view, intent, limits, arguments.seed)
            cpu_s = time.process_time() - began
            assert isinstance(plan, Plan), plan.reasons[:3]
            bound = f"{plan.copied_bytes / least_bytes(view, limits.tolerance):8.3f}" if intent == Spread() else " " * 8
            name = f"{racks} racks, {new} new, sigma {sigma}"
            print(
                f"{name:26} {type(intent).__name__:7} {cpu_s:6.2f} {len(plan.moves):7} {len(plan.steps):6}"
                f" {plan.copied_bytes / 1e9:11.1f} {bound:>10}"
                f" {plan.imbalance_before.size_bytes:9.3f} -> {plan.imbalance_after.size_bytes:.3f}"
                f" {plan.imbalance_after.replicas:10.3f}"
            )


if __name__ == "__main__":
    main()
