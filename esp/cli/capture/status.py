"""``esp capture list`` and ``status``: how far captures have come, as it stands in their groups."""

from typing import Annotated, Final

import typer

from esp.capture.position import GROUP_PREFIX, group_of, read_position
from esp.cli.kafka.groups import GroupsAdmin
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_columns, print_json, working
from esp.consumer.group_messages import Committed
from esp.model.errors import OperatorError

_WIDTH: Final = 9


def list_captures(bootstrap_server: BootstrapServer = "127.0.0.1:9092", json: Json = False) -> None:
    """List the captures, with their topics.

    [bold]Examples[/bold]

    esp capture list
    """
    with GroupsAdmin(bootstrap_server) as admin, working("asking the coordinators"):
        groups, silent = admin.list_groups()
        if silent:
            raise OperatorError(
                f"brokers {', '.join(map(str, silent))} do not answer: the captures that they coordinate are unknown",
                "Start them.",
            )
        names = [group.group_id for group in groups if group.group_id.startswith(GROUP_PREFIX)]
        topics = {name: sorted({partition.topic for partition in admin.committed(name)}) for name in names}
    rows = [(name.removeprefix(GROUP_PREFIX), of_name) for name, of_name in topics.items()]
    if json:
        print_json([{"capture": name, "topics": of_name} for name, of_name in rows])
        return
    print_columns([("CAPTURE", _WIDTH), ("TOPICS", _WIDTH)], [(name, ", ".join(of_name)) for name, of_name in rows])


def status(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The capture.")],
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    json: Json = False,
) -> None:
    """Show how far a capture has come in each partition, and its last files.

    LAG counts the offsets that are in no file yet; those of the file that is being written are among them.

    [bold]Examples[/bold]

    esp capture status lake
    """
    with GroupsAdmin(bootstrap_server) as admin, working("asking the coordinator"):
        committed = admin.committed(group_of(name))
        if not committed:
            raise OperatorError(f"there is no capture {name}", "List the captures: esp capture list")
        ends, _ = admin.known_ends(committed)
    rows = []
    for partition, each in committed.items():
        position = read_position(Committed(each.offset, each.metadata))
        begin, file = (None, "") if position is None else (position.begin, position.file)
        end = ends.get(partition)
        lag = None if end is None else end - each.offset
        rows.append((partition.topic, partition.partition, begin, each.offset, end, lag, file or None))
    keys = ("topic", "partition", "begin", "captured", "end", "lag", "file")
    if json:
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    columns = ("PARTITION", "BEGIN", "CAPTURED", "END", "LAG", "LAST FILE")
    cells = [[f"{row[0]}-{row[1]}", *("-" if cell is None else str(cell) for cell in row[2:])] for row in rows]
    print_columns([(heading, _WIDTH) for heading in columns], cells)
