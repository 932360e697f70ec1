"""Rules about the number of copies, their places, and how many must be in sync: together they decide how much a cluster survives."""

from collections.abc import Iterator
from typing import Final

from esp.doctor.rule import Hit, Rule, Severity, at_broker, at_topic
from esp.doctor.snapshot import BrokerCondition, Snapshot
from esp.model.ids import INTERNAL_TOPICS
from esp.placement.cluster_view import PartitionView

COPIES_WANTED: Final = 3
"""With three copies of which two must be in sync, one broker may be down and nothing stops."""


def _more_copies(topic: str, factor: int, snapshot: Snapshot) -> str:
    """The way in which a topic gets so many copies: from brokers that serve, that are to be started, or that are to be added."""
    command = f"`esp rebalance plan rf {topic}={factor}`"
    missing = factor - len(snapshot.targets)
    if missing <= 0:
        return command
    down = sum(
        snapshot.conditions[broker.broker_id] in (BrokerCondition.FENCED, BrokerCondition.SILENT)
        for broker in snapshot.view.brokers
        if not broker.is_draining
    )
    if missing <= down:
        return f"start the brokers that are down, then {command}"
    return f"add {missing - down} broker{'s' * (missing - down > 1)}, then {command}"


def _set_min_isr(topic: str, value: int) -> str:
    return f"`esp configs --alter --entity-type topics --entity-name {topic} --add-config min.insync.replicas={value}`"


def _shortest(snapshot: Snapshot, partitions: tuple[PartitionView, ...]) -> int:
    """The copies of the partition that has the fewest."""
    return min(len(snapshot.lasting_replicas(partition)) for partition in partitions)


def _single_copy(snapshot: Snapshot) -> Iterator[Hit]:
    for topic, partitions in snapshot.topics.items():
        alone = sum(len(snapshot.lasting_replicas(partition)) == 1 for partition in partitions)
        if alone and topic not in INTERNAL_TOPICS:
            detail = f"{alone} of {len(partitions)} partitions have one copy"
            wanted = max(2, min(COPIES_WANTED, len(snapshot.targets)))
            yield Hit(at_topic(topic), detail, _more_copies(topic, wanted, snapshot))


def _min_isr_equals_copies(snapshot: Snapshot) -> Iterator[Hit]:
    for topic, partitions in snapshot.topics.items():
        copies, min_isr = _shortest(snapshot, partitions), partitions[0].min_in_sync_replicas
        if 1 < copies <= min_isr:
            detail = f"{copies} copies, min.insync.replicas={min_isr}"
            yield Hit(at_topic(topic), detail, _more_copies(topic, min_isr + 1, snapshot))


def _min_isr_one(snapshot: Snapshot) -> Iterator[Hit]:
    for topic, partitions in snapshot.topics.items():
        copies = _shortest(snapshot, partitions)
        if copies > 1 and partitions[0].min_in_sync_replicas <= 1:
            remedy = _set_min_isr(topic, 2)
            if copies < COPIES_WANTED:
                remedy = f"{_more_copies(topic, COPIES_WANTED, snapshot)}; then {remedy}"
            yield Hit(at_topic(topic), f"{copies} copies, min.insync.replicas=1", remedy)


def _shared_rack(snapshot: Snapshot) -> Iterator[Hit]:
    racks = {broker.rack for broker in snapshot.targets}
    brokers = snapshot.view.brokers_by_id
    for topic, partitions in snapshot.topics.items():
        crowded: list[PartitionView] = []
        for partition in partitions:
            held = [brokers[node].rack for node in snapshot.lasting_replicas(partition)]
            if len(set(held)) < min(len(held), len(racks)):
                crowded.append(partition)
        if crowded:
            example = crowded[0]
            held = [brokers[node].rack for node in snapshot.lasting_replicas(example)]
            detail = (
                f"{len(crowded)} of {len(partitions)} partitions; {example.name} has {len(held)} copies in "
                f"{', '.join(sorted(rack or 'no rack' for rack in set(held)))}, and there are {len(racks)} racks"
            )
            yield Hit(at_topic(topic), detail, f"`esp rebalance plan spread {topic}`")


def _rack_missing(snapshot: Snapshot) -> Iterator[Hit]:
    if any(broker.rack is not None for broker in snapshot.serving):
        for broker in snapshot.serving:
            if broker.rack is None:
                remedy = "set broker.rack in the settings of the node and restart it"
                yield Hit(at_broker(broker.broker_id), "has no rack, and others have one", remedy)


def _internal_copies(snapshot: Snapshot) -> Iterator[Hit]:
    possible = min(COPIES_WANTED, len(snapshot.targets))
    for topic in sorted(INTERNAL_TOPICS & snapshot.topics.keys()):
        copies = _shortest(snapshot, snapshot.topics[topic])
        if copies < possible:
            detail = f"{copies} {'copy' if copies == 1 else 'copies'}, and {len(snapshot.targets)} brokers"
            yield Hit(at_topic(topic), detail, _more_copies(topic, possible, snapshot))


def _unclean(snapshot: Snapshot) -> Iterator[Hit]:
    for topic in sorted(snapshot.unclean_topics & snapshot.topics.keys()):
        name = "unclean.leader.election.enable"
        remedy = f"`esp configs --alter --entity-type topics --entity-name {topic} --add-config {name}=false`"
        yield Hit(at_topic(topic), f"{name}=true", remedy)


RULES: Final = (
    Rule(
        "single-copy",
        Severity.WARNING,
        "topics with a single copy",
        "If the broker that holds it is down, clients can neither read nor write. If its disk is lost, so are the records.",
        "`esp rebalance plan rf TOPIC=3`",
        _single_copy,
    ),
    Rule(
        "min-isr-equals-copies",
        Severity.WARNING,
        "topics that need every copy in sync",
        "With acks=all, producers stop as soon as any one of the brokers is down, also for a restart.",
        "`esp rebalance plan rf TOPIC=N`, with one more than min.insync.replicas",
        _min_isr_equals_copies,
    ),
    Rule(
        "min-isr-one",
        Severity.WARNING,
        "topics that acknowledge records of which only one copy exists",
        "With acks=all, a record may be acknowledged while only one broker has it; it is lost with that broker.",
        "`esp configs --alter --entity-type topics --entity-name TOPIC --add-config min.insync.replicas=2`",
        _min_isr_one,
    ),
    Rule(
        "shared-rack",
        Severity.WARNING,
        "copies of a partition in one rack, while another rack has none",
        "A rack fails as a whole; so do the copies in it.",
        "`esp rebalance plan spread TOPIC`",
        _shared_rack,
    ),
    Rule(
        "rack-missing",
        Severity.NOTE,
        "brokers without a rack, while others have one",
        "All brokers without a rack count as one rack, so copies may be separated needlessly, or not at all.",
        "set `broker.rack` in the settings of the node",
        _rack_missing,
    ),
    Rule(
        "internal-copies",
        Severity.WARNING,
        "internal topics with fewer copies than the brokers allow",
        "They are created on first use, often before all brokers have joined; no consumer group works without them.",
        "`esp rebalance plan rf TOPIC=3`",
        _internal_copies,
    ),
    Rule(
        "unclean-election",
        Severity.WARNING,
        "topics in which a replica that is not in sync may be elected",
        "When no in-sync replica is left, acknowledged records are given up without the operator's consent.",
        "`esp configs --alter --entity-type topics --entity-name TOPIC --add-config unclean.leader.election.enable=false`",
        _unclean,
    ),
)
"""The rules in the order in which findings of one severity are shown."""
