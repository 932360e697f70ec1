"""Options that several commands share."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Final

import typer

from esp.cli.help import ToolCommand
from esp.cli.kafka.command_config import read_command_config, using

BootstrapServer = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT",
        envvar="ESP_BOOTSTRAP_SERVER",
        help="Bootstrap brokers, separated by commas.",
    ),
]
CommandConfig = Annotated[
    str | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        envvar="ESP_COMMAND_CONFIG",
        help="A properties file with settings of the client.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that talks to a cluster the option ``--command-config``, whose file holds for all that it does."""
    signature = inspect.signature(command)
    parameters = list(signature.parameters.values())
    place = 1 + [each.name for each in parameters].index("bootstrap_server")
    added = inspect.Parameter(
        "command_config", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=CommandConfig
    )

    @wraps(command)
    def run(**arguments: Any) -> None:
        path = arguments.pop("command_config")
        with using({} if path is None else read_command_config(path)):
            command(**arguments)

    told: Any = run
    told.__signature__ = signature.replace(parameters=[*parameters[:place], added, *parameters[place:]])
    told.__annotations__ = {**command.__annotations__, "command_config": CommandConfig}
    return run


WHAT_TO_DO: Final = "Actions"
"""Heading, in the help of a command, of the options of which it takes one."""


def action(name: str, text: str) -> Any:
    """An option of which a command takes one."""
    return typer.Option(name, help=text, rich_help_panel=WHAT_TO_DO)


class BareStateCommand(ToolCommand):
    """A command whose options ``--state`` and ``--type`` may stand without a value, which then is empty: as in Kafka's tools."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        following = [*args[1:], "-"]
        return super().parse_args(
            ctx,
            [
                f"{each}=" if each in ("--state", "--type") and after.startswith("-") else each
                for each, after in zip(args, following, strict=False)
            ],
        )
