"""``esp queues``: share groups (KIP-932), the state of their records, and their dead letters."""

import typer

from esp.cli.options import asking
from esp.cli.queues.describe import describe
from esp.cli.queues.peek import peek
from esp.cli.queues.redrive import redrive

queues = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Look into share groups, and send their dead letters back; on ESP and on Kafka.

    [bold]Why does a queue not go on?[/bold]

    esp queues describe --group orders

    esp queues peek --group orders --topic orders --partition 0

    [bold]Send dead letters back, once the fault is repaired[/bold]

    esp queues redrive --group orders --from dlq.orders --dry-run

    esp queues redrive --group orders --from dlq.orders
    """,
)

queues.command("describe")(asking(describe))
queues.command("peek")(asking(peek))
queues.command("redrive")(asking(redrive))
