"""``esp doctor what-if``: what stops, and what is at risk, when nodes are down."""

from collections.abc import Iterable
from typing import Annotated

import typer

from esp.cli.doctor.look import look_for_doctor
from esp.cli.doctor.status import FOUND, FailOn, FailOnOption, Shown, looking
from esp.cli.doctor.what_if_text import consequences_as_json, print_consequences
from esp.cli.kafka.doctor import DoctorAdmin
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_json, working
from esp.doctor.snapshot import Snapshot
from esp.doctor.what_if import what_if_down
from esp.model.errors import OperatorError
from esp.model.ids import NodeId

_DOWN = "down"


def what_if(
    events: Annotated[list[str], typer.Argument(metavar="down", help="What happens to them; down is all there is.")],
    broker: Annotated[
        list[str] | None, typer.Option("--broker", metavar="ID,ID", help="Nodes; also those that are controllers only.")
    ] = None,
    rack: Annotated[
        list[str] | None, typer.Option("--rack", metavar="NAME,NAME", help="All brokers of these racks.")
    ] = None,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    fail_on: FailOnOption = FailOn.ERROR,
    show: Shown = 5,
    json: Json = False,
) -> None:
    """Say what would happen if nodes were down, all at once. Nothing is touched.

    Exit status 0: nothing as bad as --fail-on says: an error is whatever stops, a warning a partition with one in-sync copy left, a note
    a leader that moves. 1: something. 2: it could not look.

    [bold]Examples[/bold]

    esp doctor what-if --broker 2 down

    esp doctor what-if --broker 2,3 down

    esp doctor what-if --rack r1 down --fail-on warning --json
    """
    if any(event != _DOWN for event in events):
        raise typer.BadParameter(f"{' '.join(events)}: what can happen to a broker here is {_DOWN}")
    with looking():
        nodes, racks = _ids(broker), _words(rack)
        if not nodes and not racks:
            raise OperatorError("nobody is named who goes down", "Write --broker ID or --rack NAME before down.")
        with DoctorAdmin(bootstrap_server) as admin, working("looking at the cluster"):
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
            raise OperatorError(f"--broker {word}: no id of a node", "Write numbers, with commas between them.")
    return [NodeId(int(word)) for word in words]


def _known(snapshot: Snapshot, nodes: Iterable[NodeId]) -> set[NodeId]:
    there = set(snapshot.view.brokers_by_id)
    if snapshot.quorum is not None:
        there |= {voter.node_id for voter in snapshot.quorum.voters}
    for node in nodes:
        if node not in there:
            raise OperatorError(f"there is no node {node}", f"There are {', '.join(map(str, sorted(there)))}.")
    return set(nodes)


def _of_racks(snapshot: Snapshot, racks: Iterable[str]) -> set[NodeId]:
    there = {broker.rack for broker in snapshot.view.brokers if broker.rack is not None}
    for rack in racks:
        if rack not in there:
            raise OperatorError(f"no broker is in rack {rack}", f"Racks are: {', '.join(sorted(there)) or 'none'}.")
    wanted = set(racks)
    return {broker.broker_id for broker in snapshot.view.brokers if broker.rack in wanted}
