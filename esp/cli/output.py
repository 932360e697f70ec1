"""The output of the tools: results to stdout, everything else to stderr."""

import json
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

console = Console(highlight=False)
"""The standard output, for text that is nicer on a terminal."""

errors = Console(stderr=True, highlight=False)
"""The standard error, for progress and mistakes."""

_GAP: Final = 3
"""Cells between two columns on a terminal."""
_WRAPPED_MIN: Final = 24
"""Text in a column that is narrower cannot be read."""
_UNSHOWN: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""The categories of Unicode whose characters end a line, or are commands to a terminal."""


def print_line(text: str) -> None:
    """Write a line to stdout, or several; characters that a terminal would act upon as escapes (:func:`escaped`)."""
    print_content(escaped(text))


def print_content(text: str) -> None:
    """Write a line to stdout as it is: what a file holds, or escapes of its own."""
    sys.stdout.write(text + "\n")


def print_json(value: Any) -> None:
    """Write a value to stdout as one line of JSON; named tuples in it become lists: make mappings of them.

    Characters that a terminal would act upon are written as JSON's own escapes: programs read the same text.
    """
    print_content(_escape_each(msgspec.json.encode(value).decode(), json.dumps))


def print_columns(columns: Sequence[tuple[str, int]], rows: Sequence[Sequence[str | Text]]) -> None:
    """Write rows below their headings: as a table on a terminal, else in plain columns as Kafka's tools do.

    Characters that a terminal would act upon are written as escapes: cells hold names that any client may have chosen.

    Args:
        columns: heading and least width of each.
        rows: their cells.
    """
    rows = [[cell if isinstance(cell, Text) else in_one_line(cell) for cell in row] for row in rows]
    if console.is_terminal:
        print_table([heading for heading, _ in columns], rows)
        return
    headings = [heading for heading, _ in columns]
    lines = [headings, *([str(cell) for cell in row] for row in rows)]
    widths = [max(least, *(len(line[number]) for line in lines)) for number, (_, least) in enumerate(columns)]
    for line in lines:
        print_line(" ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def escaped(text: str) -> str:
    """Return text with escapes for characters that a terminal would act upon: names in it may be of any client's choice.

    Line breaks and tabs stay: they are the tools' own, and no commands.
    """
    return "".join(each if each in "\n\t" else in_one_line(each) for each in text) if not text.isprintable() else text


def in_one_line(text: str) -> str:
    """Return text with escapes for line breaks and tabs, too: for a name within a line, or in a cell of a table."""
    return _escape_each(text, repr)


def _escape_each(text: str, quoted: Callable[[str], str]) -> str:
    """Return text in which each character that a terminal would act upon is replaced by what a function has between its quotes."""
    if text.isprintable():  # nearly always
        return text
    return "".join(quoted(each)[1:-1] if unicodedata.category(each) in _UNSHOWN else each for each in text)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str | Text]], title: str | None = None) -> None:
    """Write a table for a terminal. Where it is wider than the terminal, the last column wraps between words; if it has no room for
    that, each row stands as lines ``heading: cell``, which the terminal breaks where it must. Nothing is cut.

    Texts are escaped as by :func:`print_columns`; a cell that is a rich text already is the tools' own.
    """
    cells = [[cell if isinstance(cell, Text) else Text(in_one_line(cell)) for cell in row] for row in rows]
    widths = [
        max(cell_len(heading), *(row[number].cell_len for row in cells)) if cells else cell_len(heading)
        for number, heading in enumerate(headings)
    ]
    room = console.width - sum(widths[:-1]) - _GAP * (len(widths) - 1)
    last = [word for row in cells for word in row[-1].plain.split()]
    longest_word = max(map(cell_len, [headings[-1], *last]))
    if title:
        console.print(Text(in_one_line(title), style="italic"), soft_wrap=True)
    if widths[-1] <= room or (room >= _WRAPPED_MIN and longest_word <= room):
        table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
        for number, heading in enumerate(headings):
            table.add_column(heading, no_wrap=number < len(headings) - 1)
        for row in cells:
            table.add_row(*row)
        console.print(table)
        return
    for number, row in enumerate(cells):
        if number:
            print_line("")
        for heading, cell in zip(headings, row, strict=True):
            console.print(Text.assemble((f"{heading}:", "bold"), " ", cell), soft_wrap=True)


def print_wrapped(text: Text, indent: int) -> None:
    """Write a paragraph and an empty line, wrapped between words; only a word that is longer than a line is broken."""
    _print_indented(text, indent, " " * indent)
    print_line("")


def print_definitions(rows: Sequence[tuple[str, str]], width: int) -> None:
    """Write names with what they mean, and an empty line: beside each other, or below each other where that leaves no room.

    Args:
        rows: a name and its meaning each.
        width: of the longest name; of several lists, if they shall stand alike.
    """
    column = 2 + width + 2
    if console.width - column < _WRAPPED_MIN:
        column = 6
    for name, meaning in rows:
        head = Text(f"  {name}", style="bold cyan")
        if column - 2 >= head.cell_len:
            head.pad_right(column - head.cell_len)
            _print_indented(Text(meaning), column, head)
        else:
            _print_indented(Text(name, style="bold cyan"), 2, "  ")
            _print_indented(Text(meaning), column, " " * column)
    print_line("")


def _print_indented(text: Text, indent: int, head: Text | str) -> None:
    """Write a text in the room behind an indent; in place of that of the first line stands the head."""
    for line in text.wrap(console, max(1, console.width - indent), overflow="fold"):
        line.rstrip()
        console.print(Text.assemble(head, line), soft_wrap=True)
        head = " " * indent


def print_error(problem: str, remedy: str) -> None:
    """Say what is wrong and what to do, in plain lines that a narrow terminal does not break."""
    errors.print(escaped(f"esp: {problem}"), style="red", markup=False, soft_wrap=True)
    errors.print(escaped(f"  {remedy}"), markup=False, soft_wrap=True)


def print_note(text: str) -> None:
    """Write the note that a command is done to stderr, where stdout is for a result that programs read."""
    errors.print(escaped(text), markup=False, soft_wrap=True)


def print_warning(text: str) -> None:
    """Say what the caller may not expect; the work goes on."""
    errors.print(escaped(f"esp: {text}"), style="yellow", markup=False, soft_wrap=True)


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show on a terminal that something goes on that may take long."""
    if not errors.is_terminal:
        yield
        return
    with errors.status(Text(in_one_line(text))):  # as a str it would be markup
        yield
