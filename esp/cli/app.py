"""The tools' command line: one command per module, over Kafka's own protocol, so that each works against any Kafka cluster."""

from collections.abc import Sequence

import typer

from esp.cli.broker import run as run_broker
from esp.cli.consume import consume
from esp.cli.output import print_error
from esp.cli.produce import produce
from esp.cli.topics import topics
from esp.model.errors import OperatorError

app = typer.Typer(
    name="esp",
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


@app.command(
    "broker",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
    rich_help_panel="Nodes",
)
def broker(context: typer.Context) -> None:
    """Run one node in the foreground; see [bold]esp broker --help[/bold]."""
    raise typer.Exit(run_broker(context.args))


app.command("topics", rich_help_panel="Tools")(topics)
app.command("produce", rich_help_panel="Tools")(produce)
app.command("consume", rich_help_panel="Tools")(consume)


def run_tools(arguments: Sequence[str]) -> int:
    """Run a command and return the exit status: 0 done, 1 not done, 2 misused. What is wrong is told on stderr."""
    try:
        app(list(arguments), prog_name="esp")
    except OperatorError as error:
        print_error(error.problem, error.remedy)
        return 1
    except SystemExit as end:  # how typer ends, whatever became of the command
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
