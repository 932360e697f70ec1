"""``esp spark``: checkpoints of queries, and what a session of Spark is started with."""

import typer

from esp.cli.options import asking
from esp.cli.spark.checkpoints import offsets_at, set_back_to, show
from esp.cli.spark.session import print_conf, write_zip

spark = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Look at checkpoints of Spark's streaming queries and set them back; start sessions of Spark.

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
spark.command("conf")(print_conf)
spark.command("zip")(write_zip)
