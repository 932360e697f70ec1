"""The predicted consequences of failures, in lines for people and in values for programs."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from esp.cli.doctor.text import print_folded, print_headline, print_labelled
from esp.cli.output import print_line
from esp.doctor.rule import Severity, numbers
from esp.doctor.snapshot import Snapshot
from esp.doctor.what_if import Consequences, Fate, GroupFate, LoadShift, QuorumFate
from esp.model.ids import NodeId
from esp.rebalance.sizes import format_size

_KINDS: Final[Sequence[tuple[Severity, str, str, str, Callable[[Fate], bool]]]] = (
    (
        Severity.ERROR,
        "goes offline",
        "go offline",
        "clients can neither read nor write until an in-sync replica is back; if all in-sync disks are lost, so are the records",
        lambda fate: fate.goes_offline,
    ),
    (
        Severity.ERROR,
        "loses acknowledged records",
        "lose acknowledged records",
        "a replica that is not in sync is elected, because unclean.leader.election.enable=true",
        lambda fate: fate.loses_records,
    ),
    (
        Severity.ERROR,
        "stops for acks=all",
        "stop for acks=all",
        "fewer replicas are in sync than min.insync.replicas; reading goes on",
        lambda fate: fate.stops,
    ),
    (
        Severity.WARNING,
        "has one in-sync copy left",
        "have one in-sync copy left",
        "the records are lost with that broker's disk",
        lambda fate: fate.is_last_copy,
    ),
    (
        Severity.NOTE,
        "gets another leader",
        "get another leader",
        "clients wait for a moment",
        lambda fate: fate.leader_after is not None and fate.leader_after != fate.leader_before,
    ),
)
"""Kinds of fates: how bad, what one and what several of them do, what that means, and which they are."""

_NO_ELECTIONS: Final = "no leader can be elected then, so the new leaders below do not take over"


def print_consequences(consequences: Consequences, shown: int) -> None:
    """Print what happens, the worst first, at most so many partitions of each kind."""
    print_line(f"{_nodes(consequences.down)} supposed to be down.")
    if consequences.down_already:
        print_line(f"{_nodes(consequences.down_already)} down already.")
    print_line("")
    if not consequences.has_controller:
        print_headline(Severity.ERROR, "no controller answers even now")
        print_labelled("why", _NO_ELECTIONS)
    if consequences.quorum is not None and consequences.quorum.is_lost:
        print_headline(Severity.ERROR, "the cluster has no controller")
        print_folded([_quorum_line(consequences.quorum)], shown)
        print_labelled("why", _NO_ELECTIONS)
    for severity, one, several, why, is_one in _KINDS:
        fates = [fate for fate in consequences.fates if is_one(fate)]
        if fates:
            print_headline(severity, f"1 partition {one}" if len(fates) == 1 else f"{len(fates)} partitions {several}")
            print_folded([_fate_line(fate) for fate in fates], shown)
            print_labelled("why", why)
    if consequences.groups:
        count = len(consequences.groups)
        groups = "1 consumer group gets" if count == 1 else f"{count} consumer groups get"
        print_headline(_groups_severity(consequences.groups), f"{groups} another coordinator")
        print_folded([_group_line(group) for group in consequences.groups], shown)
    for topic, hit in consequences.internal_topics.items():
        print_headline(Severity.NOTE, f"{topic} is affected in {len(hit)} of its partitions")
    if any(load.leaders_before != load.leaders_after for load in consequences.loads):
        print_headline(Severity.NOTE, "the other brokers lead more")
        print_folded([_load_line(load) for load in consequences.loads], len(consequences.loads))
    if consequences.quorum is not None and not consequences.quorum.is_lost:
        print_headline(Severity.NOTE, "the controllers keep their majority")
        print_folded([_quorum_line(consequences.quorum)], shown)
    print_line("")
    print_line(_verdict(consequences))


def _nodes(nodes: Sequence[NodeId]) -> str:
    return f"Node {nodes[0]} is" if len(nodes) == 1 else f"Nodes {numbers(nodes)} are"


def consequences_as_json(snapshot: Snapshot, consequences: Consequences) -> dict[str, Any]:
    """Everything that happens, in values."""
    severity = consequences.severity
    return {
        "cluster_id": snapshot.view.cluster_id,
        "down": consequences.down,
        "down_already": consequences.down_already,
        "severity": None if severity is None else severity.value,
        "partitions": [
            {"topic": fate.partition.topic, "partition": fate.partition.partition, **_without_name(fate)}
            for fate in consequences.fates
        ],
        "loads": [load._asdict() for load in consequences.loads],
        "quorum": None if consequences.quorum is None else consequences.quorum._asdict(),
        "has_controller": consequences.has_controller,
        "groups": [group._asdict() for group in consequences.groups],
        "internal_topics": {topic: len(fates) for topic, fates in consequences.internal_topics.items()},
    }


def _without_name(fate: Fate) -> dict[str, Any]:
    return {name: value for name, value in fate._asdict().items() if name != "partition"}


def _fate_line(fate: Fate) -> str:
    before, after = (node if node is not None else "none" for node in (fate.leader_before, fate.leader_after))
    return f"{fate.partition}  leader {before} -> {after}, in sync {numbers(fate.isr_after)}, {fate.needed} needed"


def _group_line(group: GroupFate) -> str:
    after = "none: its members can neither join nor commit" if group.after is None else str(group.after)
    return f"{group.group}  {group.before} -> {after}"


def _groups_severity(groups: Sequence[GroupFate]) -> Severity:
    return Severity.ERROR if any(group.after is None for group in groups) else Severity.NOTE


def _load_line(load: LoadShift) -> str:
    sizes = f"{format_size(load.bytes_before)} -> {format_size(load.bytes_after)}"
    return f"broker {load.broker}  leads {load.leaders_before} -> {load.leaders_after} partitions, {sizes}"


def _quorum_line(quorum: QuorumFate) -> str:
    leader = ", and another becomes active" if quorum.loses_leader and not quorum.is_lost else ""
    return f"{len(quorum.left)} of {quorum.voters} voters are left ({numbers(quorum.left)}), {quorum.majority} are needed{leader}"


def _verdict(consequences: Consequences) -> str:
    match consequences.severity:
        case None:
            return "Nothing changes."
        case Severity.ERROR:
            return "Something stops."
        case Severity.WARNING:
            return "Nothing stops. Some partitions would have one in-sync copy."
        case Severity.NOTE:
            return "Nothing stops, and nothing is at risk."
