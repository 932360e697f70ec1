import re

import pytest
import typer
from rich.console import Console

from esp.cli import output
from esp.cli.app import app, run_tools

NODE_COMMANDS = {
    "broker": ["--config", "--data-dir", "--set", "KEY=VALUE", "--stop-with-stdin", "{debug,info,warning,error}"],
    "cluster": ["start", "restart-node", "status"],
    "cluster start": ["--nodes", "--dir", "--port", "--set", "KEY=VALUE", "--rack-per-node", "--log-level"],
    "cluster restart-node": ["--dir"],
    "cluster status": ["--dir", "--json"],
    "format": ["--config", "--data-dir", "--set", "KEY=VALUE", "--cluster-id"],
    "random-uuid": [],
}
"""Commands that parse their own arguments, with words of their help."""


def tool_commands():
    """Every command that typer parses: its words, itself, and its context."""

    def walk(command, parent, words):
        context = typer.Context(command, info_name=words[-1] if words else "esp", parent=parent)
        if " ".join(words) not in NODE_COMMANDS:
            yield words, command, context
        for name in names_below(command, context):
            yield from walk(command.get_command(context, name), context, [*words, name])

    return list(walk(typer.main.get_command(app), None, []))


def names_below(command, context):
    return command.list_commands(context) if hasattr(command, "list_commands") else []


TOOLS = tool_commands()


@pytest.fixture(params=[40, 80, 200])
def width(request, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(request.param))
    monkeypatch.setattr(output, "console", Console(highlight=False, width=request.param))
    return request.param


def help_of(words, capsys):
    assert run_tools([*words, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(("words", "command", "context"), TOOLS, ids=["-".join(["esp", *words]) for words, *_ in TOOLS])
def test_help_of_a_tool_shows_every_name_and_value_whole(width, capsys, words, command, context):
    told = help_of(words, capsys)
    shown = set(re.split(r"[\s,;\]]+", told))
    for parameter in command.get_params(context):
        if parameter.param_type_name == "option":
            assert set(parameter.opts) <= shown
            assert set(re.split(r"[\s,;\]]+", parameter.metavar or "")) <= shown
            if "--bootstrap-server" in parameter.opts:
                assert {"ESP_BOOTSTRAP_SERVER", "127.0.0.1:9092"} <= shown
    assert set(names_below(command, context)) <= shown
    assert "…" not in told
    assert re.search(r"extra\s+esp(?!\[)", told) is None, "its brackets were taken for markup"
    assert all(len(line) <= width for line in told.splitlines())


@pytest.mark.parametrize(("words", "expected"), NODE_COMMANDS.items(), ids=NODE_COMMANDS)
def test_help_of_a_node_command_shows_every_name_and_value_whole(width, capsys, words, expected):
    told = help_of(words.split(), capsys)
    assert [word for word in expected if word not in told] == []
    assert "--help" in told


def test_help_keeps_the_examples(width, capsys):
    told = " ".join(help_of(["topics"], capsys).split())
    assert "esp topics --create --topic flights --partitions 4 --config retention.ms=-1" in told
