"""Rules about the quorum of controllers: without its majority nothing of the cluster changes any more, leaders included."""

from collections.abc import Iterator
from typing import Final

from esp.doctor.rule import CLUSTER, Hit, Place, PlaceKind, Rule, Severity, numbers
from esp.doctor.snapshot import NEVER_MS, Snapshot

VOTERS_WANTED: Final = 3
"""Brokers from which on a single voter is worth a word, and voters that survive the loss of one."""
_ADD: Final = "`esp quorum add-controller --config FILE`, on the host of the new voter, with the file of its settings"
_REMOVE: Final = "`esp quorum remove-controller --controller-id NODE`"


def _no_controller(snapshot: Snapshot) -> Iterator[Hit]:
    if not snapshot.has_controller:
        detail = "no active controller answers; the state of the quorum and of reassignments is unknown"
        yield Hit(CLUSTER, detail, "start controllers until a majority runs; see the logs of the running ones")


def _even(snapshot: Snapshot) -> Iterator[Hit]:
    quorum = snapshot.quorum
    if quorum is not None and len(quorum.voters) % 2 == 0:
        survives = len(quorum.voters) - quorum.majority
        detail = f"{len(quorum.voters)} voters survive the loss of {survives}, as {len(quorum.voters) - 1} do"
        yield Hit(CLUSTER, detail, f"add a voter: {_ADD}; or remove one: {_REMOVE}")


def _single(snapshot: Snapshot) -> Iterator[Hit]:
    quorum = snapshot.quorum
    if quorum is not None and len(quorum.voters) == 1 and len(snapshot.serving) >= VOTERS_WANTED:
        detail = f"node {quorum.voters[0].node_id} alone holds the metadata of {len(snapshot.serving)} brokers"
        yield Hit(CLUSTER, detail, f"add two voters: {_ADD}")


def _lagging(snapshot: Snapshot) -> Iterator[Hit]:
    for voter in snapshot.quorum.voters if snapshot.quorum is not None else ():
        if voter.is_lagging:
            seen = (
                "has never caught up"
                if voter.behind_ms == NEVER_MS
                else f"not caught up for {_seconds(voter.behind_ms)} s"
            )
            detail = f"{seen}, {voter.behind_records} records behind"
            remedy = (
                f"start node {voter.node_id}. If its disk was replaced: `esp quorum remove-controller --controller-id {voter.node_id} "
                f"--controller-directory-id ID` with its old directory id, then {_ADD}"
            )
            yield Hit(Place(PlaceKind.VOTER, str(voter.node_id)), detail, remedy)


def _seconds(age_ms: int | None) -> int:
    return (age_ms or 0) // 1000


def _without_spare(snapshot: Snapshot) -> Iterator[Hit]:
    quorum = snapshot.quorum
    if quorum is None:
        return
    healthy = [voter.node_id for voter in quorum.voters if not voter.is_lagging]
    if len(healthy) < len(quorum.voters) and len(healthy) <= quorum.majority:
        detail = f"{numbers(healthy)} keep up, of {len(quorum.voters)} voters; {quorum.majority} are needed"
        yield Hit(CLUSTER, detail, "repair the lagging voters before you stop any other node")


RULES: Final = (
    Rule(
        "no-controller",
        Severity.ERROR,
        "a cluster whose controllers do not answer",
        "No leader is elected, no broker fenced, no topic created; the brokers' reports of one another may be out of date.",
        "start controllers until a majority of the voters runs",
        _no_controller,
    ),
    Rule(
        "quorum-without-spare",
        Severity.ERROR,
        "a quorum that cannot lose another voter",
        "If one more fails, there is no controller: no leader is elected, no topic created, no broker registered.",
        "repair the lagging voters before you stop any other node",
        _without_spare,
    ),
    Rule(
        "quorum-voter-lagging",
        Severity.WARNING,
        "voters that do not keep up",
        "They raise the majority that is needed, but do not contribute to it.",
        "start the node; if its disk was replaced, remove the voter with its old directory id and add the new one",
        _lagging,
    ),
    Rule(
        "quorum-even",
        Severity.WARNING,
        "an even number of voters",
        "The last one adds no safety: it only raises the majority. With two, the loss of either stops the cluster.",
        f"{_ADD}; or {_REMOVE}",
        _even,
    ),
    Rule(
        "quorum-single",
        Severity.WARNING,
        "one voter for several brokers",
        "If its node is down, no leader is elected. If its disk is lost, so are all topics.",
        _ADD,
        _single,
    ),
)
"""The rules in the order in which findings of one severity are shown."""
