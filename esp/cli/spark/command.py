"""``esp spark``: checkpoints of queries, exactly-once sinks, and what a session of Spark is started with."""

import typer

from esp.cli.options import asking
from esp.cli.spark.checkpoints import offsets_at, set_back_to, show
from esp.cli.spark.session import print_conf, write_zip
from esp.cli.spark.sinks import list_sinks, reset_sink, show_sink

spark = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Look at checkpoints of Spark's streaming queries and set them back; look at exactly-once sinks; start sessions of Spark.

    [bold]Read the last hour again[/bold]

    esp spark checkpoints show /data/checkpoints/flights

    esp spark checkpoints set-back /data/checkpoints/flights --to 2026-11-26T09:00

    esp spark checkpoints set-back /data/checkpoints/flights --to 2026-11-26T09:00 --execute
    """,
)

checkpoints = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Checkpoints of streaming queries: directories, or URLs that pyarrow knows (s3://, hdfs://, gs://).

    Their sources may be of the formats [bold]kafka[/bold] and [bold]esp[/bold], and the cluster ESP or Kafka.
    """,
)

checkpoints.command("show")(asking(show))
checkpoints.command("offsets-at")(asking(offsets_at))
checkpoints.command("set-back")(asking(set_back_to))
spark.add_typer(checkpoints, name="checkpoints")

sinks = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Exactly-once sinks: the batches that queries have written to topics by esp.spark.exactly_once.""",
)

sinks.command("list")(asking(list_sinks))
sinks.command("show")(asking(show_sink))
sinks.command("reset")(asking(reset_sink))
spark.add_typer(sinks, name="sinks")
spark.command("conf")(print_conf)
spark.command("zip")(write_zip)
