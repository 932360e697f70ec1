"""Options that several commands share."""

from typing import Annotated

import typer

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
