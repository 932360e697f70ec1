"""``esp brokers``: the brokers of a cluster, and how one leaves it."""

import typer

from esp.cli.brokers_drain import drain, undrain
from esp.cli.brokers_list import list_brokers
from esp.cli.brokers_remove import remove

brokers = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Look at brokers, empty them, and take them off the books; on ESP and on Kafka.

    [bold]How a broker leaves[/bold]

    esp brokers list

    esp brokers drain 3 --wait

    [dim]stop the node, then[/dim]

    esp brokers remove 3
    """,
)

brokers.command("list")(list_brokers)
brokers.command("drain")(drain)
brokers.command("undrain")(undrain)
brokers.command("remove")(remove)
