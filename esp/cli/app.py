"""The tools' command line: one command per module, over Kafka's own protocol, so that each works against any Kafka cluster."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Final

import typer

from esp.cli.acls.command import acls
from esp.cli.brokers.command import brokers
from esp.cli.capture.command import capture
from esp.cli.certs.command import certs
from esp.cli.configs import configs
from esp.cli.consume import consume
from esp.cli.delete_records import delete_records
from esp.cli.doctor.command import doctor
from esp.cli.dump_log import dump_log
from esp.cli.get_offsets import get_offsets
from esp.cli.groups.command import groups
from esp.cli.help import ToolGroup, wrap_help
from esp.cli.interruption import STATUS, was_interrupted
from esp.cli.leader_election import leader_election
from esp.cli.log_dirs import log_dirs
from esp.cli.node.broker import run as run_broker
from esp.cli.node.cluster import run as run_cluster
from esp.cli.node.format import print_random_uuid
from esp.cli.node.format import run as run_format
from esp.cli.options import BareStateCommand, asking
from esp.cli.output import print_error, print_line
from esp.cli.produce import produce
from esp.cli.queues.command import queues
from esp.cli.quorum import quorum
from esp.cli.quotas.command import quotas
from esp.cli.reassign.command import reassign_partitions
from esp.cli.rebalance.command import rebalance
from esp.cli.spark.command import spark
from esp.cli.sql import sql
from esp.cli.tokens.command import delegation_tokens
from esp.cli.topics import topics
from esp.cli.transactions.command import transactions
from esp.cli.users.command import users
from esp.model.errors import OperatorError

app = typer.Typer(
    name="esp",
    cls=ToolGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""An event-streaming platform that speaks Apache Kafka's protocol.

    [bold]A first look[/bold]

    esp broker &

    esp topics --create --topic greetings

    echo hello | esp produce --topic greetings

    esp consume --topic greetings --from-beginning --max-messages 1
    """,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_line(f"esp {version('esp')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the release and exit.")
    ] = False,
) -> None:
    pass


_PASSED_ON: Final = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""The settings of commands that parse their own arguments, so that they need none of the libraries here."""


@app.command("broker", context_settings=_PASSED_ON, add_help_option=False, rich_help_panel="Nodes")
def broker(context: typer.Context) -> None:
    """Run one node in the foreground; see [bold]esp broker --help[/bold]."""
    raise typer.Exit(run_broker(context.args))


@app.command("cluster", context_settings=_PASSED_ON, add_help_option=False, rich_help_panel="Nodes")
def cluster(context: typer.Context) -> None:
    """Run several nodes on this host; see [bold]esp cluster start --help[/bold]."""
    raise typer.Exit(run_cluster(context.args))


@app.command("format", context_settings=_PASSED_ON, add_help_option=False, rich_help_panel="Nodes")
def format_directories(context: typer.Context) -> None:
    """Prepare a node's data directories; see [bold]esp format --help[/bold]."""
    raise typer.Exit(run_format(context.args))


@app.command("random-uuid", context_settings=_PASSED_ON, add_help_option=False, rich_help_panel="Nodes")
def random_uuid(context: typer.Context) -> None:
    """Print a new id for a cluster or a directory."""
    raise typer.Exit(print_random_uuid(context.args))


app.command("topics", rich_help_panel="Tools")(asking(topics))
app.command("configs", rich_help_panel="Tools")(asking(configs))
app.command("leader-election", rich_help_panel="Tools")(asking(leader_election))
app.command("log-dirs", rich_help_panel="Tools")(asking(log_dirs))
app.command("get-offsets", rich_help_panel="Tools")(asking(get_offsets))
app.command("groups", cls=BareStateCommand, rich_help_panel="Tools")(asking(groups))
app.command("delete-records", rich_help_panel="Tools")(asking(delete_records))
app.command("produce", rich_help_panel="Tools")(asking(produce))
app.command("consume", rich_help_panel="Tools")(asking(consume))
app.command("quotas", rich_help_panel="Tools")(asking(quotas))
app.command("quorum", rich_help_panel="Tools")(asking(quorum))
app.add_typer(doctor, name="doctor", rich_help_panel="Tools")
app.command("reassign-partitions", rich_help_panel="Tools")(asking(reassign_partitions))
app.add_typer(rebalance, name="rebalance", rich_help_panel="Tools")
app.add_typer(brokers, name="brokers", rich_help_panel="Tools")
app.add_typer(transactions, name="transactions", rich_help_panel="Tools")
app.add_typer(queues, name="queues", rich_help_panel="Tools")
app.add_typer(capture, name="capture", rich_help_panel="Tools")
app.add_typer(spark, name="spark", rich_help_panel="Tools")
app.command("sql", rich_help_panel="Tools")(sql)
app.add_typer(certs, name="certs", rich_help_panel="Tools")
app.command("acls", rich_help_panel="Tools")(asking(acls))
app.add_typer(users, name="users", rich_help_panel="Tools")
app.add_typer(delegation_tokens, name="tokens", rich_help_panel="Tools")
app.command("dump-log", rich_help_panel="Tools")(dump_log)
wrap_help(app)


def run_tools(arguments: Sequence[str]) -> int:
    """Run a command and return the exit status: 0 done, 1 not done, 2 misused. What is wrong is told on stderr."""
    try:
        app(list(arguments), prog_name="esp")
    except Exception as error:
        if was_interrupted():  # Ctrl-C may leave the library in a state that it takes for an error of its caller's
            return STATUS
        if not isinstance(error, OperatorError):
            raise
        print_error(error.problem, error.remedy)
        return 1
    except SystemExit as end:  # how typer ends, whatever became of the command
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
