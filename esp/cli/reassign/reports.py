"""The reports of ``esp reassign-partitions``: a proposal, the moving partitions, and the progress of a reassignment."""

from collections.abc import Sequence

from esp.cli.output import print_line, print_warning
from esp.cli.reassign.checks import find_log_dirs
from esp.model.errors import OperatorError
from esp.model.ids import NodeId, TopicPartition
from esp.placement.striped import PlacementBroker, PlacementError, place_replicas
from esp.rebalance.cluster import (
    FOLLOWER_THROTTLED_RATE,
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_RATE,
    LEADER_THROTTLED_REPLICAS,
    LOG_DIRS_THROTTLED_RATE,
    Broker,
    ConfigTarget,
    ReassignmentAdmin,
)
from esp.rebalance.reassignment_json import Assignment, chosen_log_dirs, write_reassignment
from esp.rebalance.reassignment_text import (
    directory_moves,
    joined,
    list_of_reassignments,
    plural,
    state_of_directory_move,
    state_of_partition,
)
from esp.runtime.env import SystemRandom


def list_reassignments(admin: ReassignmentAdmin) -> None:
    """Print all partitions that are moving."""
    for line in list_of_reassignments(admin.reassignments()):
        print_line(line)


def generate_reassignment(
    admin: ReassignmentAdmin, topics: Sequence[str], brokers: Sequence[int], *, rack_aware: bool
) -> None:
    """Print where the partitions of topics are, and where they could be on the brokers.

    Raises:
        OperatorError: a topic or broker is not there, some brokers have racks and some have none, or there are too few brokers.
    """
    found = admin.topics(topics)
    for topic in topics:
        if topic not in found:
            raise OperatorError(f"Topic {topic} not found.", "See the topics: esp topics --list")
    known = admin.brokers()
    used = [_placeable(known, broker, rack_aware=rack_aware) for broker in brokers]
    if len({broker.rack is None for broker in used}) > 1:
        raise OperatorError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment without rack "
            "information.",
            "Give every broker a broker.rack, or none.",
        )
    proposed: dict[TopicPartition, tuple[int, ...]] = {}
    for topic in topics:
        factor = len(found[topic][0].replicas)
        try:
            placed = place_replicas(
                used, partitions=len(found[topic]), replication_factor=factor, random=SystemRandom()
            )
        except PlacementError as error:
            raise OperatorError(f"topic {topic}: {error}", "Name more brokers.") from error
        proposed |= {TopicPartition(topic, number): replicas for number, replicas in enumerate(placed)}
    current = {
        TopicPartition(topic, number): each.replicas for topic in topics for number, each in found[topic].items()
    }
    print_line("Current partition replica assignment")
    print_line(write_reassignment(current, find_log_dirs(admin, current)))
    print_line("")
    print_line("Proposed partition reassignment configuration")
    print_line(write_reassignment(proposed))


def _placeable(known: dict[int, Broker], broker: int, *, rack_aware: bool) -> PlacementBroker:
    if broker not in known or known[broker].fenced:
        there = joined(sorted(each.node_id for each in known.values() if not each.fenced))
        raise OperatorError(f"--broker-list: Unknown broker id {broker}", f"Known brokers: {there}.")
    return PlacementBroker(NodeId(broker), known[broker].rack if rack_aware else None, fenced=False)


def verify_reassignment(
    admin: ReassignmentAdmin, assignments: Sequence[Assignment], *, preserve_throttles: bool
) -> None:
    """Print how far a reassignment is; when nothing moves any more, take all throttles away, unless they are to stay.

    Raises:
        OperatorError: a throttle cannot be taken away.
    """
    moving = admin.reassignments()
    found = admin.topics({each.partition.topic for each in assignments})
    print_line("Status of partition reassignment:")
    for partition, target, _ in sorted(assignments):
        there = found.get(partition.topic, {}).get(partition.partition)
        print_line(state_of_partition(partition, target, moving.get(partition), there))
    chosen = chosen_log_dirs(assignments)
    moves = directory_moves(chosen, admin.log_dirs({replica.broker for replica in chosen}) if chosen else {})
    for move in moves:
        print_line(state_of_directory_move(move))
    print_line("")
    if not moving and not any(move.is_active for move in moves) and not preserve_throttles:
        clear_throttles(admin, assignments)


def clear_throttles(admin: ReassignmentAdmin, assignments: Sequence[Assignment]) -> None:
    """Take away the throttles of all brokers and of the topics, as Kafka's tool does, which does not know the throttled brokers.

    The throttles of a broker that is down cannot be changed through any other broker. They slow nothing once the topics' throttles are
    gone; the operator is warned.

    Raises:
        OperatorError: a topic does not exist, or its throttle cannot be taken away.
    """
    known = admin.brokers()
    named = sorted({*known, *(broker for each in assignments for broker in each.replicas)})
    alive = [broker for broker in named if broker in known and not known[broker].fenced]
    print_line(f"Clearing broker-level throttles on {plural('broker', alive)} {joined(alive)}")
    rates = (LEADER_THROTTLED_RATE, FOLLOWER_THROTTLED_RATE, LOG_DIRS_THROTTLED_RATE)
    refused = admin.change_settings({ConfigTarget(broker=str(broker)): dict.fromkeys(rates) for broker in alive})
    topics = sorted({each.partition.topic for each in assignments})
    print_line(f"Clearing topic-level throttles on {plural('topic', topics)} {joined(topics)}")
    lists = (LEADER_THROTTLED_REPLICAS, FOLLOWER_THROTTLED_REPLICAS)
    refused |= admin.change_settings({ConfigTarget(topic=topic): dict.fromkeys(lists) for topic in topics})
    for broker in set(named) - set(alive):
        print_warning(
            f"broker {broker} is down: its throttle stays set until --verify runs after it is back, and has no effect until then"
        )
    for target, reason in refused.items():
        raise OperatorError(f"the throttle of {target} could not be removed: {reason}", "Run --verify again.")
