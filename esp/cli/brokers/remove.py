"""``esp brokers remove``: a broker is taken off the books, if nothing is lost by that."""

from typing import Annotated, Final

import typer

from esp.cli.kafka.answers import RefusedError
from esp.cli.kafka.brokers import BrokersAdmin
from esp.cli.options import BootstrapServer
from esp.cli.output import print_line, print_warning
from esp.model.errors import ErrorCode, OperatorError
from esp.rebalance.holding import look_for_holding

BrokerId = Annotated[int, typer.Argument(metavar="BROKER", min=0, help="The broker's id.")]

_UNKNOWN: Final = "See the registered brokers: esp brokers list"


def remove(
    broker: BrokerId,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Remove the broker even if it holds replicas, or the last copy of records. ESP logs a warning.",
        ),
    ] = False,
) -> None:
    """Unregister a broker that is down and holds no replicas.

    [bold]Examples[/bold]

    esp brokers drain 3 --wait && ssh host3 systemctl stop esp && esp brokers remove 3
    """
    with BrokersAdmin(bootstrap_server) as admin:
        registered = admin.brokers()
        holding = look_for_holding(admin, broker)
        if broker not in registered:
            raise OperatorError(f"broker {broker} is not registered", _UNKNOWN)
        if not registered[broker].fenced:
            first = "" if not holding.everything else f"esp brokers drain {broker} --wait, then "
            raise OperatorError(f"broker {broker} is alive", f"First: {first}stop the node. Then remove it.")
        if holding.everything:
            held = f"broker {broker} holds {len(holding.everything)} partition(s): {holding.describe()}"
            if not force:
                start = "Start the node again, then move" if holding.alone else "Move"
                give_up = ", and records that only it has are lost" if holding.alone else ""
                raise OperatorError(
                    f"{held}. It was not removed",
                    f"{start} them away: esp brokers drain {broker} --wait. Or add --force: it is removed{give_up}.",
                )
            print_warning(f"{held}. It is removed by force")
        _unregister(admin, broker, force=force)
        print_line(f"Broker {broker} is no longer registered.")
        for voter in admin.quorum().voters:
            if voter.node_id == broker:
                print_warning(
                    f"node {broker} is still a voter of the metadata quorum: remove the voter with esp quorum "
                    f"remove-controller --controller-id {broker} --controller-directory-id {voter.directory_id}"
                )


def _unregister(admin: BrokersAdmin, broker: int, *, force: bool) -> None:
    """ESP's controller refuses where the last complete copy would go (BRK-10); Kafka's refuses nothing."""
    try:
        admin.unregister(broker)
    except RefusedError as error:
        if error.code is not ErrorCode.policy_violation:
            raise OperatorError(f"broker {broker} was not removed: {error.message}", _UNKNOWN) from error
        if not force:
            raise OperatorError(f"broker {broker} was not removed: {error.message}", "Or add --force.") from error
        admin.force_removal(broker)
        admin.unregister(broker)
