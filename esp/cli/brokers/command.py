"""``esp brokers``: lists the brokers of a cluster with their replicas, and lets a broker leave the cluster."""

from collections import Counter
from typing import NamedTuple

import typer
from rich.filesize import decimal

from esp.cli.brokers.drain import drain, undrain
from esp.cli.brokers.remove import remove
from esp.cli.kafka.brokers import BrokersAdmin
from esp.cli.kafka.client import LOOK_TIMEOUT_S, NoControllerError
from esp.cli.options import BootstrapServer, Json, asking
from esp.cli.output import console, print_columns, print_json, print_warning, working
from esp.rebalance.looking import replica_sizes

_COLUMNS = (("ID", 4), ("ADDRESS", 21), ("RACK", 6), ("STATE", 10), ("REPLICAS", 0), ("LEADERS", 0), ("BYTES", 10))


class BrokerRow(NamedTuple):
    """A broker in the list; the fields have the names of the JSON."""

    id: int
    address: str | None
    rack: str | None
    state: str
    """``alive``, ``draining``, ``fenced``, ``silent`` for one that counts as alive and does not answer, or ``unregistered`` for one that
    holds replicas but is not registered."""
    replicas: int
    leaders: int
    bytes: int | None
    """The size of its replicas on disk; None if it does not answer."""
    controller: str | None
    """``active`` or ``voter``; None if it has no vote in the metadata quorum."""


def list_brokers(bootstrap_server: BootstrapServer = "127.0.0.1:9092", json: Json = False) -> None:
    """List the brokers with their state and load.

    [bold]Examples[/bold]

    esp brokers list

    esp brokers list --json | jq '.[] | select(.state == "fenced").id'
    """
    with BrokersAdmin(bootstrap_server, LOOK_TIMEOUT_S) as admin, working("asking the brokers"):
        rows = broker_rows(admin)
    if json:
        print_json([row._asdict() for row in rows])
        return
    cells = [
        (
            *(str(row.id), row.address or "-", row.rack or "-", row.state, str(row.replicas), str(row.leaders)),
            *(_size(row.bytes), row.controller or "-"),
        )
        for row in rows
    ]
    print_columns([*_COLUMNS, ("CONTROLLER", 0)], cells)


def broker_rows(admin: BrokersAdmin) -> list[BrokerRow]:
    """Look at all brokers; in the order of their ids.

    Raises:
        OperatorError: the cluster does not answer.
    """
    registered = admin.brokers()
    try:
        quorum = admin.quorum()
        voters = {member.node_id: "voter" for member in quorum.voters} | {quorum.leader: "active"}
    except NoControllerError as error:
        voters = {} if error.known is None else {member.node_id: "voter" for member in error.known.voters}
        unknown = "the voters are unknown" if error.known is None else "no controller is active"
        print_warning(f"{error.problem}: the states are the last ones that a broker knew, and {unknown}")
    alive = [node for node, broker in registered.items() if not broker.fenced]
    partitions = [each for by_number in admin.topics().values() for each in by_number.values()]
    replicas = Counter(node for each in partitions for node in each.replicas)
    leaders = Counter(each.leader for each in partitions)
    log_dirs = admin.log_dirs(alive)
    sizes: Counter[int] = Counter()
    for replica, size_bytes in replica_sizes(log_dirs).items():
        sizes[replica.broker] += size_bytes
    draining = admin.draining(log_dirs)
    rows = []
    for node in sorted(registered.keys() | replicas.keys()):
        broker = registered.get(node)
        if broker is None:
            state = "unregistered"
        elif broker.fenced:
            state = "fenced"
        elif node not in log_dirs:
            state = "silent"
        else:
            state = "draining" if node in draining else "alive"
        rows.append(
            BrokerRow(
                node,
                broker.address if broker else None,
                broker.rack if broker else None,
                state,
                replicas[node],
                leaders[node],
                sizes[node] if node in log_dirs else None,
                voters.get(node),
            )
        )
    return rows


def _size(size_bytes: int | None) -> str:
    """The size in bytes; in larger units on a terminal, where readability counts more than exact sums."""
    if size_bytes is None:
        return "-"
    return decimal(size_bytes) if console.is_terminal else str(size_bytes)


brokers = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""List brokers, drain them, and remove them from the cluster; on ESP and on Kafka.

    [bold]Remove a broker[/bold]

    esp brokers list

    esp brokers drain 3 --wait

    [dim]stop the node, then[/dim]

    esp brokers remove 3
    """,
)

brokers.command("list")(asking(list_brokers))
brokers.command("drain")(asking(drain))
brokers.command("undrain")(asking(undrain))
brokers.command("remove")(asking(remove))
