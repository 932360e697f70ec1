"""The command ``esp``.

``esp broker`` goes its own way, past the libraries of the tools (typer, rich, kafka-python): a node is to be ready within a second.
"""

import sys


def main() -> None:
    """Run the command line and exit with its status."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["broker"]:
        from esp.cli.broker import run  # noqa: PLC0415 - each way loads only what it needs

        sys.exit(run(arguments[1:]))
    from esp.cli.app import run_tools  # noqa: PLC0415 - as above

    sys.exit(run_tools(arguments))


if __name__ == "__main__":
    main()
