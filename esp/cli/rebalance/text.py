"""A plan in words for people, and in values for programs."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from esp.placement.plan import Imbalance, Plan, Step
from esp.rebalance.intent_words import intent_words
from esp.rebalance.plan_file import PlanFile
from esp.rebalance.reassignment_text import plural
from esp.rebalance.sizes import format_duration, format_size


def plan_lines(file: PlanFile, *, steps: bool) -> Iterator[str]:
    """Say what a plan does and costs; with ``steps`` what each does."""
    plan = file.plan
    made = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(file.made_at_ms / 1000))
    yield f"Plan {file.plan_id} to {intent_words(plan.intent)}, made {made} for cluster {plan.cluster_id}"
    if plan.is_empty:
        yield "Nothing to do."
        return
    copies = sum(bool(move.adding) for move in plan.moves)
    low, high = format_duration(plan.duration.low_s), format_duration(plan.duration.high_s)
    in_steps = f"in {len(plan.steps)} {plural('step', plan.steps)}, {copies} with copies"
    yield f"  moves      {len(plan.moves)} {plural('partition', plan.moves)} {in_steps}"
    yield f"  bytes      {format_size(plan.copied_bytes)}"
    yield f"  budget     {format_size(plan.limits.broker_bytes_per_second)}/s for each broker and direction"
    yield f"  time       {low} to {high} at that budget"
    yield f"  spread     before {_imbalance(plan.imbalance_before)}"
    yield f"             after  {_imbalance(plan.imbalance_after)}"
    yield ""
    yield from _broker_lines(plan)
    yield ""
    for (source, target), size_bytes in sorted(_links(plan).items()):
        yield f"  link {source} -> {target}: {format_size(size_bytes)}"
    yield ""
    for sentence in plan.inputs:
        yield f"  rests on: {sentence}"
    yield "  checked: every constraint holds before, during and after every step"
    if steps:
        for number, step in enumerate(plan.steps):
            yield ""
            yield from _step_lines(number, step)


def _imbalance(imbalance: Imbalance) -> str:
    return (
        f"bytes x{imbalance.size_bytes:.2f}, replicas x{imbalance.replicas:.2f}, leaders x{imbalance.leaders:.2f} "
        "of the mean at most"
    )


def _broker_lines(plan: Plan) -> Iterator[str]:
    after = {load.broker_id: load for load in plan.loads_after}
    peaks = _peaks(plan)
    capacity = {broker.broker_id: broker.disk_capacity_bytes for broker in plan.brokers}
    for before in plan.loads_before:
        then = after[before.broker_id]
        line = (
            f"  broker {before.broker_id}: {format_size(before.size_bytes)} -> {format_size(then.size_bytes)}, replicas "
            f"{before.replicas} -> {then.replicas}, leaders {before.leaders} -> {then.leaders}"
        )
        if before.broker_id in peaks:
            line += f", disk at most {format_size(peaks[before.broker_id])}"
            size = capacity.get(before.broker_id)
            line += f" of {format_size(size)}" if size else ""
        yield line


def _step_lines(number: int, step: Step) -> Iterator[str]:
    waits = f", after steps {', '.join(map(str, step.waits_for))}" if step.waits_for else ""
    low, high = format_duration(step.duration.low_s), format_duration(step.duration.high_s)
    yield f"  step {number}: {len(step.moves)} {plural('move', step.moves)}, {format_size(step.copied_bytes)}, {low} to {high}{waits}"
    for move in step.moves:
        what = (
            f"copy {format_size(move.copied_bytes)} from {move.source} to {', '.join(map(str, move.adding))}"
            if move.adding
            else "no copy"
        )
        yield f"    {move.name}: {_list(move.before)} -> {_list(move.after)}: {what}"


def _list(replicas: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, replicas))}]"


def _links(plan: Plan) -> Counter[tuple[int, int]]:
    links: Counter[tuple[int, int]] = Counter()
    for step in plan.steps:
        for link in step.links:
            links[link.source, link.target] += link.size_bytes
    return links


def _peaks(plan: Plan) -> Mapping[int, int]:
    peaks: dict[int, int] = {}
    for step in plan.steps:
        for disk in step.disks:
            peaks[disk.broker_id] = max(peaks.get(disk.broker_id, 0), disk.peak_bytes)
    return peaks


def plan_as_json(file: PlanFile) -> dict[str, Any]:
    """A plan in values, with the sums that :func:`plan_lines` shows."""
    plan = file.plan
    return {
        "plan_id": file.plan_id,
        "made_at_ms": file.made_at_ms,
        "cluster_id": plan.cluster_id,
        "intent": intent_words(plan.intent),
        "moves": len(plan.moves),
        "bytes": plan.copied_bytes,
        "budget": plan.limits.broker_bytes_per_second,
        "seconds": plan.duration,
        "imbalance": {"before": plan.imbalance_before, "after": plan.imbalance_after},
        "loads": {"before": plan.loads_before, "after": plan.loads_after},
        "links": [
            {"source": source, "target": target, "bytes": size}
            for (source, target), size in sorted(_links(plan).items())
        ],
        "disk_peaks": [{"broker": broker, "bytes": size} for broker, size in sorted(_peaks(plan).items())],
        "inputs": plan.inputs,
        "steps": [
            {
                "waits_for": step.waits_for,
                "bytes": step.copied_bytes,
                "seconds": step.duration,
                "moves": step.moves,
            }
            for step in plan.steps
        ],
    }
