"""``esp transactions``: transactions at their coordinators and in partitions; the verbs of ``kafka-transactions``."""

import typer

from esp.cli.options import asking
from esp.cli.transactions.hanging import abort, find
from esp.cli.transactions.reports import describe, describe_producers, list_transactions, oldest

transactions = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""List and describe transactions, find those that hang, and end them; on ESP and on Kafka.

    [bold]End a transaction that hangs[/bold]

    esp transactions find-hanging

    esp transactions abort --topic orders --partition 0 --start-offset 4711

    esp transactions abort --topic orders --partition 0 --start-offset 4711 --execute
    """,
)

transactions.command("list")(asking(list_transactions))
transactions.command("describe")(asking(describe))
transactions.command("describe-producers")(asking(describe_producers))
transactions.command("oldest")(asking(oldest))
transactions.command("find-hanging")(asking(find))
transactions.command("abort")(asking(abort))
