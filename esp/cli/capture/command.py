"""``esp capture``: topics into Parquet files."""

import typer

from esp.cli.capture.start import start
from esp.cli.capture.status import list_captures, status
from esp.cli.capture.verify import verify
from esp.cli.options import asking

capture = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Capture topics of ESP or of Kafka into Parquet files, each record once. It needs the extra esp\\[spark].

    [bold]Capture a topic, and prove that nothing is missing[/bold]

    esp capture start lake --topic flights --to /data/lake

    esp capture status lake

    esp capture verify /data/lake
    """,
)

capture.command("start")(start)
capture.command("list")(asking(list_captures))
capture.command("status")(asking(status))
capture.command("verify")(verify)
