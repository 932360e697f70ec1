"""Options that several commands share."""

from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

BootstrapServer = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT",
        envvar="ESP_BOOTSTRAP_SERVER",
        help="The brokers to ask first; several with commas.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

WHAT_TO_DO: Final = "What to do"
"""Heading, in the help of a command, of the options of which it takes one."""


def action(name: str, text: str) -> Any:
    """An option of which a command takes one."""
    return typer.Option(name, help=text, rich_help_panel=WHAT_TO_DO)


class BareStateCommand(TyperCommand):
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
