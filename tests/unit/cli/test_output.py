import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from esp.cli import output

CELLS = st.text("ab-", min_size=1, max_size=20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(CELLS, CELLS), max_size=4))
def test_plain_columns_stand_below_their_headings(capsys, rows):
    output.print_columns([("FIRST", 8), ("SECOND", 0)], rows)
    lines = capsys.readouterr().out.splitlines()
    assert [tuple(line.split()) for line in lines] == [("FIRST", "SECOND"), *rows]
    place = lines[0].index("SECOND")
    assert place >= 9
    assert all(line[place - 1] == " " and line[place] == row[1][0] for line, row in zip(lines[1:], rows, strict=True))


def test_a_table_on_a_terminal_shows_names_as_they_are(monkeypatch, capsys):
    monkeypatch.setattr(output, "console", Console(force_terminal=True, color_system=None, width=80))
    output.print_columns([("GROUP", 15), ("STATE", 0)], [("[red]group", "Stable")])
    assert "[red]group" in capsys.readouterr().out


@pytest.mark.parametrize("is_terminal", [False, True])
def test_names_that_clients_choose_are_no_commands_to_a_terminal(monkeypatch, capsys, is_terminal):
    monkeypatch.setattr(output, "console", Console(force_terminal=is_terminal, color_system=None, width=80))
    output.print_columns([("CLIENT", 0), ("FROM", 0)], [("\x1b]0;mine\x07\n\u202eé\xa0", "here")])
    printed = capsys.readouterr().out
    assert "\\x1b]0;mine\\x07\\n\\u202eé\xa0" in printed
    assert set("\x1b\x07\u202e").isdisjoint(printed)
    assert len(printed.splitlines()) == 2


@pytest.mark.parametrize(
    "write", [output.print_line, output.print_note, output.print_warning, lambda text: output.print_error(text, text)]
)
def test_names_in_sentences_are_no_commands_to_a_terminal_either(monkeypatch, capsys, write):
    monkeypatch.setattr(output, "errors", Console(stderr=True, force_terminal=True, color_system=None, width=80))
    write("the group \x1b]0;mine\x07\u202e\nis\tempty")
    captured = capsys.readouterr()
    printed = captured.out + captured.err
    assert "the group \\x1b]0;mine\\x07\\u202e\nis" in printed
    assert set("\x1b\x07\u202e").isdisjoint(printed)


HOSTILE = "[/red]\x1b]0;mine\x07\x9b2J\u202e\n"
"""Markup of rich that would be an error, a title of the window, an erased screen, reversed text, and a line of its own."""


def test_names_in_json_are_no_commands_to_a_terminal_and_the_same_to_programs(capsys):
    told = {"group": f"é\x7f{HOSTILE}\U000e0041"}
    output.print_json(told)
    [printed] = capsys.readouterr().out.splitlines()
    assert printed.isprintable()
    assert "é" in printed
    assert json.loads(printed) == told


def test_names_in_tables_for_terminals_are_neither_markup_nor_commands(monkeypatch, capsys):
    monkeypatch.setattr(output, "console", Console(force_terminal=True, color_system=None, width=80))
    output.print_table(["HOST"], [(HOSTILE,)], title=HOSTILE)
    printed = capsys.readouterr().out
    assert printed.count(r"[/red]\x1b]0;mine\x07\x9b2J\u202e\n") == 2
    assert set("\x1b\x07\x9b\u202e").isdisjoint(printed)


def test_a_name_in_the_note_that_work_goes_on_is_neither_markup_nor_command(monkeypatch, capsys):
    monkeypatch.setattr(output, "errors", Console(stderr=True, force_terminal=True, color_system=None, width=80))
    with output.working(f"asking for {HOSTILE}"):
        pass
    printed = capsys.readouterr().err
    assert r"asking for [/red]\x1b]0;mine\x07\x9b2J\u202e\n" in printed
    assert set("\x07\x9b\u202e").isdisjoint(printed), "the other escapes draw the spinner"


WORDS = st.text("abc", min_size=1, max_size=60)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(WORDS, WORDS, WORDS), max_size=4), width=st.sampled_from([40, 80, 200]))
def test_a_table_on_a_terminal_cuts_nothing_however_narrow_that_is(monkeypatch, capsys, rows, width):
    monkeypatch.setattr(output, "console", Console(force_terminal=True, color_system=None, width=width))
    output.print_columns([("FIRST", 8), ("SECOND-HEADING", 15), ("THIRD", 0)], rows)
    told = capsys.readouterr().out.split()
    assert [cell for cell in told if set(cell) <= set("abc")] == [cell for row in rows for cell in row]


ADDRESS = "a-very-long-host-name.of-a-data-center.example:9092"


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (40, ["ID: 1", f"ADDRESS: {ADDRESS}", "STATE: alive and well"]),
        (80, ["ID   ADDRESS" + " " * 47 + "STATE", f"1    {ADDRESS}   alive and well"]),
    ],
)
def test_a_row_without_room_for_its_cells_becomes_lines_with_names(monkeypatch, capsys, width, lines):
    monkeypatch.setattr(output, "console", Console(force_terminal=True, color_system=None, width=width))
    output.print_columns([("ID", 4), ("ADDRESS", 21), ("STATE", 0)], [("1", ADDRESS, "alive and well")])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == lines


def test_prose_in_the_last_column_wraps_between_words(monkeypatch, capsys):
    monkeypatch.setattr(output, "console", Console(force_terminal=True, color_system=None, width=40))
    output.print_columns([("RULE", 4), ("FINDS", 0)], [("min-isr-one", "topics that need every copy in sync")])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == ["min-isr-one   topics that need every", "              copy in sync"]


@pytest.mark.parametrize("value", [[{"a": 1}], []])
def test_json_is_one_line(capsys, value):
    output.print_json(value)
    assert capsys.readouterr().out.count("\n") == 1


def test_every_table_of_the_tools_is_laid_out_here():
    folder = Path(output.__file__).parent
    with_tables = {
        path.name for path in folder.rglob("*.py") if re.search(r"rich\.table import .*\bTable\b", path.read_text())
    }
    assert with_tables == {"output.py"}
