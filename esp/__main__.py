"""The command ``esp``.

The commands that run nodes go their own way, past the libraries of the tools (typer, rich, kafka-python): a node is to be ready within a
second.
"""

import importlib
import sys
from typing import Final

_NODE_COMMANDS: Final = {
    "broker": ("esp.cli.node.broker", "run"),
    "cluster": ("esp.cli.node.cluster", "run"),
    "format": ("esp.cli.node.format", "run"),
    "random-uuid": ("esp.cli.node.format", "print_random_uuid"),
}
"""Module and function of each; the function takes the arguments and returns the exit status."""


def main() -> None:
    """Run the command line and exit with its status."""
    arguments = sys.argv[1:]
    module, function = _NODE_COMMANDS.get(arguments[0], ("", "")) if arguments else ("", "")
    if module:
        sys.exit(getattr(importlib.import_module(module), function)(arguments[1:]))
    from esp.cli.app import run_tools  # noqa: PLC0415 - each way loads only what it needs

    sys.exit(run_tools(arguments))


if __name__ == "__main__":
    main()
