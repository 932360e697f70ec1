"""``esp quorum``: who keeps the cluster's metadata, and how far each is; the words of ``kafka-metadata-quorum``."""

from enum import StrEnum
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from esp.cli.kafka.answers import QuorumInfo, QuorumMember
from esp.cli.kafka.cluster import ClusterAdmin
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import console, print_line


class Action(StrEnum):
    """What to do."""

    DESCRIBE = "describe"


def quorum(
    _action: Annotated[Action, typer.Argument(metavar="describe", help="The one thing that can be done here.")],
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    replication: Annotated[
        bool, typer.Option("--replication", help="Show how far each node is, not only who is in.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the metadata quorum: its leader, voters and observers.

    Voters are added and removed by Kafka's kafka-metadata-quorum, which needs the ids that are shown here.

    [bold]Examples[/bold]

    esp quorum describe

    esp quorum describe --replication
    """
    with ClusterAdmin(bootstrap_server) as admin:
        found = admin.quorum()
    if json:
        told = found._asdict()
        for key in ("voters", "observers"):
            told[key] = [member._asdict() for member in told[key]]
        print_line(msgspec.json.encode(told).decode())
    elif replication:
        _print_replication(found)
    else:
        _print_status(found)


def _print_status(found: QuorumInfo) -> None:
    print_line(f"LeaderId: {found.leader}")
    print_line(f"LeaderEpoch: {found.leader_epoch}")
    print_line(f"HighWatermark: {found.high_watermark}")
    for title, members in (("Voter", found.voters), ("Observer", found.observers)):
        for member in members:
            line = f"{title}: {member.node_id}\tDirectoryId: {member.directory_id}"
            print_line(line + (f"\tAddresses: {','.join(member.addresses)}" if member.addresses else ""))


def _print_replication(found: QuorumInfo) -> None:
    columns = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")
    end = max((member.log_end_offset for member in found.voters if member.node_id == found.leader), default=0)

    def row(member: QuorumMember, status: str) -> tuple[str, ...]:
        status = "Leader" if member.node_id == found.leader else status
        numbers = (end - member.log_end_offset, member.last_fetch_timestamp, member.last_caught_up_timestamp)
        return (str(member.node_id), member.directory_id, str(member.log_end_offset), *map(str, numbers), status)

    rows = [row(member, "Follower") for member in found.voters] + [
        row(member, "Observer") for member in found.observers
    ]
    if console.is_terminal:
        table = Table(*columns, box=None, padding=(0, 2, 0, 0))
        for each in rows:
            table.add_row(*each)
        console.print(table)
        return
    for each in (columns, *rows):
        print_line("\t".join(each))
