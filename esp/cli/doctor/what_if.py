"""``esp doctor what-if``: what stops, and what is at risk, when nodes are down."""

from collections.abc import Iterable
from typing import Annotated

import typer

from esp.cli.doctor.look import look_for_doctor
from esp.cli.doctor.status import FOUND, FailOn, FailOnOption, Shown, looking
from esp.cli.doctor.what_if_text import consequences_as_json, print_consequences
from esp.cli.kafka.client import LOOK_TIMEOUT_S
from esp.cli.kafka.doctor import DoctorAdmin
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_json, working
from esp.doctor.snapshot import Snapshot
from esp.doctor.what_if import what_if_down
from esp.model.errors import OperatorError
from esp.model.ids import NodeId

_DOWN = "down"


def what_if(
    events: Annotated[list[str], typer.Argument(metavar="down", help="The event; only down is supported.")],
    broker: Annotated[
        list[str] | None, typer.Option("--broker", metavar="ID,ID", help="Nodes, including pure controllers.")
    ] = None,
    rack: Annotated[
        list[str] | None, typer.Option("--rack", metavar="NAME,NAME", help="All brokers of these racks.")
    ] = None,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    fail_on: FailOnOption = FailOn.ERROR,
    show: Shown = 5,
    json: Json = False,
) -> None:
    """Show the effects of nodes being down, all at once. Nothing is changed.

    An error is an operation that stops, a warning a partition with one in-sync copy left, a note a leader that moves. Exit status 0: no
    effect of the severity of --fail-on or above. 1: at least one. 2: the cluster could not be examined.

    [bold]Examples[/bold]

    esp doctor what-if --broker 2 down

    esp doctor what-if --broker 2,3 down

    esp doctor what-if --rack r1 down --fail-on warning --json
    """
    if any(event != _DOWN for event in events):
        raise typer.BadParameter(f"{' '.join(events)}: the only supported event is {_DOWN}")
    with looking():
        nodes, racks = _ids(broker), _words(rack)
        if not nodes and not racks:
            raise OperatorError("no broker or rack is named", "Write --broker ID or --rack NAME before down.")
        with DoctorAdmin(bootstrap_server, LOOK_TIMEOUT_S) as admin, working("examining the cluster"):
            snapshot = look_for_doctor(admin)
        down = _known(snapshot, nodes) | _of_racks(snapshot, racks)
    consequences = what_if_down(snapshot, down)
    if json:
        print_json(consequences_as_json(snapshot, consequences))
    else:
        print_consequences(consequences, show)
    if consequences.severity is not None and fail_on.counts(consequences.severity):
        raise typer.Exit(FOUND)


def _words(texts: Iterable[str] | None) -> list[str]:
    return [word.strip() for text in texts or () for word in text.split(",") if word.strip()]


def _ids(texts: Iterable[str] | None) -> list[NodeId]:
    words = _words(texts)
    for word in words:
        if not word.isdecimal():
            raise OperatorError(f"--broker {word}: not a node id", "Write numbers, with commas between them.")
    return [NodeId(int(word)) for word in words]


def _known(snapshot: Snapshot, nodes: Iterable[NodeId]) -> set[NodeId]:
    there = set(snapshot.view.brokers_by_id)
    if snapshot.quorum is not None:
        there |= {voter.node_id for voter in snapshot.quorum.voters}
    for node in nodes:
        if node not in there:
            raise OperatorError(f"there is no node {node}", f"The nodes are {', '.join(map(str, sorted(there)))}.")
    return set(nodes)


def _of_racks(snapshot: Snapshot, racks: Iterable[str]) -> set[NodeId]:
    there = {broker.rack for broker in snapshot.view.brokers if broker.rack is not None}
    for rack in racks:
        if rack not in there:
            raise OperatorError(f"no broker is in rack {rack}", f"The racks are {', '.join(sorted(there)) or 'none'}.")
    wanted = set(racks)
    return {broker.broker_id for broker in snapshot.view.brokers if broker.rack in wanted}
