"""``esp rebalance``: plans for moving partitions, and their execution."""

import typer

from esp.cli.options import asking
from esp.cli.rebalance.control import cancel, pause, rollback, status
from esp.cli.rebalance.plan import explain, plan
from esp.cli.rebalance.run import apply, resume

rebalance = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Move partitions by plans that are shown and checked before anything moves; on ESP and on Kafka.

    A plan is a file. Its progress is recorded in a journal beside it and in the cluster, so that it can be resumed wherever the file is.

    [bold]Examples[/bold]

    esp rebalance plan spread --out spread.json

    esp rebalance explain spread.json

    esp rebalance apply spread.json --max-produce-p99 50

    esp rebalance plan drain 3 --out drain.json && esp rebalance apply drain.json

    esp rebalance pause drain.json; esp rebalance resume drain.json
    """,
)

rebalance.command("plan")(asking(plan))
rebalance.command("explain")(explain)
rebalance.command("apply")(asking(apply))
rebalance.command("status")(asking(status))
rebalance.command("pause")(asking(pause))
rebalance.command("resume")(asking(resume))
rebalance.command("cancel")(asking(cancel))
rebalance.command("rollback")(asking(rollback))
