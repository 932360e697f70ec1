"""The layout of ``--help``: names, values and defaults stay whole, however narrow the terminal is.

Typer's own panels give every column a share of the width and cut what does not fit, option names too.
"""

import inspect
from collections.abc import Iterator
from typing import Any, Final

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from esp.cli.output import print_definitions, print_wrapped

_ARGUMENTS: Final = "Arguments"
_OPTIONS: Final = "Options"
_COMMANDS: Final = "Commands"


class ToolCommand(TyperCommand):
    """A command whose help wraps."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  # typer calls it so
        """Print the help; the formatter gets nothing."""
        _print_help(self, ctx)


class ToolGroup(TyperGroup):
    """A group of commands whose help wraps."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  # typer calls it so
        """Print the help; the formatter gets nothing."""
        _print_help(self, ctx)


def wrap_help(tools: typer.Typer) -> None:
    """Have the help of all commands below wrap. A command with a class of its own keeps it: it derives from :class:`ToolCommand`."""
    for command in tools.registered_commands:
        if command.cls in (None, TyperCommand):
            command.cls = ToolCommand
    for group in tools.registered_groups:
        group.cls = ToolGroup
        if group.typer_instance is not None:
            wrap_help(group.typer_instance)


def _print_help(command: Any, ctx: Any) -> None:
    print_wrapped(Text(command.get_usage(ctx), style="bold"), indent=0)
    for paragraph in _paragraphs(command.help or ""):
        print_wrapped(paragraph, indent=2)
    rooms: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        is_argument = parameter.param_type_name == "argument"
        record = parameter.get_help_record(ctx)
        if record is None:  # it is hidden
            continue
        names, text = record
        if is_argument:
            names = names.partition(" <")[0]
        room = getattr(parameter, "rich_help_panel", None) or (_ARGUMENTS if is_argument else _OPTIONS)
        rooms.setdefault(room, []).append((names, text))
    if isinstance(command, TyperGroup):
        for name in command.list_commands(ctx):
            below: Any = command.get_command(ctx, name)
            room = getattr(below, "rich_help_panel", None) or _COMMANDS
            first = next(_paragraphs(below.short_help or below.help or ""), Text())
            rooms.setdefault(room, []).append((name, first.plain))
    width = max((len(name) for rows in rooms.values() for name, _ in rows), default=0)
    for room, rows in rooms.items():
        print_wrapped(Text(room, style="bold"), indent=0)
        print_definitions(rows, width)


def _paragraphs(text: str) -> Iterator[Text]:
    """The paragraphs of a docstring, each on one line."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.strip():
            yield Text.from_markup(" ".join(paragraph.split()))
