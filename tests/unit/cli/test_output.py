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


@pytest.mark.parametrize("value", [[{"a": 1}], []])
def test_json_is_one_line(capsys, value):
    output.print_json(value)
    assert capsys.readouterr().out.count("\n") == 1
